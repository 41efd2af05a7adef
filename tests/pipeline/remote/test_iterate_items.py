"""``iterate_in_subprocess``, as far as it goes beyond its contract: what crosses, in which rush, and what is left."""

import os
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest

from spdl.pipeline import (
    PipelineStateError,
    SharedMemoryRingBuffer,
    SharedMemorySegmentPool,
    WorkerError,
    iterate_in_subprocess,
)
from tests.processes import bodies
from tests.processes.bodies import TIMEOUT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")


def iterate(fn: Any, **options: Any) -> Any:
    return iterate_in_subprocess(fn, timeout=TIMEOUT, **options)


@pytest.mark.parametrize("arena", [None, 0, 1 << 16])
@pytest.mark.parametrize("buffer_size", [1, 5])
def test_a_source_may_reuse_its_buffer(arena: int | None, buffer_size: int) -> None:
    """Items are taken apart when they are made, wherever they go: shared memory, a full one, the socket."""
    iterable = iterate(partial(bodies.reused_buffer, 20, 10_000), arena=arena, buffer_size=buffer_size)
    assert list(iterable) == [bytes([item]) * 10_000 for item in range(20)]


@pytest.mark.parametrize("arena", [None, 0])
def test_items_of_any_size_cross(arena: int | None) -> None:
    """Empty ones, those around the limits of what goes where, and those larger than a socket takes at once."""
    sizes = [0, 1, 4095, 4096, 4097, 1 << 16, (1 << 20) + 1]
    items = list(iterate(partial(bodies.large, sizes), arena=arena))
    expected: list[Any] = []
    for size in sizes:
        expected += [b"\1" * size, bytearray(b"\2" * size), [b"\3" * size, size]]
    assert items == expected
    assert [type(item) for item in items] == [type(item) for item in expected]


@pytest.mark.parametrize("buffer_size", [2, 40, 1000, 0])
def test_a_rush_of_items_keeps_its_order(buffer_size: int) -> None:
    """However they gather on the way."""
    iterable = iterate(partial(bodies.Range, 3000), buffer_size=buffer_size)
    for _ in range(2):
        assert list(iterable) == list(range(3000))


@pytest.mark.parametrize("buffer_size", [1, 3, 100, 0])
def test_leaving_early_drops_what_was_made_ahead(buffer_size: int) -> None:
    """Again and again, at any point."""
    iterable = iterate(partial(bodies.Range, 200), buffer_size=buffer_size)
    for num_items in (0, 1, 7, 50, 199):
        assert list(islice(iterable, num_items)) == list(range(num_items))
    assert list(iterable) == list(range(200))


def test_an_older_iterator_says_that_it_is_one() -> None:
    """Once a newer one was used."""
    iterable = iterate(partial(bodies.Range, 5))
    old, new = iter(iterable), iter(iterable)
    assert next(old) == 0
    assert next(new) == 0
    with pytest.raises(PipelineStateError, match="newer"):
        next(old)
    assert list(new) == [1, 2, 3, 4]
    assert list(new) == []


def test_an_exception_whose_text_fails_is_told() -> None:
    """By its type; the traceback is there."""
    iterator = iter(iterate(bodies.refuse))
    assert next(iterator) == 0
    with pytest.raises(WorkerError, match=r"Failed to fetch the next item: .*\(Refuses\)") as caught:
        next(iterator)
    assert "in refuse" in str(caught.value.remote_traceback)
    with pytest.raises(PipelineStateError, match="Cannot iterate again"):
        next(iterator)


def test_a_fork_in_the_worker_does_no_harm() -> None:
    """The grandchild has no part in the connection."""
    assert list(iterate(bodies.fork_and_go_on)) == [0, 9]


def test_views_outlive_the_worker() -> None:
    """What was received stays valid when the process has ended."""
    iterable = iterate(partial(bodies.reused_buffer, 3, 1 << 20))
    items = list(iterable)
    del iterable
    assert [item[:: 1 << 18] for item in items] == [bytearray([item] * 4) for item in range(3)]


@pytest.mark.parametrize(
    "make_arena", [partial(SharedMemoryRingBuffer, 60_000), partial(SharedMemorySegmentPool, 20_000, 4)]
)
def test_an_explicit_arena_begins_anew_with_each_iteration(make_arena: Any) -> None:
    """Also when the last one was left while the producer waited for room."""
    iterable = iterate(_Buffers(30, 10_000), arena=make_arena(), buffer_size=10)
    for num_items in (1, 5, 2):
        taken = [bytes(item) for item in islice(iterable, num_items)]
        assert taken == [bytes([item]) * 10_000 for item in range(num_items)]
    assert [item[0] for item in iterable] == list(range(30))


class _Buffers:
    """``reused_buffer``, iterable anew; called in the worker."""

    def __init__(self, *args: int) -> None:
        self.args = args

    def __call__(self) -> "_Buffers":
        return self

    def __iter__(self) -> Iterator[bytearray]:
        return bodies.reused_buffer(*self.args)


def test_wrong_arguments_are_refused() -> None:
    """Before anything is started."""
    with pytest.raises(ValueError, match="arena must be >= 0"):
        iterate(partial(bodies.Range, 5), arena=-1)
    with pytest.raises(TypeError, match="fn must be callable"):
        iterate(range(5))
    with pytest.raises(TypeError, match="initializer"):
        iterate(partial(bodies.Range, 5), initializer=[3])


def test_pickling_that_asks_for_an_exit_is_an_error_only() -> None:
    """Of an item that arrives here, of the function that arrives there, and of one that is to be sent."""
    iterator = iter(iterate_in_subprocess(bodies.one_that_exits_on_arrival))
    assert next(iterator) == 1
    with pytest.raises(WorkerError, match="cannot be unpickled here: unpickling ended with SystemExit: 3"):
        next(iterator)
    with pytest.raises(WorkerError, match="SystemExit"):
        iterate_in_subprocess(bodies.ExitsOnArrival())
    with pytest.raises(TypeError, match=r"cannot be pickled: 3 \(SystemExit\)"):
        iterate_in_subprocess(bodies.ExitsOnDeparture(), mp_context="forkserver")
