"""Checks of numbers that users give: whole numbers, and durations, for which there is one rule.

A duration is a finite number of seconds, at least 0; above 0 where 0 would make no sense. No limit is ``None``;
infinity says that only for arguments that have no ``None``.
"""

from __future__ import annotations

import math
import operator
from typing import Final

__all__ = ["as_finite", "as_int", "as_interval", "as_seconds", "as_timeout"]

#: Longer timeouts, in seconds, are cut to this: the system's waits take no more, and it is thirty years.
_LONGEST: Final = 1e9


def as_int(name: str, value: object) -> int:
    """Get ``value`` as an ``int``. Integers of other kinds (NumPy's) count; ``bool`` does not.

    Raises:
        TypeError: It is no whole number; the message has ``name``.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # the except clause is the check
        except TypeError:
            pass
    raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__qualname__}")


def as_finite(name: str, value: object) -> float:
    """Get ``value`` as a finite ``float``. Real numbers of other kinds count; ``bool`` and text do not.

    Raises:
        TypeError: It is no number; the message has ``name``.
        ValueError: It is not finite.
    """
    number = _as_float(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def as_seconds(name: str, value: object, *, positive: bool = False, may_be_infinite: bool = False) -> float:
    """Get ``value`` as a duration.

    Args:
        name: Of the argument, for messages.
        value: What was given.
        positive: Whether it must be above 0.
        may_be_infinite: Whether infinity is accepted, for a wait without end.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, NaN or infinite; or 0, if it must be positive.
    """
    number = _as_float(name, value)
    if not (number > 0 if positive else number >= 0) or (number == math.inf and not may_be_infinite):
        least = "> 0" if positive else ">= 0"
        raise ValueError(f"{name} must be {least if may_be_infinite else f'{least} and finite'}, got {number:g}")
    return number


def as_timeout(name: str, value: object, *, positive: bool = False) -> float | None:
    """Get ``value`` as the longest time to wait for something; ``None``: no limit.

    Args:
        name: Of the argument, for messages.
        value: What was given.
        positive: Whether it must be above 0: nothing can be done in no time.

    Raises:
        TypeError: It is neither ``None`` nor a number.
        ValueError: It is negative, NaN or infinite; or 0, if it must be positive.
    """
    if value is None:
        return None
    number = _as_float(name, value)
    if not (math.isfinite(number) and (number > 0 if positive else number >= 0)):
        raise ValueError(f"{name} must be {'>' if positive else '>='} 0 seconds, or None for no limit, got {number:g}")
    return min(number, _LONGEST)


def as_interval(name: str, value: object) -> float:
    """Get ``value`` as the time between two reports. Zero and negative numbers stand for no reports.

    Raises:
        TypeError: It is no number.
        ValueError: It is not finite.
    """
    return as_finite(name, value)


def _as_float(name: str, value: object) -> float:
    if isinstance(value, bool) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__qualname__}")
    try:
        return float(value)  # type: ignore[arg-type]  # it has __float__
    except OverflowError:  # an int beyond all floats
        return math.inf
    except (TypeError, ValueError):  # an array of several numbers
        raise TypeError(f"{name} must be one number, got {value!r} of type {type(value).__qualname__}") from None
