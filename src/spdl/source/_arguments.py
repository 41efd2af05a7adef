"""Checks of arguments that several sources share."""

from spdl._numbers import as_int as as_int

__all__ = ["as_int", "as_seed"]


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
