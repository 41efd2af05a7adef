"""Checks of arguments that several sources share. Imports nothing of ours."""

import operator

__all__ = ["as_int", "as_seed"]


def as_int(name: str, value: object) -> int:
    """Get ``value`` as an ``int``. Integers of other kinds (NumPy's) count; ``bool`` does not.

    Raises:
        TypeError: It is not an integer; the message names the argument.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # the except clause is the check
        except TypeError:
            pass
    raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__qualname__}")


def as_seed(name: str, value: object) -> int:
    """Get ``value`` as an ``int`` that NumPy's generators take.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is negative.
    """
    seed = as_int(name, value)
    if seed < 0:
        raise ValueError(f"{name} must be >= 0, got {seed}")
    return seed
