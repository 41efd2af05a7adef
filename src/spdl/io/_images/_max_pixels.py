"""The limit on pixels per image, so that a small file cannot use up all memory."""

from typing import Any

from ._crops import as_integer

#: Pillow's limit: twice its ``MAX_IMAGE_PIXELS``. Native code has the same default.
MAX_PIXELS = 178_956_970

# FFmpeg and libjpeg use 32-bit integers.
_MAX_INT = 2**31 - 1


def as_max_pixels(value: Any) -> int:
    """The argument ``max_pixels`` for native code.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is less than 1, or 2**31 or more.
    """
    number = as_integer("max_pixels", value)
    if not 1 <= number <= _MAX_INT:
        raise ValueError(f"max_pixels must be >= 1 and < 2**31, got {number}")
    return number
