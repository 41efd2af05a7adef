"""``ImageTransform`` and its crops: geometry, flips, colour format, dtype and layout for each image of a batch."""

import atexit
import dataclasses
import functools
import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl._numbers import MAX_INT, as_bool, as_finite, as_int, require_word
from spdl.io import _native

from ._applied import AppliedTransform, applied_of
from ._seeds import as_seed

if TYPE_CHECKING:
    from spdl.io._native import Transform

_INTERPOLATIONS = ("nearest", "box", "bilinear", "bicubic", "lanczos")
_CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1, "rgba": 4, "ycbcr": 3}
_DTYPES = ("uint8", "float16", "bfloat16", "float32")
_LAYOUTS = ("NHWC", "NCHW")
_Four: TypeAlias = tuple[float, float, float, float]
# The largest finite float32.
_MAX_FLOAT32 = 3.4028234663852886e38
#: Largest length of a side, in pixels, where two sides are added: half the maximum of a C int.
_MAX_INT_HALF = 2**30

_POSITIONS = ("center", "top_left")


@dataclass(frozen=True, slots=True)
class ShorterSide:
    """Resize so that the shorter side of the image has this length, in pixels, and keep the aspect ratio.

    The longer side becomes ``int(length * longer / shorter)``, as in torchvision's ``Resize(length)``. Requires
    ``CenterCrop()`` or ``RandomCrop()``, which then crops the result's size.
    """

    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", as_int("length", self.length, 1, MAX_INT))

    def __repr__(self) -> str:
        return f"ShorterSide({self.length})"


@dataclass(frozen=True, slots=True)
class LongerSide:
    """Resize so that the whole image just fits into the result, keep the aspect ratio, and fill the rest.

    Attributes:
        position: Position of the image in the result: ``"center"`` or ``"top_left"``.
    """

    position: Literal["center", "top_left"] = "center"

    def __post_init__(self) -> None:
        require_word("position", self.position, _POSITIONS)

    def __repr__(self) -> str:
        return "LongerSide()" if self.position == "center" else f"LongerSide({self.position!r})"


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """Crop the result's size from the centre. An image that is smaller is centred, and the rest is filled."""


@dataclass(frozen=True, slots=True)
class RandomCrop:
    """Crop the result's size at a random position. An image that is smaller is centred, and the rest is filled."""


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """Stretch a crop of random area and aspect ratio to the result's size, like torchvision's class of that name.

    Attributes:
        scale: Smallest and largest share of the image's area, in ``(0, 1]``.
        ratio: Smallest and largest aspect ratio (width over height) of the crop.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        for name, most in (("scale", 1.0), ("ratio", math.inf)):
            value = getattr(self, name)
            pair = _as_numbers(name, value, 2)
            low, high = pair
            if not 0 < low <= high <= most or math.isinf(high):
                limit = f" <= {most:g}" if most < math.inf else ""
                raise ValueError(f"{name} must be (low, high) with 0 < low <= high{limit}, got {value!r}")
            object.__setattr__(self, name, pair)


@dataclass(frozen=True, slots=True)
class Crop:
    """Use this region of the upright image, in pixels, instead of the whole image. It must lie inside the image."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        for name, least in (("top", 0), ("left", 0), ("height", 1), ("width", 1)):
            object.__setattr__(self, name, as_int(name, getattr(self, name), least, _MAX_INT_HALF))


AnyCrop: TypeAlias = CenterCrop | RandomCrop | RandomResizedCrop | Crop


