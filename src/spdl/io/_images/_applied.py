"""``AppliedTransform``: the geometry that was applied to one image; it also maps points and boxes."""

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spdl._numbers import as_bool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: The tuple that native code uses: source height and width, crop, resized, window, offset, flip, vertical flip.
Plan = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, bool]


@dataclass(frozen=True, slots=True)
class AppliedTransform:
    """The geometry of one transformed image: crop, size after resizing, position in the result, and flips.

    ``CPUBuffer.applied`` has one for each image of a batch; ``ImageTransform.plan`` computes one without an image.
    As an item of ``replay``, it applies the same geometry to another image of the same size, such as a mask or a depth
    map.

    Coordinates are continuous, x to the right and y downwards: the image spans ``[0, width]`` and ``[0, height]``, its
    first pixel ``[0, 1]``, and the centre of that pixel is at 0.5.

    Attributes:
        source_size: Height and width of the upright image.
        crop: Top, left, height and width of the region of the image that was resampled.
        resized: Height and width of that region after resampling.
        window: Top, left, height and width of the region of the resampled crop that is in the result.
        offset: Top and left of the window in the result, before flips.
        flip: Whether the result was mirrored left to right.
        vertical_flip: Whether the result was mirrored top to bottom.
        size: Height and width of the result.

    Raises:
        ValueError: The crop is not inside the image, or the window is not inside the resized crop or the result.
        TypeError: A number is not an integer, or there are too many or too few.
    """

    source_size: tuple[int, int]
    crop: tuple[int, int, int, int]
    resized: tuple[int, int]
    window: tuple[int, int, int, int]
    offset: tuple[int, int]
    flip: bool
    vertical_flip: bool
    size: tuple[int, int]

    def __post_init__(self) -> None:
        for name, count in (("source_size", 2), ("crop", 4), ("resized", 2), ("window", 4), ("offset", 2), ("size", 2)):
            numbers = _as_integers(name, getattr(self, name), count)
            object.__setattr__(self, name, numbers)
        for name in ("flip", "vertical_flip"):
            object.__setattr__(self, name, as_bool(name, getattr(self, name)))
        for name in ("source_size", "resized", "size"):
            height, width = getattr(self, name)
            # The range of a C int.
            if not (1 <= height < 2**31 and 1 <= width < 2**31):
                raise ValueError(f"{name} must be two numbers >= 1 and < 2**31, got {(height, width)}")
        _require_inside("crop", self.crop, "source_size", self.source_size)
        _require_inside("window", self.window, "resized", self.resized)
        _require_inside("window at offset", (*self.offset, *self.window[2:]), "size", self.size)

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling runs the checks, because native code relies on them.
        return AppliedTransform, (
            self.source_size,
            self.crop,
            self.resized,
            self.window,
            self.offset,
            self.flip,
            self.vertical_flip,
            self.size,
        )

    def matrix(self) -> "NDArray[np.float64]":
        """Compute the matrix that maps a point of the image to the result: ``matrix() @ (x, y, 1)``.

        Returns:
            ``(3, 3)`` ``float64``, affine. Its inverse, ``numpy.linalg.inv(matrix())``, maps the result to the image.
            ``points`` and ``boxes`` apply the same mapping with one rounding less.
        """
        import numpy as np

        (scale_x, shift_x), (scale_y, shift_y) = self._line(1), self._line(0)
        return np.array([[scale_x, 0, shift_x], [0, scale_y, shift_y], [0, 0, 1]], np.float64)

    def points(self, points: "ArrayLike") -> "NDArray[np.float64]":
        """Map points of the image to the result. Points outside the result are kept.

        Args:
            points: Array ``(n, 2)`` of x and y; ``n`` may be 0.

        Returns:
            ``(n, 2)`` ``float64``, a new array.

        Raises:
            ValueError: ``points`` has another shape.
        """
        array = _as_rows("points", points, 2)
        return self._moved(array)

    def boxes(self, boxes: "ArrayLike", clip: bool = True) -> "NDArray[np.float64]":
        """Map boxes of the image to the result. After flips, ``x0 <= x1`` and ``y0 <= y1`` still hold.

        Args:
            boxes: Array ``(n, 4)`` of x0, y0, x1 and y1; ``n`` may be 0.
            clip: Whether to clip boxes to the result. A box that lies completely outside gets zero area at the border.
                It is not removed, so that labels still match.

        Returns:
            ``(n, 4)`` ``float64``, a new array.

        Raises:
            ValueError: ``boxes`` has another shape.
        """
        import numpy as np

        array = _as_rows("boxes", boxes, 4)
        moved = self._moved(array.reshape(-1, 2)).reshape(-1, 4)
        if self.flip:
            moved[:, [0, 2]] = moved[:, [2, 0]]
        if self.vertical_flip:
            moved[:, [1, 3]] = moved[:, [3, 1]]
        if clip:
            height, width = self.size
            np.clip(moved, 0, (width, height, width, height), out=moved)
        return moved

    def _line(self, axis: int) -> tuple[float, float]:
        """Scale and shift along an axis: 0 for y, 1 for x."""
        start, extent, resized = self.crop[axis], self.crop[2 + axis], self.resized[axis]
        shift = (self.offset[axis] - self.window[axis]) - start * resized / extent
        if self._is_mirrored(axis):
            return -resized / extent, self.size[axis] - shift
        return resized / extent, shift

    def _moved(self, points: "NDArray[np.float64]") -> "NDArray[np.float64]":
        import numpy as np

        moved = np.empty_like(points)
        for axis, column in ((0, 1), (1, 0)):
            start, extent, resized = self.crop[axis], self.crop[2 + axis], self.resized[axis]
            # Multiplying first keeps integers exact up to the single division.
            line = (points[:, column] - start) * resized / extent + (self.offset[axis] - self.window[axis])
            moved[:, column] = self.size[axis] - line if self._is_mirrored(axis) else line
        return moved

    def _is_mirrored(self, axis: int) -> bool:
        return self.flip if axis == 1 else self.vertical_flip


