"""Checks of costs and lengths that users' functions return, and short reprs of items for error messages."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from spdl._numbers import as_int

#: Policy for an item that fits into no batch.
Misfit: TypeAlias = Literal["error", "alone", "drop"]

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 4


def short_repr(item: Any) -> str:
    try:
        return _SHORT.repr(item)
    except Exception:  # noqa: BLE001 - the repr is the user's
        return f"<{type(item).__name__} object, its repr failed>"


def as_amount(name: str, value: Any) -> float:
    """Return ``value`` as an ``int`` or a ``float``, >= 0. Accepts other number types (NumPy's), but not ``bool``.

    Raises:
        TypeError: ``value`` is not a number; the message contains ``name``.
        ValueError: ``value`` is negative or NaN.
    """
    amount: float = value if type(value) is int else _as_number(name, value)
    if not amount >= 0:
        raise ValueError(f"{name} must be >= 0, got {value}")
    return amount


def _as_number(name: str, value: Any) -> float:
    if not isinstance(value, bool):
        with suppress(TypeError):
            return operator.index(value)
        if hasattr(type(value), "__float__"):  # ``float`` would parse text too
            with suppress(TypeError, ValueError):  # an array of several numbers
                return float(value)
    raise TypeError(f"{name} must be a number, got {short_repr(value)} of type {type(value).__qualname__}")


def measure(what: str, function: Callable[[Any], Any], item: Any) -> float:
    """Call ``function`` on ``item`` and check the result; an error names the item.

    Raises:
        TypeError: The result is not a number.
        ValueError: The result is negative or NaN.
    """
    amount = function(item)
    if type(amount) is int and amount >= 0:  # fast path for the common case
        return amount
    return as_amount(f"the {what} of item {short_repr(item)}", amount)


def as_limit(name: str, value: Any) -> float:
    """Return ``value`` as a number > 0; infinity is accepted."""
    limit = as_amount(name, value)
    if limit == 0:
        raise ValueError(f"{name} must be > 0, got {value}")
    return limit


def as_num_items(name: str, value: Any) -> float:
    """Return ``value`` as a number of items >= 1; ``None`` (no limit) becomes infinity."""
    if value is None:
        return math.inf
    number = as_int(name, value)
    if number < 1:
        raise ValueError(f"{name} must be >= 1, got {number}")
    return number


def as_choice(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value
