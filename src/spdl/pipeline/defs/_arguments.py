"""Checks of ``max_failures``, which several descriptions take."""

from fractions import Fraction

from spdl._numbers import as_int

from ._rate import MaxFailures, Rate


def check_max_failures(value: object) -> MaxFailures:
    """Return ``value`` as a failure limit. Checks only the type.

    Raises:
        TypeError: ``value`` is neither an ``int``, a :class:`~fractions.Fraction`, nor a :class:`Rate`.
    """
    if isinstance(value, Fraction | Rate):
        return value
    try:
        return as_int("max_failures", value)
    except TypeError:
        raise TypeError(
            "max_failures must be an int (a number of failures), a fractions.Fraction (the share of calls that may "
            "fail, such as Fraction(1, 10)), or a spdl.pipeline.Rate (the share of the newest calls, such as "
            f"Rate(1/100, per=1000)), got {value!r} of type {type(value).__qualname__}"
        ) from None


def validate_max_failures(value: object, where: str = "") -> MaxFailures:
    """Return ``value`` as a failure limit, checking type and range.

    Args:
        value: Value to check.
        where: Owner of the limit, for the message: ``"stage 'decode'"``.

    Raises:
        TypeError: ``value`` is neither an ``int``, a :class:`~fractions.Fraction`, nor a :class:`Rate`.
        ValueError: ``value`` is a fraction outside (0, 1].
    """
    limit = check_max_failures(value)
    if isinstance(limit, Fraction) and not 0 < limit <= 1:
        of = f" of {where}" if where else ""
        raise ValueError(f"max_failures{of}, when a Fraction, must be in range (0, 1], got {limit}")
    return limit
