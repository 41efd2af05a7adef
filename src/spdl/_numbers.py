"""Checks of arguments: integers, numbers, durations, flags, words, paths and functions.

One rule for all: NumPy's scalars mean what Python's numbers of the same value mean; ``bool`` is no number, and text is
neither. A value of the wrong type raises ``TypeError``, one that is out of range ``ValueError``, and messages begin
with the name of the argument.

A duration is a finite number of seconds, >= 0, or > 0 where 0 makes no sense. ``None`` means no limit; infinity is
accepted only for arguments that do not accept ``None``.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Collection
from typing import Any, Final

#: Upper bound of timeouts, in seconds (about 30 years): the operating system's waits do not accept more.
_LONGEST: Final = 1e9
#: Largest C ``int``.
MAX_INT: Final = 2**31 - 1


def as_int(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Return ``value`` as an ``int``. Accepts other integer types (NumPy's), but not ``bool``.

    Raises:
        TypeError: ``value`` is not an integer.
        ValueError: It is less than ``least``, or more than ``most``.
    """
    if type(value) is int:
        number = value
    else:
        try:
            if isinstance(value, bool):
                raise TypeError
            number = operator.index(value)  # type: ignore[arg-type]  # the except clause is the check
        except TypeError:
            raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__qualname__}") from None
    if least is not None and number < least:
        raise ValueError(f"{name} must be >= {least}, got {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be <= {most}, got {number}")
    return number


def int_or_none(value: object) -> int | None:
    """Return ``value`` as an ``int``; ``None`` if it is no integer. For attributes of objects of others."""
    if type(value) is int:
        return value
    try:
        return as_int("value", value)
    except Exception:  # noqa: BLE001 - of the user's class
        return None


def as_float(name: str, value: object) -> float:
    """Return ``value`` as a ``float``, which may be infinite or NaN. Accepts other real number types, but not ``bool``.

    Raises:
        TypeError: ``value`` is not a number.
    """
    kind = type(value)
    if kind is float:
        return value  # type: ignore[return-value]
    if _is_bool(kind) or not hasattr(kind, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r} of type {kind.__qualname__}")
    try:
        return float(value)  # type: ignore[arg-type]  # it has __float__
    except OverflowError:  # an int beyond the range of floats
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # it is a number
    except (TypeError, ValueError, RuntimeError):  # an array or a tensor of several numbers
        raise TypeError(f"{name} must be one number, got {value!r} of type {kind.__qualname__}") from None


def as_finite(name: str, value: object) -> float:
    """Return ``value`` as a finite ``float``.

    Raises:
        TypeError: ``value`` is not a number.
        ValueError: It is not finite.
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


def as_bool(name: str, value: Any) -> bool:
    """Return ``value`` as a ``bool``. Accepts NumPy's, but neither numbers nor ``None``.

    Raises:
        TypeError: ``value`` is something else.
    """
    if value is True or value is False:
        return value
    if _is_bool(type(value)):
        return bool(value)
    raise TypeError(f"{name} must be a bool, got {value!r} of type {type(value).__qualname__}")


def require_word(name: str, value: object, words: Collection[str]) -> None:
    """Check that ``value`` is one of ``words``.

    Raises:
        TypeError: ``value`` is not text.
        ValueError: It is other text.
    """
    if not isinstance(value, str) or value not in words:
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")


def as_path(name: str, value: Any) -> Any:
    """Return a path as ``str`` or ``bytes``.

    Raises:
        TypeError: ``value`` is none.
    """
    if not isinstance(value, str | bytes | os.PathLike):
        raise TypeError(f"{name} must be the path of a file, got {value!r} of type {type(value).__qualname__}")
    return os.fspath(value)


def check_callable(name: str, value: object) -> None:
    """Check that ``value`` can be called, or is ``None``.

    Raises:
        TypeError: ``value`` is something else.
    """
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable or None, got an object of type {type(value).__qualname__}")


def _is_bool(kind: type) -> bool:
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))  # bool_ before NumPy 2
