"""The values of ``ImageTransform.resize`` and ``ImageTransform.crop``."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from spdl._numbers import MAX_INT, as_finite, as_int, require_word

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
            pair = as_numbers(name, value, 2)
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


def as_numbers(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Exactly ``count`` numbers, from any iterable, as a tuple.

    Raises:
        TypeError: ``value`` is not iterable, or an item is not a number.
        ValueError: There are more or fewer numbers, or one is not finite.
    """
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        raise TypeError(f"{name} must be {count} numbers, got {value!r}")
    numbers = tuple(as_finite(name, number) for number in value)
    if len(numbers) != count:
        raise ValueError(f"{name} must be {count} numbers, got {value!r}")
    return numbers
