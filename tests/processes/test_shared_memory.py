"""What crosses to another process and back: every kind of value as it was, large ones in shared memory."""

import gc
import os
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import arena_slot
from tests.support import ops, remote, remote_arrays
from tests.support.leaving import iterate
from tests.support.regions import with_region
from tests.support.remote_arrays import ARRAYS, OBJECTS, Batches, Labelled, Made, check_same, large
from tests.support.running import run


def made(makers: str, names: list[str]) -> dict[str, Any]:
    """What comes from another process, by name."""
    return dict(zip(names, iterate(partial(Made, makers, names)), strict=True))


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    return made("ARRAYS", list(ARRAYS))


@pytest.fixture(scope="module")
def arrays_and_back() -> dict[str, Any]:
    items = run(with_region([make() for make in ARRAYS.values()], lambda b: b.pipe(ops.same), inputs=3, outputs=2))
    return dict(zip(ARRAYS, items, strict=True))


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    return made("OBJECTS", list(OBJECTS))


@pytest.fixture(scope="module")
def objects_and_back() -> dict[str, Any]:
    items = [make() for make in OBJECTS.values()]
    items = run(with_region(items, lambda b: b.pipe(remote.in_a_list), inputs=3, outputs=2))
    return {name: item for name, (item,) in zip(OBJECTS, items, strict=True)}


@pytest.mark.parametrize("way", ["arrays", "arrays_and_back"])
@pytest.mark.parametrize("name", list(ARRAYS))
def test_arrays_arrive_as_they_were(name: str, way: str, request: pytest.FixtureRequest) -> None:
    """Type, dtype, shape, values; an array in Fortran order stays in it; large ones can be written to."""
    expected, array = ARRAYS[name](), request.getfixturevalue(way)[name]
    check_same(array, expected)
    if isinstance(expected, np.ndarray) and (expected.flags.c_contiguous or expected.flags.f_contiguous):
        assert array.flags.f_contiguous == expected.flags.f_contiguous
        assert array.flags.c_contiguous == expected.flags.c_contiguous
    if name.startswith(("order", "dtype f", "size 20 MB")):
        assert array.flags.writeable
        assert not array.flags.owndata


@pytest.mark.parametrize("way", ["objects", "objects_and_back"])
@pytest.mark.parametrize("name", list(OBJECTS))
def test_objects_arrive_as_they_were(name: str, way: str, request: pytest.FixtureRequest) -> None:
    """Equal, and of the same type: bytes are bytes."""
    expected, item = OBJECTS[name](), request.getfixturevalue(way)[name]
    assert type(item) is type(expected)
    assert item == expected


def test_cycles_arrive_as_cycles() -> None:
    """A list that holds itself."""
    (item,) = iterate(partial(map, remote.call, [remote_arrays.cyclic]))
    assert item[1] is item
    assert item[0] == b"x" * 10_000


def test_a_memoryview_arrives_with_its_bytes() -> None:
    """Whatever it viewed; an ordinary pickle could not take it at all."""
    views = list(iterate(remote.views))
    assert [bytes(view) for view in views] == [bytes(view) for view in remote.views()]
    assert all(isinstance(view, memoryview | bytes | bytearray) for view in views)


def test_what_one_item_holds_twice_it_holds_twice_there() -> None:
    """The same object, not another."""
    (item,) = iterate(remote_arrays.shared_twice)
    array, again, data, (same_data,), items, same_items = item
    assert again["again"] is array
    assert same_data is data
    assert same_items is items
    array[0] = 77
    assert again["again"][0] == 77


# -- snapshots, and how long they last


def test_a_generator_may_reuse_its_buffer() -> None:
    """Every item is as it was when it was yielded."""
    for k, array in enumerate(iterate(partial(remote_arrays.reusing_its_buffer, 12), buffer_size=4)):
        assert (array == k).all()
    for k, (data,) in enumerate(iterate(partial(remote_arrays.reusing_its_list, 12), buffer_size=4)):
        assert data == bytes([k]) * 10_000


def test_what_is_written_to_an_arrived_array_is_seen_by_nobody_else() -> None:
    """Neither in the items that come after it nor in those of the next iteration."""
    iterable = iterate(partial(Batches, 6))
    for _ in range(3):
        for k, array in enumerate(iterable):
            assert (array == k).all()
            array[:] = 255


def test_arrays_that_are_kept_are_never_overwritten() -> None:
    """However many come after them."""
    iterable = iterate(partial(Batches, 30, 100_000))
    kept = [*iterable, *iterable]
    for k, array in enumerate(kept):
        assert (array == k % 30).all()


def test_every_second_one_may_be_kept() -> None:
    """Memory that goes back between memory that stays."""
    kept = []
    for k, array in enumerate(iterate(partial(Batches, 60, 150_000))):
        if k % 2:
            kept.append(array)
    assert all((array == 2 * k + 1).all() for k, array in enumerate(kept))


def test_views_outlive_iteration_and_process() -> None:
    """The worker is gone, and the arrays are as they were; also parts of them."""
    iterator: Iterator[Any] | None = iter(iterate(partial(remote.with_id_of_process, Batches(4))))
    assert iterator is not None
    pairs = [next(iterator) for _ in range(3)]
    iterator = None
    gc.collect()
    remote.await_end(pairs[0][1])
    for k, (array, _) in enumerate(pairs):
        assert (array == k).all()
        array += 1
    part = pairs[2][0][100:200]
    del pairs, array
    gc.collect()
    assert (part == 3).all()


