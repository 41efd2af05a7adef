"""Ops that take random numbers, also in other processes."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from spdl.pipeline import Rng

__all__ = ["Draw", "ThirdAttempt", "adraw", "adraw_twice", "draw", "draw_first", "draw_twice", "draw_with"]


def draw(item: Any, rng: Rng) -> tuple[Any, int, int]:
    """The item, the seed, and a number of NumPy's generator."""
    return item, rng.seed, int(rng.numpy().integers(1 << 30))


def draw_first(item: Any, *, rng: Rng) -> tuple[Any, int]:
    """The item and a number of Python's generator."""
    return item, rng.python().getrandbits(32)


def draw_with(item: Any, **kwargs: Any) -> tuple[Any, int]:
    return item, kwargs["rng"].seed


def draw_twice(item: Any, rng: Rng) -> Iterator[tuple[Any, int]]:
    generator = rng.python()
    for _ in range(2):
        yield item, generator.getrandbits(32)


async def adraw(item: Any, rng: Rng) -> tuple[Any, int, int]:
    return draw(item, rng)


async def adraw_twice(item: Any, rng: Rng) -> AsyncIterator[tuple[Any, int]]:
    for each in draw_twice(item, rng):
        yield each


class Draw:
    """``draw`` as an object."""

    def __call__(self, item: Any, rng: Rng) -> tuple[Any, int, int]:
        return draw(item, rng)


class ThirdAttempt:
    """Fails twice for every item, after it has drawn numbers."""

    def __init__(self) -> None:
        self.num_attempts: dict[Any, int] = {}

    def __call__(self, item: Any, rng: Rng) -> tuple[Any, int, int]:
        found = draw(item, rng)
        rng.python().random()
        attempt = self.num_attempts[item] = self.num_attempts.get(item, 0) + 1
        if attempt < 3:
            raise ValueError(f"attempt {attempt}")
        return found
