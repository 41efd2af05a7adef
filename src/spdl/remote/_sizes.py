"""Parses sizes in bytes: numbers, or text such as ``"200GiB"``."""

import re
from fractions import Fraction

from spdl._numbers import int_or_none

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T", "P"), 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T", "P"), 1)}
_LOWER = {unit.lower(): factor for unit, factor in _UNITS.items()}


def as_num_bytes(name: str, size: int | str) -> int:
    """A positive number of bytes. Units are those of SI (``GB``: 1000**3) and of IEC (``GiB``: 1024**3).

    Raises:
        TypeError: It is neither an integer nor text.
        ValueError: The text is not a number with a unit, or the number is less than 1.
    """
    given = size if isinstance(size, str) else int_or_none(size)
    if given is None:
        raise TypeError(f"{name} must be a number of bytes or text such as '200GiB', got {size!r}")
    if isinstance(given, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
        factor = None if match is None else _LOWER.get(match[2].lower())
        if match is None or factor is None:
            raise ValueError(f"{name} must be a number with a unit such as '200GiB' or '500MB', got {size!r}")
        number = int(Fraction(match[1]) * factor)
    else:
        number = given
    if number < 1:
        raise ValueError(f"{name} must be >= 1 byte, got {size!r}")
    return number
