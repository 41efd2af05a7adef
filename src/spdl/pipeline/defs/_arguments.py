"""Failure limits, as several descriptions take them."""

from fractions import Fraction

from spdl.pipeline._numbers import as_int

__all__ = ["check_max_failures", "validate_max_failures"]


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