@dataclass(frozen=True, slots=True, repr=False)
class ImageTransform:
    """The transform that ``load_image_batch`` applies to each image. Immutable, hashable, and cheap to pickle::

        train = ImageTransform(224, crop=RandomResizedCrop(), flip=0.5)
        val = ImageTransform(
            224, resize=ShorterSide(256), crop=CenterCrop(), dtype="float32", layout="NCHW",
            mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225),
        )

    With neither ``resize`` nor ``crop``, the image is stretched to ``size``.

    Attributes:
        size: Height and width of the result, in pixels, or one number for both.
        resize: ``ShorterSide(length)``: resize to that length before ``CenterCrop()`` or ``RandomCrop()``.
            ``LongerSide()``: resize so that the whole image fits. ``None``: as ``crop`` requires.
        crop: ``CenterCrop()`` or ``RandomCrop()``: crop ``size`` from the image. ``RandomResizedCrop()``: stretch a
            random crop to ``size``. ``Crop(top, left, height, width)``: use that region instead of the whole image.
        flip: Probability that the result is mirrored left to right, from 0 to 1.
        vertical_flip: Probability that the result is mirrored top to bottom, from 0 to 1.
        interpolation: ``"nearest"``, ``"box"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``: Pillow's filters.
            When shrinking, all but ``"nearest"`` are antialiased.
        color: Colour format: ``"rgb"``, ``"bgr"``, ``"gray"``; ``"rgba"``, where alpha is 255 if the image has none;
            ``"ycbcr"``, full-range BT.601 as in JPEG.
        dtype: ``"uint8"``: levels from 0 to 255. ``"float32"``, ``"float16"``, ``"bfloat16"``:
            ``(level / 255 - mean) / std``.
        mean: One number, or one per channel in the order of ``color``; ``None`` is 0. For floating point only.
        std: One number > 0, or one per channel; ``None`` is 1. For floating point only.
        layout: ``"NHWC"``: channels last; ``"NCHW"``: one plane per channel.
        fill: Level of the area that the image does not cover, from 0 to 255, or one per channel. It is normalised like
            the image.
        orient: Whether to turn images upright first, according to their EXIF data or image properties.
        exact: Whether to give the same bytes as Pillow: decode at full size, crop, then resize with Pillow's
            arithmetic. ``False`` is faster and differs by half a level on average: JPEG is decoded at a smaller size
            where possible, and only the region that is needed; each plane is resampled from its own resolution.

    Raises:
        ValueError: A value is not one of those above, or values contradict each other; the message says what to use.
        TypeError: A value has the wrong type.
    """

    size: int | tuple[int, int]
    _: KW_ONLY
    resize: ShorterSide | LongerSide | None = None
    crop: AnyCrop | None = None
    flip: float = 0.0
    vertical_flip: float = 0.0
    interpolation: Literal["nearest", "box", "bilinear", "bicubic", "lanczos"] = "bilinear"
    color: Literal["rgb", "bgr", "gray", "rgba", "ycbcr"] = "rgb"
    dtype: Literal["uint8", "float16", "bfloat16", "float32"] = "uint8"
    mean: float | tuple[float, ...] | None = None
    std: float | tuple[float, ...] | None = None
    layout: Literal["NHWC", "NCHW"] = "NHWC"
    fill: int | tuple[int, ...] = 0
    orient: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        self._set("size", _as_size(self.size))
        for name in ("flip", "vertical_flip"):
            probability = as_finite(name, getattr(self, name))
            if not 0 <= probability <= 1:
                raise ValueError(f"{name} must be a probability, from 0 to 1, got {probability:g}")
            self._set(name, probability)
        require_word("interpolation", self.interpolation, _INTERPOLATIONS)
        require_word("color", self.color, tuple(_CHANNELS))
        require_word("dtype", self.dtype, _DTYPES)
        require_word("layout", self.layout, _LAYOUTS)
        for name in ("orient", "exact"):
            self._set(name, as_bool(name, getattr(self, name)))
        self._set("fill", _as_fill(self.fill, self.color))
        self._check_normalization()
        self._check_geometry()
        if self.exact and self.color == "ycbcr":
            raise ValueError("exact=True decodes to RGB, and color='ycbcr' keeps the coded planes: choose one of them")

    def __repr__(self) -> str:
        # Only values that are not the default, so that log lines stay readable.
        values = [(field.name, getattr(self, field.name), field.default) for field in dataclasses.fields(self)]
        return f"ImageTransform({', '.join(f'{name}={value!r}' for name, value, usual in values if value != usual)})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image: height, width and channels, in the order of ``layout``."""
        height, width = _as_size(self.size)
        channels = _CHANNELS[self.color]
        return (height, width, channels) if self.layout == "NHWC" else (channels, height, width)

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed, so that seeds are required."""
        return isinstance(self.crop, RandomCrop | RandomResizedCrop) or 0 < self.flip < 1 or 0 < self.vertical_flip < 1

    def plan(self, height: int, width: int, seed: int = 0) -> AppliedTransform:
        """Compute the geometry for an image of this size, without loading an image.

        Args:
            height: Height of the upright image, in pixels.
            width: Width of the upright image, in pixels.
            seed: Seed, as in ``seeds`` of ``load_image_batch``. Used only if the transform is random.

        Raises:
            DecodeError: ``crop`` is not inside the image.
            ValueError: A number is out of range.
            TypeError: A number is not an integer.
            NativeLibraryError: The native part is missing.
        """
        seed = as_seed("seed", seed)
        plan = native_transform(self).plan(
            as_int("height", height, 1, MAX_INT), as_int("width", width, 1, MAX_INT), seed
        )
        return applied_of(plan, _as_size(self.size))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_normalization(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if value is None:
                continue
            if self.dtype == "uint8":
                raise ValueError(f"{name} is for floating point, and dtype is 'uint8': use 'float32', or leave it out")
            # A single number is kept as it is, so that `replace` can change the color.
            self._set(
                name, _as_numbers(name, value, _CHANNELS[self.color]) if _is_many(value) else as_finite(name, value)
            )
        if self.std is not None and not all(number > 0 for number in _per_channel(self.std, self.color)):
            raise ValueError(f"std must be > 0, got {self.std!r}")
        factors, summands = _normalization(self)
        if max(map(abs, (*factors, *summands))) > _MAX_FLOAT32:
            raise ValueError(f"mean={self.mean!r} and std={self.std!r} give values beyond float32: use a larger std")

    def _check_geometry(self) -> None:
        resize, crop, size = self.resize, self.crop, _as_size(self.size)
        if resize is not None and not isinstance(resize, ShorterSide | LongerSide):
            raise TypeError(f"resize must be ShorterSide(...), LongerSide(...) or None, got {resize!r}")
        if crop is not None and not isinstance(crop, CenterCrop | RandomCrop | RandomResizedCrop | Crop):
            raise TypeError(
                f"crop must be CenterCrop(), RandomCrop(), RandomResizedCrop(...), Crop(...) or None, got {crop!r}"
            )
        if isinstance(resize, ShorterSide):
            if not isinstance(crop, CenterCrop | RandomCrop):
                raise ValueError(
                    f"resize={resize!r} leaves pictures of different shapes: it needs crop=CenterCrop() or"
                    f" crop=RandomCrop(), got crop={crop!r}"
                )
            if resize.length < max(size):
                raise ValueError(
                    f"resize={resize!r} leaves pictures smaller than size={size}: length must be >= {max(size)}"
                )
        if isinstance(resize, LongerSide) and not (crop is None or isinstance(crop, Crop)):
            raise ValueError(
                f"resize={resize!r} fits the whole picture inside size={size}, which leaves nothing for crop={crop!r}:"
                " use ShorterSide(length), or leave one of them out"
            )


@functools.lru_cache(maxsize=64)
def native_transform(transform: ImageTransform) -> "Transform":
    """The native object for a transform. Equal transforms share one object, as long as it is in the cache."""
    height, width = _as_size(transform.size)
    resize, crop = transform.resize, transform.crop
    factor, summand = _normalization(transform)
    resized_crop = crop if isinstance(crop, RandomResizedCrop) else RandomResizedCrop()
    given = (crop.top, crop.left, crop.height, crop.width) if isinstance(crop, Crop) else (0, 0, 0, 0)
    return _native.core.Transform(
        height=height,
        width=width,
        resize=_RESIZES[type(resize)],
        side=resize.length if isinstance(resize, ShorterSide) else 0,
        is_centered=not isinstance(resize, LongerSide) or resize.position == "center",
        crop=_CROPS[type(crop)],
        scale=resized_crop.scale,
        ratio=resized_crop.ratio,
        given=given,
        flip=transform.flip,
        vertical_flip=transform.vertical_flip,
        interpolation=transform.interpolation,
        color=transform.color,
        dtype=transform.dtype,
        layout=transform.layout,
        factor=factor,
        summand=summand,
        fill=_four(_per_channel(transform.fill, transform.color), 0),
        orient=transform.orient,
        exact=transform.exact,
    )


# The cache is cleared at exit. Once NumPy has been imported, the overloads that `typing` registers outlive the
# interpreter, with everything that their modules refer to. Native objects must not outlive it.
atexit.register(native_transform.cache_clear)

# Names in native code.
_RESIZES = {type(None): "none", ShorterSide: "shorter_side", LongerSide: "fit"}
_CROPS = {
    type(None): "none",
    CenterCrop: "center",
    RandomCrop: "random",
    RandomResizedCrop: "random_resized",
    Crop: "given",
}


def _normalization(transform: ImageTransform) -> tuple[_Four, _Four]:
    """Factor and summand of four channels, so that ``(level / 255 - mean) / std == level * factor + summand``."""
    if transform.dtype == "uint8":
        return _four((), 1.0), _four((), 0.0)
    mean = _per_channel(0.0 if transform.mean is None else transform.mean, transform.color)
    std = _per_channel(1.0 if transform.std is None else transform.std, transform.color)
    factor = tuple(1 / (255 * number) for number in std)
    # Subtracting from 0 avoids -0.
    summand = tuple(0.0 - centre / number for centre, number in zip(mean, std, strict=True))
    return _four(factor, 1.0), _four(summand, 0.0)


def _as_size(value: Any) -> tuple[int, int]:
    if not _is_many(value):
        side = as_int("size", value, 1, MAX_INT)
        return side, side
    sides = tuple(as_int("size", side, 1, MAX_INT) for side in value)
    if len(sides) != 2:
        raise ValueError(f"size must be (height, width) or one number for both, got {value!r}")
    return sides


def _as_fill(value: Any, color: str) -> int | tuple[int, ...]:
    levels = tuple(as_int("fill", level) for level in (value if _is_many(value) else (value,)))
    if _is_many(value) and len(levels) != _CHANNELS[color]:
        raise ValueError(f"fill must be one level, or {_CHANNELS[color]} for color={color!r}, got {value!r}")
    if not all(0 <= level <= 255 for level in levels):
        raise ValueError(f"fill must be a level from 0 to 255, got {value!r}")
    return levels if _is_many(value) else levels[0]


def _is_many(value: Any) -> bool:
    return hasattr(type(value), "__len__") and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0


def _per_channel(value: Any, color: str) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,) * _CHANNELS[color]


def _four(values: tuple[Any, ...], rest: Any) -> tuple[Any, Any, Any, Any]:
    first, second, third, fourth = values + (rest,) * (4 - len(values))
    return first, second, third, fourth


def _as_numbers(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Exactly ``count`` finite numbers, from any iterable, as a tuple. Raises ``TypeError`` or ``ValueError``."""
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        raise TypeError(f"{name} must be {count} numbers, got {value!r}")
    numbers = tuple(as_finite(name, number) for number in value)
    if len(numbers) != count:
        raise ValueError(f"{name} must be {count} numbers, got {value!r}")
    return numbers
