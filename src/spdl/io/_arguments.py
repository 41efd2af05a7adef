"""Checks of arguments that are plain values: NumPy's scalars are accepted, and messages name the argument."""

import math
import operator
from typing import Any


def as_bool(name: str, value: Any) -> bool:
    """The value as a ``bool``. NumPy's are accepted; numbers and ``None`` are not.

    Raises:
        TypeError: It is something else.
    """
    kind = type(value)
    if kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):  # bool_ before NumPy 2
        return bool(value)
    raise TypeError(f"{name} must be a bool, got {value!r} of type {kind.__name__}")


def as_integer(name: str, value: Any) -> int:
    """The value as a Python integer. NumPy integers are accepted; ``bool`` is not.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer, got {value!r}")


def as_number(name: str, value: Any) -> float:
    """The value as a ``float``. NumPy numbers are accepted; text and ``bool`` are not.

    Raises:
        TypeError: It is something else.
        ValueError: It is not finite.
    """
    number = as_number_or_infinity(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number


def as_number_or_infinity(name: str, value: Any) -> float:
    """The same for numbers that need not be finite, or not even be numbers."""
    kind = type(value)
    is_bool = isinstance(value, bool) or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))
    if isinstance(value, str | bytes) or is_bool or not hasattr(kind, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # an array or tensor with several elements
        raise TypeError(f"{name} must be a number, got {value!r}") from None
