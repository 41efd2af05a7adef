"""Words of ``ImageTransform`` for size and part: which pictures are resized how, and what is cut out of them."""

import math
import operator
from dataclasses import dataclass
from typing import Any, Literal

#: Of pixels along one side: what an int of C holds, and half of it where two are added.
_MOST, _MOST_OF_TWO = 2**31 - 1, 2**30

_POSITIONS = ("center", "top_left")


@dataclass(frozen=True, slots=True)
class ShorterSide:
    """Resize so that the shorter side of the picture has this length, in pixels; the shape stays.

    The longer side becomes ``int(length * longer / shorter)``, as ``Resize(length)`` of torchvision has it. It goes
    with a crop that cuts the result's size out of that: ``CenterCrop()`` or ``RandomCrop()``.
    """

    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", as_pixels("length", self.length))

    def __repr__(self) -> str:
        return f"ShorterSide({self.length})"


@dataclass(frozen=True, slots=True)
class LongerSide:
    """Resize so that the whole picture just fits inside of the result; the shape stays, and the rest is filled.

    Attributes:
        position: Where in the result it is: ``"center"`` or ``"top_left"``.
    """

    position: Literal["center", "top_left"] = "center"

    def __post_init__(self) -> None:
        require_word("position", self.position, _POSITIONS)

    def __repr__(self) -> str:
        return "LongerSide()" if self.position == "center" else f"LongerSide({self.position!r})"


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """Cut the result out of the middle. A picture that is smaller than that is centred, and the rest filled."""


@dataclass(frozen=True, slots=True)
class RandomCrop:
    """Cut the result out anywhere. A picture that is smaller than that is centred, and the rest filled."""


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """Stretch a part of random area and shape to the result, as torchvision's class of that name does.

    Attributes:
        scale: Least and most share of the picture's area, in ``(0, 1]``.
        ratio: Least and most width over height of the part.
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
    """Take this part of the upright picture, in its pixels, for all of it. A picture that does not have it fails."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        for name, least in (("top", 0), ("left", 0), ("height", 1), ("width", 1)):
            object.__setattr__(self, name, as_pixels(name, getattr(self, name), least=least, most=_MOST_OF_TWO))


def as_pixels(name: str, value: Any, *, least: int = 1, most: int = _MOST) -> int:
    """A number of pixels.

    Raises:
        TypeError: It is no integer.
        ValueError: It is out of range.
    """
    number = as_integer(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name} must be {f'>= {least}' if number < least else f'<= {most}'}, got {number}")
    return number


def as_integer(name: str, value: Any) -> int:
    """An integer of Python's; NumPy's will do, ``bool`` will not.

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
    """A number as ``float``; NumPy's will do, text and ``bool`` will not.

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
    """So many numbers: a tuple, of whatever can be iterated over.

    Raises:
        TypeError: It is no sequence, or holds something else.
        ValueError: There are more or fewer, or one is not finite.
    """
    if isinstance(value, str | bytes) or not hasattr(type(value), "__iter__"):
        raise TypeError(f"{name} must be {count} numbers, got {value!r}")
    numbers = tuple(as_number(name, number) for number in value)
    if len(numbers) != count:
        raise ValueError(f"{name} must be {count} numbers, got {value!r}")
    return numbers


def require_word(name: str, value: object, words: tuple[str, ...]) -> None:
    """Raise ``ValueError`` for a word that is none of these, ``TypeError`` for what is no word."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")
