"""Shared memory that is full, or held for long: items arrive by another way, and nothing waits for ever."""

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import iterate_in_subprocess

pytestmark = pytest.mark.slow


def arrays(num_items: int, size: int) -> Any:
    return (np.full(size, number % 256, dtype=np.uint8) for number in range(num_items))


@pytest.mark.parametrize("arena", [0, 1 << 20, None], ids=["none", "a megabyte", "by itself"])
def test_whoever_keeps_all_items_gets_all(arena: int | None) -> None:
    """Far more than the memory holds, and nothing is ever given back."""
    kept = list(iterate_in_subprocess(partial(arrays, 60, 300_000), arena=arena))
    assert [int(array[0]) for array in kept] == list(range(60))
    assert all((array == array[0]).all() for array in kept)
    assert all(array.flags.writeable for array in kept)


def test_views_outlive_the_process() -> None:
    """The memory is theirs."""
    worker = iterate_in_subprocess(partial(arrays, 5, 300_000))
    kept = list(worker)
    del worker
    for number, array in enumerate(kept):
        assert (array == number).all()
        array += 1


def test_an_item_larger_than_all_memory_for_it() -> None:
    """Also empty ones."""
    items = iterate_in_subprocess(partial(map, np.zeros, [0, 5_000_000, 0, 3]), arena=1 << 16)
    assert [len(array) for array in items] == [0, 5_000_000, 0, 3]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_memory_goes_back_when_views_die() -> None:
    """A thousand times what the arena has passes through it without the socket."""
    worker = iterate_in_subprocess(partial(arrays, 400, 1_000_000), arena=16 << 20)
    in_place = sum(array.base is not None and type(array.base).__name__ != "bytearray" for array in worker)
    assert in_place == 400
