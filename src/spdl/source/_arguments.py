"""Argument checks shared by several sources."""

from spdl._numbers import as_int as as_int

__all__ = ["as_int", "as_seed"]


def as_seed(name: str, value: object) -> int:
    """Return ``value`` as an ``int`` that NumPy's generators accept.

    Raises:
        TypeError: The value is not an integer.
        ValueError: The value is negative.
    """
    seed = as_int(name, value)
    if seed < 0:
        raise ValueError(f"{name} must be >= 0, got {seed}")
    return seed