def test_views_may_die_anywhere() -> None:
    """In another thread, after the end, in a cycle."""
    arrays = list(iterate(partial(Batches, 9)))
    thread = threading.Thread(target=arrays.clear)
    cycle: list[Any] = [arrays.pop()]
    cycle.append(cycle)
    del cycle
    thread.start()
    thread.join(100)
    gc.collect()
    assert arrays == []


def test_a_worker_may_keep_what_it_got() -> None:
    """What a region's op holds stays as it was."""
    items = [np.full(200_000, k, np.uint8) for k in range(10)]
    sums = run(with_region(items, lambda b: b.pipe(remote_arrays.keep_and_sum)))
    assert sums == [(k + 1, sum(range(k + 1))) for k in range(10)]


def test_arrays_of_a_finished_pipeline_stay() -> None:
    """Its workers are gone."""
    items = run(with_region([large("f4") for _ in range(5)], lambda b: b.pipe(ops.same), workers=2))
    gc.collect()
    for array in items:
        check_same(array, large("f4"))


# -- memory


def test_one_item_of_100_mb() -> None:
    """Whole, and writable."""
    (array,) = iterate(partial(Batches, 1, 100_000_000))
    assert array.nbytes == 100_000_000
    assert not array.any()
    array[-1] = 1


def test_large_text_and_bytes_of_many_megabytes() -> None:
    """With what is around them."""
    (item,) = iterate(partial(remote.give, [{"bytes": b"b" * 30_000_000, "text": "ä" * 5_000_000, "list": [1]}]))
    assert item == {"bytes": b"b" * 30_000_000, "text": "ä" * 5_000_000, "list": [1]}


@pytest.mark.slow
def test_memory_goes_back_on_both_sides() -> None:
    """A gigabyte and more in items of 4.8 MB takes a few of them on either side, not all."""
    size, count = 4_800_000, 250
    iterator = iter(iterate(partial(remote_arrays.batches_then_memory, count, size), buffer_size=3))
    before = remote_arrays.memory()
    most = 0
    for k in range(count):
        array = next(iterator)
        assert array[0] == k % 251
        most = max(most, remote_arrays.memory() - before)
    needed_there = next(iterator)
    assert most < 20 * size
    assert needed_there < 20 * size


def test_items_that_grow_and_shrink() -> None:
    """Sizes far apart, in no order."""
    sizes = [10, 5_000_000, 4096, 70_000, 0, 12_000_000, 4097, 1, 8_000_000, 100_000] * 3
    iterable = iterate(partial(remote_arrays.of_sizes, sizes), buffer_size=4)
    for size, array in zip(sizes, iterable, strict=True):
        assert array.shape == (size,)
        assert (array == size % 251).all()


def test_a_batch_in_a_dataclass_is_not_copied_here() -> None:
    """The field is a view of shared memory, as everywhere in an item."""
    (item,) = iterate(remote_arrays.labelled)
    assert isinstance(item, Labelled)
    for array in (item.images, item.extra["deep"][0]):
        assert not array.flags.owndata
        assert array.flags.writeable
        check_same(array, large("f4"))


# -- born in the arena


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="where an array lies is read from Linux's /proc")
def test_what_is_born_in_the_arena_is_not_copied() -> None:
    """It lies here in the very memory that the worker wrote it to; so the slot is used again when it is gone."""
    iterable = iterate(partial(remote_arrays.Born, 40), buffer_size=2)
    places = set()
    for _ in range(2):
        for k, (array, place) in enumerate(iterable):
            assert remote_arrays.place_of(array) == place
            assert (array == k % 251).all()
            places.add(place)
            del array
    assert len(places) <= 8


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="where an array lies is read from Linux's /proc")
def test_what_is_born_and_kept_is_not_overwritten() -> None:
    """Each keeps its slot."""
    kept = list(iterate(partial(remote_arrays.Born, 20)))
    assert len({place for _, place in kept}) == 20
    assert all((array == k).all() for k, (array, _) in enumerate(kept))


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="where an array lies is read from Linux's /proc")
def test_batches_of_a_region_are_born_in_its_arena() -> None:
    """And of a pipeline in a subprocess; so are those of an isolated stage."""
    for k, (array, place) in enumerate(run(with_region(range(5), lambda b: b.pipe(remote_arrays.born_as_batch)))):
        assert remote_arrays.place_of(array) == place
        assert (array == k).all()


def test_two_items_may_view_one_slot() -> None:
    """It goes back when both have died; until then nobody writes to it."""
    iterator = iter(iterate(remote_arrays.born_once, buffer_size=1))
    first = next(iterator)
    second = next(iterator)
    third = next(iterator)
    third[:] = 9
    assert (first == 1).all()
    assert (second == 2).all()
    del first
    gc.collect()
    assert (second == 2).all()


def test_slots_are_bytes_to_write_to() -> None:
    """Of the size asked for, on a cache line, zero-size ones too; sent as they are they arrive as bytes do."""
    sizes = [1, 63, 4096, 100_000, 1_000_000, 0]
    items = list(iterate(partial(remote_arrays.slots, sizes)))
    for size, like, slot in zip(sizes, items[::2], items[1::2], strict=True):
        assert like == (size, "B", False, 1, True, 0)
        assert bytes(slot) == b"s" * size


def test_here_a_slot_is_ordinary_memory() -> None:
    """Where there is no arena: a loader can always ask for one."""
    slot = arena_slot(10_000)
    assert (slot.nbytes, slot.format, slot.readonly) == (10_000, "B", False)
    np.frombuffer(slot, np.uint8)[:] = 5
    assert bytes(slot) == b"\5" * 10_000
    with pytest.raises(ValueError):
        arena_slot(-1)
