"""What explicit arenas give, to the letter: ring, pool, and an arena of the user's own."""

import gc
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool, WorkerError
from tests.processes.arenas.file_arena import FileArena
from tests.processes.test_shared_memory import check_same
from tests.support import remote, remote_arrays
from tests.support.leaving import iterate
from tests.support.remote_arrays import Made, large

MEGABYTE = 1 << 20

ARENAS: dict[str, Callable[[], Any]] = {
    "ring": lambda: SharedMemoryRingBuffer(4 * MEGABYTE),
    "pool": lambda: SharedMemorySegmentPool(2 * MEGABYTE, 6),
}


@pytest.fixture(params=list(ARENAS))
def arena(request: pytest.FixtureRequest) -> Any:
    return ARENAS[request.param]()


def test_through_a_pool_bytes_likes_come_back_as_writable_views() -> None:
    """Of at least 4096 bytes; smaller ones are pickled, and come as they are."""
    items = list(iterate(remote.bytes_likes, arena=SharedMemorySegmentPool(MEGABYTE, 8)))
    for item, expected in zip(items, remote.bytes_likes(), strict=True):
        assert bytes(item) == bytes(expected)
        if len(bytes(expected)) >= 4096:
            assert type(item) is memoryview
            assert not item.readonly
            item[0] = 1
        elif not isinstance(expected, memoryview):
            assert type(item) is type(expected)


def test_arrays_that_were_read_only_come_back_writable(arena: Any) -> None:
    """It is a copy, or a view of memory that is ours."""
    (array,) = iterate(partial(Made, "ARRAYS", ["read-only"]), arena=arena)
    assert array.flags.writeable
    array[0] = 1


@pytest.mark.parametrize("zero_copy", [False, True])
def test_an_arena_of_ones_own(zero_copy: bool, tmp_path: Path) -> None:
    """It needs the methods only; every unit is begun, then committed; the reader ends it with its span."""
    arena = FileArena(tmp_path, zero_copy=zero_copy)
    iterable = iterate(remote.mixed, arena=arena, buffer_size=1)
    for _ in range(2):
        items = list(iterable)
        assert [bytes(item) for item in items[0]] == [b"a" * 5000, b"b" * 4096]
        assert type(items[0][0]) is (memoryview if zero_copy else bytes)
        check_same(items[1]["array"], large("f4"))
        assert items[2] == b"small"
    ends = [line.split()[1] for line in arena.read("owner") if line.startswith("end")]
    assert {"9096", "300000"} <= set(ends)
    assert arena.read("owner").count("reset") == arena.read("writer").count("reset") == 2
    writes = [line for line in arena.read("writer") if line != "reset"]
    first = ["begin", "write 5000", "write 4096", "commit", "begin", "write 300000", "commit"]
    assert writes[: len(first)] == first
    assert "abort" not in writes
    del iterable, items
    gc.collect()
    ended = arena.read("owner")
    assert "shutdown" in ended
    assert ended.index("close") < ended.index("unlink")


def test_an_item_that_fails_leaves_no_unit_open(tmp_path: Path) -> None:
    """One that does not pickle: what was begun, if anything, is aborted; the arena is closed."""
    arena = FileArena(tmp_path)
    iterator = iter(iterate(remote.large_then_unpicklable, arena=arena))
    assert next(iterator)[0] == b"a" * 5000
    with pytest.raises(WorkerError, match="this one stays at home"):
        next(iterator)
    writes = arena.read("writer")
    assert writes.count("commit") == 1
    assert writes.count("begin") == 1 + writes.count("abort")
    gc.collect()
    assert arena.read("owner").count("unlink") == 1


def test_an_arena_that_cannot_be_opened_there_is_told(tmp_path: Path) -> None:
    """By the call, or by the first read."""
    arena = FileArena(tmp_path)
    os.unlink(tmp_path / "data")
    with pytest.raises((RuntimeError, OSError)):
        list(iterate(partial(remote.give, [b"x" * 5000]), arena=arena))


@pytest.mark.parametrize("name", ["dtype datetime", "dtype timedelta"])
def test_arrays_of_times_come_back_as_they_were(arena: Any, name: str) -> None:
    """Though NumPy does not export their memory."""
    (array,) = iterate(partial(Made, "ARRAYS", [name]), arena=arena)
    check_same(array, remote_arrays.ARRAYS[name]())
