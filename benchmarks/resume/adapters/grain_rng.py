"""Grain's pool of generators, which its ``random_map`` takes one from for each item."""

from importlib.metadata import version
from typing import Any

from grain._src.python.dataset.transformations.map import RngPool

_POOL = RngPool(3)


def versions() -> dict[str, str]:
    return {"grain": version("grain")}


def numpy(index: int) -> Any:
    generator = _POOL.acquire_rng(index, op_seed=5)
    _POOL.release_rng(generator)
    return generator
