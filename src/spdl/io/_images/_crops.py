"""How ``ImageTransform`` resizes and crops, and the checks of its arguments."""

import math
import operator
from dataclasses import dataclass
from typing import Any, Literal

#: Largest number of pixels along one side: what a C int holds, and half of it where two are added.
_MAX_INT, _MAX_INT_HALF = 2**31 - 1, 2**30

_POSITIONS = ("center", "top_left")


@dataclass(frozen=True, slots=True)
class ShorterSide:
    """Resize so that the shorter side of the image has this length, in pixels, and keep the aspect ratio.

    The longer side becomes ``int(length * longer / shorter)``, as in torchvision's ``Resize(length)``. It requires
    ``CenterCrop()`` or ``RandomCrop()``, which crops the result's size from that.
    """

    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", as_pixels("length", self.length))

    def __repr__(self) -> str:
        return f"ShorterSide({self.length})"


@dataclass(frozen=True, slots=True)
class LongerSide:
    """Resize so that the whole image just fits inside the result, keep the aspect ratio, and fill the rest.

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
    """Stretch a crop of random area and aspect ratio to the result, like torchvision's class of that name.

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
    """Use this part of the upright image, in its pixels, instead of the whole. It must lie inside the image."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        for name, least in (("top", 0), ("left", 0), ("height", 1), ("width", 1)):
            object.__setattr__(self, name, as_pixels(name, getattr(self, name), least=least, most=_MAX_INT_HALF))


def as_pixels(name: str, value: Any, *, least: int = 1, most: int = _MAX_INT) -> int:
    """A number of pixels.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is out of range.
    """
    number = as_integer(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name} must be {f'>= {least}' if number < least else f'<= {most}'}, got {number}")
    return number


def as_integer(name: str, value: Any) -> int:
    """A Python integer. NumPy integers are accepted, ``bool`` is not.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer, got {value!r}")


def as_number(name: str, value: Any) -> float:
    """A number as ``float``. NumPy numbers are accepted, text and ``bool`` are not.

    Raises:
        TypeError: It is something else.
        ValueError: It is not finite.
    """
    if isinstance(value, str | bytes | bool) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):  # an array or tensor of several
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number


def as_numbers(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Exactly ``count`` numbers, from any iterable, as a tuple.

    Raises:
        TypeError: It is not iterable, or an item is not a number.
        ValueError: There are more or fewer numbers, or one is not finite.
    """
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        raise TypeError(f"{name} must be {count} numbers, got {value!r}")
    numbers = tuple(as_number(name, number) for number in value)
    if len(numbers) != count:
        raise ValueError(f"{name} must be {count} numbers, got {value!r}")
    return numbers


def require_word(name: str, value: object, words: tuple[str, ...]) -> None:
    """Raise ``ValueError`` for text that is not one of ``words``, ``TypeError`` for anything that is not text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")
