"""Arenas that are asked for: ``SharedMemoryRingBuffer``, ``SharedMemorySegmentPool``, and one of the user's own."""

import gc
import os
import pickle
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool, WorkerError
from tests.processes.arenas.file_arena import FileArena
from tests.support import ops, remote, remote_arrays
from tests.support.leaving import iterate, run_apart
from tests.support.remote_arrays import OBJECTS, Batches, Labelled, Made, check_same, large
from tests.support.running import TIMEOUT, build_of

MEGABYTE = 1 << 20

ARENAS: dict[str, Callable[[], Any]] = {
    "ring": lambda: SharedMemoryRingBuffer(4 * MEGABYTE),
    "pool": lambda: SharedMemorySegmentPool(2 * MEGABYTE, 6),
}


@pytest.fixture(params=list(ARENAS))
def arena(request: pytest.FixtureRequest) -> Any:
    return ARENAS[request.param]()


# -- what comes back


def test_through_a_ring_bytes_likes_come_back_as_they_are() -> None:
    """With their own type."""
    items = list(iterate(remote.bytes_likes, arena=SharedMemoryRingBuffer(MEGABYTE)))
    for item, expected in zip(items, remote.bytes_likes(), strict=True):
        assert type(item) is type(expected)
        assert bytes(item) == bytes(expected)


@pytest.mark.parametrize("size", [4095, 4096, 4097])
def test_leaves_of_4096_bytes_and_more_go_through_shared_memory(size: int) -> None:
    """The pool shows it by what comes back."""
    (item,) = iterate(partial(remote.give, [b"x" * size]), arena=SharedMemorySegmentPool(MEGABYTE, 2))
    assert type(item) is (memoryview if size >= 4096 else bytes)
    assert bytes(item) == b"x" * size


def test_arrays_come_back_as_they_were(arena: Any) -> None:
    """Of every dtype and order, and writable where they are large."""
    names = [name for name in remote_arrays.ARRAYS if not any(word in name for word in ("20 MB", "object", "time"))]
    for name, array in zip(names, iterate(partial(Made, "ARRAYS", names), arena=arena), strict=True):
        check_same(array, remote_arrays.ARRAYS[name]())
        if name.startswith(("order", "dtype f")):
            assert array.flags.writeable
            array.flat[0] = 1


def test_nested_leaves_are_found_anywhere(arena: Any) -> None:
    """In containers and dataclasses; views through the pool are equal too."""
    names = ["dict", "tuple", "named tuple", "dataclass", "frozen dataclass", "deque", "ordered dict", "many small"]
    for name, item in zip(names, iterate(partial(Made, "OBJECTS", names), arena=arena), strict=True):
        assert type(item) is type(OBJECTS[name]())
        assert item == OBJECTS[name]()


def test_a_dataclass_of_arrays(arena: Any) -> None:
    """As a batch is."""
    (item,) = iterate(remote_arrays.labelled, arena=arena)
    assert isinstance(item, Labelled)
    for array in (item.images, item.extra["deep"][0]):
        check_same(array, large("f4"))
        array += 1


def test_items_without_large_leaves(arena: Any) -> None:
    """Whatever there is to send, and however many."""
    assert list(iterate(partial(remote.give, range(500)), arena=arena)) == list(range(500))


def test_many_more_items_than_fit_at_once(arena: Any) -> None:
    """Memory is used again and again, payloads wrap at the ring's end; also over iterations and after a break."""
    iterable = iterate(partial(Batches, 40, 700_001), arena=arena)
    for _ in range(2):
        for k, array in enumerate(iterable):
            assert (array == k % 251).all()
        del array
        assert next(iter(iterable))[0] == 0


def test_a_generator_may_reuse_its_buffer(arena: Any) -> None:
    """Every item is as it was when it was yielded."""
    for k, array in enumerate(iterate(partial(remote_arrays.reusing_its_buffer, 12), arena=arena)):
        assert (array == k).all()


def test_a_pipeline_in_a_subprocess_takes_an_arena(arena: Any) -> None:
    """It goes on to the worker."""
    apart = run_apart(build_of(Batches(12), lambda b: b.pipe(ops.same)), arena=arena, num_threads=1)
    assert [int(array[-1]) for array in apart] == list(range(12))


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_an_arena_goes_to_a_process_however_it_is_started(arena: Any, context: str) -> None:
    """As its argument."""
    assert [int(array[0]) for array in iterate(partial(Batches, 3), arena=arena, mp_context=context)] == [0, 1, 2]


