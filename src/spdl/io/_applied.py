"""What became of one picture, and where its points and boxes went with it."""

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: As native code writes it: source height and width, crop, resized, window, offset, flip, vertical flip.
Plan = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, bool]


@dataclass(frozen=True, slots=True)
class AppliedTransform:
    """The geometry of one transformed picture: which part of it was shown, at which size, where and which way round.

    ``CPUBuffer.applied`` has one for each image of a batch, and ``ImageTransform.plan`` tells it without a picture.
    Given as ``replay``, it does the same again with another picture of the same size, such as a mask or a depth map.

    Coordinates are those of edges, x to the right and y downwards: the picture spans ``[0, width]`` and
    ``[0, height]``, its first pixel ``[0, 1]``, and the centre of that pixel is at 0.5.

    Attributes:
        source_size: Height and width of the picture, upright.
        crop: Top, left, height and width of the part of it that was resampled.
        resized: Height and width that this part became.
        window: Top, left, height and width of what is shown of that.
        offset: Top and left of the window in the result, before flips.
        flip: Whether the result was mirrored left to right.
        vertical_flip: Whether it was mirrored top to bottom.
        size: Height and width of the result.

    Raises:
        ValueError: A part is not inside of what it is a part of.
        TypeError: A number is no integer, or there are too many or too few.
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
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be bool, got {getattr(self, name)!r}")
        for name in ("source_size", "resized", "size"):
            height, width = getattr(self, name)
            # What an int of C holds.
            if not (1 <= height < 2**31 and 1 <= width < 2**31):
                raise ValueError(f"{name} must be two numbers >= 1 and < 2**31, got {(height, width)}")
        _require_inside("crop", self.crop, "source_size", self.source_size)
        _require_inside("window", self.window, "resized", self.resized)
        _require_inside("window at offset", (*self.offset, *self.window[2:]), "size", self.size)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the checks, since native code relies on them.
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
        """What takes a point of the picture to the result: ``matrix() @ (x, y, 1)`` is ``(x, y, 1)`` there.

        Returns:
            ``(3, 3)`` of ``float64``, affine. Its inverse, ``numpy.linalg.inv(matrix())``, goes the other way.
            ``points`` and ``boxes`` do the same with one rounding less.
        """
        import numpy as np

        (scale_x, shift_x), (scale_y, shift_y) = self._line(1), self._line(0)
        return np.array([[scale_x, 0, shift_x], [0, scale_y, shift_y], [0, 0, 1]], np.float64)

    def points(self, points: "ArrayLike") -> "NDArray[np.float64]":
        """Where points of the picture are in the result. Those outside of it are kept.

        Args:
            points: ``(n, 2)``, each x and y; ``n`` may be 0.

        Returns:
            ``(n, 2)`` of ``float64``: a new array.

        Raises:
            ValueError: The shape is another.
        """
        array = _as_rows("points", points, 2)
        return self._moved(array)

    def boxes(self, boxes: "ArrayLike", clip: bool = True) -> "NDArray[np.float64]":
        """Where boxes of the picture are in the result, again with ``x0 <= x1`` and ``y0 <= y1`` after flips.

        Args:
            boxes: ``(n, 4)``, each x0, y0, x1 and y1; ``n`` may be 0.
            clip: Whether to cut off what is outside of the result. A box that is all outside is left with no area, at
                the border; it is not removed, so that labels keep their places.

        Returns:
            ``(n, 4)`` of ``float64``: a new array.

        Raises:
            ValueError: The shape is another.
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
            # Multiplied first: whole numbers stay exact up to the one division.
            line = (points[:, column] - start) * resized / extent + (self.offset[axis] - self.window[axis])
            moved[:, column] = self.size[axis] - line if self._is_mirrored(axis) else line
        return moved

    def _is_mirrored(self, axis: int) -> bool:
        return self.flip if axis == 1 else self.vertical_flip


def applied_of(plan: Plan, size: tuple[int, int]) -> AppliedTransform:
    """What native code did, in words."""
    height, width, crop, resized, window, offset, flip, vertical_flip = plan
    return AppliedTransform(
        (height, width),
        crop,  # type: ignore[arg-type]  # of so many numbers, which the class checks
        resized,  # type: ignore[arg-type]
        window,  # type: ignore[arg-type]
        offset,  # type: ignore[arg-type]
        flip,
        vertical_flip,
        size,
    )


def plan_of(applied: AppliedTransform) -> Plan:
    """The same as native code takes it."""
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
        raise ValueError(f"{name} must be inside of {of} {whole}, got (top, left, height, width) = {part}")


def _as_rows(name: str, values: "ArrayLike", length: int) -> "NDArray[np.float64]":
    import numpy as np

    array = np.asarray(values, np.float64)
    if array.size == 0 and array.ndim <= 2:  # [] has no second axis
        return np.empty((0, length), np.float64)
    if array.ndim != 2 or array.shape[1] != length:
        raise ValueError(f"{name} must have the shape (n, {length}), got {array.shape}")
    return array
