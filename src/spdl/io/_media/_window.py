"""Time windows: check the user's bounds and convert them to seconds."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsFloat

_ACCEPTED = "(start, end) in seconds, each a number, Fraction, Decimal or text such as '1/3'"


def as_window(window: Any, argument: str, *, may_be_endless: bool = False) -> tuple[float, float] | None:
    """Start and end as the nearest floats; ``None`` for ``None``.

    Args:
        window: The user's window.
        argument: Name of the argument, for messages.
        may_be_endless: Whether the end may be infinite.

    Raises:
        TypeError: ``window`` is not a pair, or a bound is neither a number nor text.
        ValueError: ``window`` does not have two bounds, or one is NaN or not a number.
        OverflowError: A bound is infinite, other than such an end.
    """
    if window is None:
        return None
    start, end = bounds_of(window, argument)
    seconds = as_seconds(start, argument), as_seconds(end, argument)
    for given, bound in zip((start, end), seconds, strict=True):
        if math.isinf(bound) and not (may_be_endless and given is end and bound > 0):
            raise OverflowError(f"a bound of {argument} must be finite, got {given!r}")
    return seconds


def bounds_of(window: Any, argument: str) -> tuple[Any, Any]:
    """The two bounds, unconverted.

    Raises:
        TypeError: ``window`` is not a pair.
        ValueError: ``window`` does not have two bounds.
    """
    if isinstance(window, str | bytes | set | frozenset | dict):
        raise TypeError(f"{argument} must be {_ACCEPTED}, got {window!r}")
    try:
        bounds = tuple(window)
    except TypeError:
        raise TypeError(f"{argument} must be {_ACCEPTED}, got {window!r}") from None
    if len(bounds) != 2:
        raise ValueError(f"{argument} must be {_ACCEPTED}, got {len(bounds)} bounds: {window!r}")
    return bounds[0], bounds[1]


def as_seconds(bound: Any, argument: str) -> float:
    """A bound as the nearest float, which may be infinite.

    Raises:
        TypeError: It is neither a number nor text.
        ValueError: It is NaN, or text that is not a number.
        OverflowError: It is beyond the range of floats.
    """
    if not isinstance(bound, str | Decimal | SupportsFloat) and not hasattr(bound, "__index__"):
        raise TypeError(f"a bound of {argument} must be a number of seconds or text such as '1/3', got {bound!r}")
    try:
        seconds = _float_of(bound)
    except OverflowError:
        raise OverflowError(f"a bound of {argument} must be finite, got {bound!r}") from None
    except (ValueError, ArithmeticError):
        seconds = math.nan
    if math.isnan(seconds):
        raise ValueError(
            f"a bound of {argument} must be a number of seconds or text such as '1/3' or '0.5', got {bound!r}"
        )
    return seconds


def _float_of(bound: Any) -> float:
    if not isinstance(bound, str):
        return float(bound)
    try:
        return float(Fraction(bound))  # text may be a fraction
    except ValueError:
        return float(bound)  # such as "inf"
