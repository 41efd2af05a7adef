"""Checks of arguments that several descriptions share: whole numbers, seconds and failure limits."""

import math
import operator
from fractions import Fraction

__all__ = ["as_int", "as_seconds", "check_max_failures", "validate_max_failures"]


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


def as_seconds(name: str, value: object) -> float:
    """Get ``value`` as a finite ``float``. Real numbers of other kinds count; ``bool`` and text do not.

    Raises:
        TypeError: It is no number; the message has ``name``.
        ValueError: It is not finite.
    """
    if isinstance(value, bool) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__qualname__}")
    number = float(value)  # type: ignore[arg-type]  # it has __float__
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def check_max_failures(value: object) -> int | Fraction:
    """Get ``value`` as a failure limit, judged by its type only.

    Raises:
        TypeError: It is neither an ``int`` nor a :class:`~fractions.Fraction`.
    """
    if isinstance(value, Fraction):
        return value
    try:
        return as_int("max_failures", value)
    except TypeError:
        raise TypeError(
            "max_failures must be an int (a number of failures) or a fractions.Fraction (the share of calls that may "
            f"fail, such as Fraction(1, 10)), got {value!r} of type {type(value).__qualname__}"
        ) from None


def validate_max_failures(value: object, where: str = "") -> int | Fraction:
    """Get ``value`` as a failure limit that a pipeline can be built with.

    Args:
        value: What was given.
        where: Whose limit it is, for the message: ``"stage 'decode'"``.

    Raises:
        TypeError: As :func:`check_max_failures`.
        ValueError: A fraction that is no share: outside of (0, 1].
    """
    limit = check_max_failures(value)
    if isinstance(limit, Fraction) and not 0 < limit <= 1:
        of = f" of {where}" if where else ""
        raise ValueError(f"max_failures{of}, when a Fraction, must be in range (0, 1], got {limit}")
    return limit
