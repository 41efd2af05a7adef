"""Checks of numeric arguments: integers and durations.

A duration is a finite number of seconds, >= 0, or > 0 where 0 makes no sense. ``None`` means no limit; infinity is
accepted only for arguments that do not accept ``None``.
"""

from __future__ import annotations

import math
import operator
from typing import Final

#: Upper bound of timeouts, in seconds (about 30 years): the operating system's waits do not accept more.
_LONGEST: Final = 1e9


def as_int(name: str, value: object) -> int:
    """Return ``value`` as an ``int``. Accepts other integer types (NumPy's), but not ``bool``.

    Raises:
        TypeError: ``value`` is not an integer; the message contains ``name``.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # the except clause is the check
        except TypeError:
            pass
    raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__qualname__}")


def as_positive_int(name: str, value: object) -> int:
    """Return ``value`` as a number of things, at least one.

    Raises:
        TypeError: ``value`` is not an integer; the message contains ``name``.
        ValueError: ``value`` is not positive.
    """
    number = as_int(name, value)
    if number < 1:
        raise ValueError(f"{name} must be >= 1, got {number}")
    return number


def int_or_none(value: object) -> int | None:
    """Return ``value`` as an ``int``; ``None`` if it is no integer. For attributes of objects of others."""
    if type(value) is int:
        return value
    try:
        return as_int("value", value)
    except Exception:  # noqa: BLE001 - of the user's class
        return None


def as_finite(name: str, value: object) -> float:
    """Return ``value`` as a finite ``float``. Accepts other real number types, but not ``bool`` or text.

    Raises:
        TypeError: ``value`` is not a number; the message contains ``name``.
        ValueError: ``value`` is not finite.
    """
    number = as_float(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def as_seconds(name: str, value: object, *, positive: bool = False, may_be_infinite: bool = False) -> float:
    """Return ``value`` as a duration.

    Args:
        name: Name of the argument, for messages.
        value: Value to check.
        positive: Whether it must be above 0.
        may_be_infinite: Whether infinity (no limit) is accepted.

    Raises:
        TypeError: ``value`` is not a number.
        ValueError: ``value`` is out of range: negative, NaN, infinite, or 0 if ``positive``.
    """
    number = as_float(name, value)
    if not (number > 0 if positive else number >= 0) or (number == math.inf and not may_be_infinite):
        least = "> 0" if positive else ">= 0"
        raise ValueError(f"{name} must be {least if may_be_infinite else f'{least} and finite'}, got {number:g}")
    return number


def as_timeout(name: str, value: object, *, positive: bool = False) -> float | None:
    """Return ``value`` as a timeout; ``None``: no limit.

    Args:
        name: Name of the argument, for messages.
        value: Value to check.
        positive: Whether it must be above 0.

    Raises:
        TypeError: ``value`` is neither ``None`` nor a number.
        ValueError: ``value`` is negative, NaN, infinite, or 0 if ``positive``.
    """
    if value is None:
        return None
    number = as_float(name, value)
    if not (math.isfinite(number) and (number > 0 if positive else number >= 0)):
        raise ValueError(f"{name} must be {'>' if positive else '>='} 0 seconds, or None for no limit, got {number:g}")
    return min(number, _LONGEST)


def as_interval(name: str, value: object) -> float:
    """Return ``value`` as the time between two reports. Zero and negative numbers mean no reports.

    Raises:
        TypeError: ``value`` is not a number.
        ValueError: ``value`` is not finite.
    """
    return as_finite(name, value)


def as_float(name: str, value: object) -> float:
    """Return ``value`` as a ``float``, which may be infinite or NaN. Accepts other real number types, but not ``bool``.

    Raises:
        TypeError: ``value`` is not a number; the message contains ``name``.
    """
    if isinstance(value, bool) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__qualname__}")
    try:
        return float(value)  # type: ignore[arg-type]  # it has __float__
    except OverflowError:  # an int beyond the range of floats
        return math.inf
    except (TypeError, ValueError):  # an array of several numbers
        raise TypeError(f"{name} must be one number, got {value!r} of type {type(value).__qualname__}") from None