def applied_of(plan: Plan, size: tuple[int, int]) -> AppliedTransform:
    """The geometry from native code as an ``AppliedTransform``."""
    height, width, crop, resized, window, offset, flip, vertical_flip = plan
    return AppliedTransform(
        (height, width),
        crop,  # type: ignore[arg-type]  # the class checks the number of items
        resized,  # type: ignore[arg-type]
        window,  # type: ignore[arg-type]
        offset,  # type: ignore[arg-type]
        flip,
        vertical_flip,
        size,
    )


def plan_of(applied: AppliedTransform) -> Plan:
    """The geometry as the tuple that native code uses; the inverse of ``applied_of``."""
    return (
        *applied.source_size,
        applied.crop,
        applied.resized,
        applied.window,
        applied.offset,
        applied.flip,
        applied.vertical_flip,
    )


def _as_integers(name: str, value: Any, count: int) -> tuple[int, ...]:
    try:
        numbers = tuple(map(operator.index, value))
    except TypeError:
        numbers = ()
    if len(numbers) != count:
        raise TypeError(f"{name} must be {count} integers, got {value!r}")
    return numbers


def _require_inside(name: str, part: tuple[int, int, int, int], of: str, whole: tuple[int, int]) -> None:
    top, left, height, width = part
    if top < 0 or left < 0 or not (1 <= height <= whole[0] - top and 1 <= width <= whole[1] - left):
        raise ValueError(f"{name} must be inside {of} {whole}, got (top, left, height, width) = {part}")


def _as_rows(name: str, values: "ArrayLike", length: int) -> "NDArray[np.float64]":
    import numpy as np

    array = np.asarray(values, np.float64)
    if array.size == 0 and array.ndim <= 2:  # [] has no second axis
        return np.empty((0, length), np.float64)
    if array.ndim != 2 or array.shape[1] != length:
        raise ValueError(f"{name} must have the shape (n, {length}), got {array.shape}")
    return array