def test_arenas_pickle_only_as_arguments_of_a_new_process(arena: Any) -> None:
    """Anything else could not hand the memory over."""
    with pytest.raises(Exception):
        pickle.dumps(arena)
    arena.close()
    arena.unlink()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is mapped is read from Linux's /proc")
def test_the_memory_has_no_name_anywhere(arena: Any) -> None:
    """So a crash leaves nothing behind; ``name`` is for messages, and there is nothing under it."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    assert [line for line in lines if "/dev/shm/" in line and not line.endswith("(deleted)")] == []
    assert not (Path("/dev/shm") / str(getattr(arena, "name", "none")).lstrip("/")).exists()
    arena.unlink()
    arena.unlink()
    arena.close()


# -- views of a pool


def test_views_stay_valid_over_iterations_and_after_the_worker() -> None:
    """What is kept is never written to again; a segment is used again when its last view is gone."""
    iterable = iterate(partial(Batches, 4), arena=SharedMemorySegmentPool(MEGABYTE, 6))
    kept = [next(iter(iterable))[10:20], next(iter(iterable))]
    for _ in range(5):
        for k, array in enumerate(iterable):
            assert (array == k).all()
    del iterable, array
    gc.collect()
    assert all((array == 0).all() for array in kept)
    kept[1] += 1
    assert (kept[1] == 1).all()


def test_views_of_bytes_keep_their_segment_too() -> None:
    """Also a slice of one, and an array over it."""
    iterable = iterate(
        partial(remote.give, [bytes([k]) * 5000 for k in range(10)]), arena=SharedMemorySegmentPool(8192, 4)
    )
    iterator = iter(iterable)
    first = np.frombuffer(next(iterator)[100:200], np.uint8)
    for k, view in enumerate(iterator, 1):
        assert bytes(view) == bytes([k]) * 5000
    assert (first == 0).all()


def test_a_pool_whose_views_are_all_kept_is_full() -> None:
    """The producer waits ``acquire_timeout``, here not at all: BufferError, told by the read."""
    iterator = iter(iterate(partial(Batches, 9), arena=SharedMemorySegmentPool(MEGABYTE, 3, acquire_timeout=0)))
    kept = []
    with pytest.raises(WorkerError, match="Failed to fetch the next item") as info:
        kept.extend(iterator)
    assert "BufferError" in str(info.value)
    assert len(kept) <= 3


def test_a_full_pool_goes_on_when_a_view_dies() -> None:
    """The producer waits for it."""
    iterator = iter(iterate(partial(Batches, 6), arena=SharedMemorySegmentPool(MEGABYTE, 2)))
    kept = [next(iterator), next(iterator)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    assert [int(array[0]) for array in iterator] == [2, 3, 4, 5]
    thread.join(TIMEOUT)


@pytest.mark.parametrize("make", [lambda: SharedMemoryRingBuffer(100_000), lambda: SharedMemorySegmentPool(100_000, 4)])
def test_an_item_larger_than_the_arena_is_refused_at_once(make: Callable[[], Any]) -> None:
    """It could not fit however long anybody waits: BufferError, told by the read after the items before it."""
    iterable = iterate(partial(remote_arrays.of_sizes, [50_000, 100_001, 5]), arena=make())
    iterator = iter(iterable)
    assert next(iterator).shape == (50_000,)
    with pytest.raises(RuntimeError, match="Failed to fetch the next item") as info:
        next(iterator)
    assert "BufferError" in str(info.value)
    with pytest.raises(RuntimeError, match="Cannot iterate again"):
        next(iter(iterable))


def test_a_waiting_producer_is_woken_by_the_end() -> None:
    """The pool is full and its time to wait long: leaving the iterable does not wait for it."""
    iterable = iterate(
        partial(remote.with_id_of_process, Batches(9)), arena=SharedMemorySegmentPool(MEGABYTE, 1, acquire_timeout=1000)
    )
    item, pid = next(iter(iterable))
    del iterable
    gc.collect()
    remote.await_end(pid)
    assert (item == 0).all()


# -- an arena of one's own


def test_units_that_nobody_takes_are_ended_as_well(tmp_path: Path) -> None:
    """A break leaves some; those of a zero-copy arena are ended with nothing pinned before the next iteration."""
    arena = FileArena(tmp_path, zero_copy=True)
    iterable = iterate(partial(remote.give, [b"x" * 5000] * 6), arena=arena, buffer_size=2)
    first = next(iter(iterable))
    assert len(list(iterable)) == 6
    ends = [line for line in arena.read("owner") if line.startswith("end")]
    assert len(ends) >= 7
    assert len(ends) == arena.read("writer").count("commit")
    assert bytes(first) == b"x" * 5000


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
