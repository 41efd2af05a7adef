"""Time windows: check the user's bounds and convert them to seconds."""

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, SupportsFloat

_ACCEPTED = "(start, end) in seconds, each a number, Fraction, Decimal or text such as '1/3'"


def as_window(
    window: Any, argument: str, *, may_be_endless: bool = False, of_pictures: bool = False
) -> tuple[float, float] | None:
    """Start and end as the nearest floats; ``None`` for ``None``. With ``may_be_endless``, the end may be infinite.

    ``argument``: name of the argument, for messages. ``of_pictures``: whether a bound of lower precision means the
    shortest number that it can stand for, so that it selects the same tick as the float.

    Raises ``TypeError``, ``ValueError``, or ``OverflowError`` for an infinite bound.
    """
    if window is None:
        return None
    start, end = bounds_of(window, argument)
    if of_pictures:
        start, end = _as_written(start), _as_written(end)
    seconds = as_seconds(start, argument), as_seconds(end, argument)
    for given, bound in zip((start, end), seconds, strict=True):
        if math.isinf(bound) and not (may_be_endless and given is end and bound > 0):
            raise OverflowError(f"a bound of {argument} must be finite, got {given!r}")
    return seconds


def bounds_of(window: Any, argument: str) -> tuple[Any, Any]:
    """The two bounds, unconverted. Raises ``TypeError`` or ``ValueError``."""
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
    """A bound, a number or text, as the nearest float, which may be infinite.

    Raises ``TypeError``, ``ValueError``, or ``OverflowError`` beyond the range of floats.
    """
    is_bool = type(bound).__name__ in ("bool", "bool_")  # NumPy's, too
    try:
        if is_bool or (not isinstance(bound, str | Decimal | SupportsFloat) and not hasattr(bound, "__index__")):
            raise TypeError
        seconds = _float_of(bound)
    except TypeError:  # an array of several numbers, too
        raise TypeError(
            f"a bound of {argument} must be a number of seconds or text such as '1/3', got {bound!r}"
        ) from None
    except OverflowError:
        raise OverflowError(f"a bound of {argument} must be finite, got {bound!r}") from None
    except (ValueError, ArithmeticError):
        seconds = math.nan
    if math.isnan(seconds):
        raise ValueError(
            f"a bound of {argument} must be a number of seconds or text such as '1/3' or '0.5', got {bound!r}"
        )
    return seconds


def nearest_tick(time: Any, argument: str, time_base: tuple[int, int]) -> int:
    """The multiple of ``time_base``, a fraction of a second, nearest to a time in seconds; of two, the later one.

    Floats are inexact: one that is as near to the middle of two ticks as its precision allows means the middle. Times
    beyond 64 bits of ticks are cut off. Raises as ``as_seconds`` does.
    """
    time = _as_written(time)
    seconds = as_seconds(time, argument)
    if math.isinf(seconds):
        return 2**63 - 1 if seconds > 0 else -(2**63)
    if isinstance(time, str | Decimal | Rational):
        exact = Fraction(time)
    else:
        exact = Fraction(seconds) + abs(Fraction(seconds)) / 2**50  # as in native/base/time_window.h
    num, den = time_base
    return min(max(math.floor(exact * den / max(num, 1) + Fraction(1, 2)), -(2**63)), 2**63 - 1)


def _as_written(time: Any) -> Any:
    """A NumPy float of less than 64 bits as the shortest text that stands for it; anything else as it is."""
    dtype = getattr(time, "dtype", None)
    is_short = getattr(dtype, "kind", "") == "f" and getattr(dtype, "itemsize", 8) < 8
    return str(time) if is_short and getattr(time, "ndim", 0) == 0 and math.isfinite(time) else time


def _float_of(bound: Any) -> float:
    if not isinstance(bound, str):
        return float(bound)
    try:
        return float(Fraction(bound))  # text may be a fraction
    except ValueError:
        return float(bound)  # such as "inf"
