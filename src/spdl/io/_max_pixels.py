"""How many pixels a picture may have, so that a small file cannot take all memory."""

from typing import Any

from ._crops import as_integer

#: What Pillow refuses, too: twice its ``MAX_IMAGE_PIXELS``. Native code has the same default.
MAX_PIXELS = 178_956_970

# FFmpeg and libjpeg count in integers of 32 bits.
_MOST = 2**31 - 1


def as_max_pixels(value: Any) -> int:
    """The argument ``max_pixels`` as native code takes it.

    Raises:
        TypeError: It is no integer.
        ValueError: It is less than 1, or 2**31 or more.
    """
    number = as_integer("max_pixels", value)
    if not 1 <= number <= _MOST:
        raise ValueError(f"max_pixels must be >= 1 and < 2**31, got {number}")
    return number
