"""Argument checks shared by the functions that load and transform images."""

import os
from typing import Any

from spdl.io._arguments import as_integer, as_number
from spdl.io._types import Source

#: The default of ``max_pixels``, so that a small file cannot use up all memory. Pillow's limit: twice its
#: ``MAX_IMAGE_PIXELS``. Native code has the same default.
MAX_PIXELS = 178_956_970

#: Maximum of a C int: the largest number of pixels along one side, and in an image, for FFmpeg and libjpeg.
_MAX_INT = 2**31 - 1


def as_pixels(name: str, value: Any, *, least: int = 1, most: int = _MAX_INT) -> int:
    """Check a number of pixels.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is out of range.
    """
    number = as_integer(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name} must be {f'>= {least}' if number < least else f'<= {most}'}, got {number}")
    return number


def as_num_threads(value: Any) -> int:
    """Check a number of threads; 0 means the caller's thread alone.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is out of range.
    """
    return as_pixels("num_threads", value, least=0)


def as_numbers(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Exactly ``count`` numbers, from any iterable, as a tuple.

    Raises:
        TypeError: ``value`` is not iterable, or an item is not a number.
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


def as_max_pixels(value: Any) -> int:
    """Check the argument ``max_pixels`` and convert it for native code.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is less than 1, or 2**31 or more.
    """
    number = as_integer("max_pixels", value)
    if not 1 <= number <= _MAX_INT:
        raise ValueError(f"max_pixels must be >= 1 and < 2**31, got {number}")
    return number


def as_sources(name: str, sources: Any) -> list[Source]:
    """The sources as a list.

    Raises:
        TypeError: ``sources`` is a single source: its characters or bytes are not sources.
    """
    require_several(name, sources)
    return list(sources)


def require_several(name: str, sources: object) -> None:
    """Raise ``TypeError`` for a single source."""
    if type(sources) is list:  # the usual case; the check below uses an abstract base class, which is slow
        return
    if isinstance(sources, str | bytes | bytearray | memoryview | os.PathLike):
        raise TypeError(f"{name} must be a list of sources, got one of type {type(sources).__name__}: put it in a list")
