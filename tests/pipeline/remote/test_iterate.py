"""``iterate_in_subprocess``: what it gives, again and again, and how far ahead it works."""

import multiprocessing
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from tests.support import remote
from tests.support.leaving import iterate
from tests.support.running import TIMEOUT, run


def test_items_come_in_order_from_another_process() -> None:
    """All of them; the process is not this one."""
    assert list(iterate(partial(remote.give, [1, "two", None, [3.0, {"four": b"5"}]]))) == [
        1, "two", None, [3.0, {"four": b"5"}],
    ]  # fmt: skip
    (pid,) = iterate(remote.process_ids)
    assert pid != os.getpid()


def test_each_iteration_is_a_new_one_in_the_same_process() -> None:
    """``fn`` is called once; what it gave is iterated anew, by the same worker."""
    iterable = iterate(partial(remote.Epochs, 3))
    assert [list(iterable) for _ in range(3)] == [[(epoch, k) for k in range(3)] for epoch in range(3)]
    iterable = iterate(partial(remote.process_ids, 2))
    assert len({*iterable, *iterable, *iterable}) == 1


def test_a_generator_gives_its_items_once() -> None:
    """Later iterations are empty."""
    iterable = iterate(partial(remote.numbers, 3))
    assert [list(iterable) for _ in range(3)] == [[0, 1, 2], [], []]


def test_an_empty_iterable_is_empty_every_time() -> None:
    """Ends are told apart from items."""
    iterable = iterate(partial(remote.give, []))
    assert [list(iterable) for _ in range(3)] == [[], [], []]


def test_an_exhausted_iterator_stays_exhausted() -> None:
    """It does not start the next iteration."""
    iterable = iterate(partial(remote.Epochs, 1))
    iterator = iter(iterable)
    assert next(iterator) == (0, 0)
    assert [next(iterator, None) for _ in range(3)] == [None] * 3
    assert list(iterable) == [(1, 0)]


def test_one_initializer_runs_before_fn() -> None:
    """In the worker, not here."""
    iterable = iterate(remote.noted, initializer=partial(remote.note, "begun"))
    assert list(iterable) == ["begun"]
    assert "begun" not in remote.noted()


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_initializers_run_in_order_and_once(kind: Any) -> None:
    """Not again for the next iteration."""
    initializers = kind([partial(remote.note, word) for word in ("one", "two", "three")])
    iterable = iterate(remote.noted, initializer=initializers)
    assert [list(iterable), list(iterable)] == [["one", "two", "three"]] * 2
    assert list(iterate(remote.noted, initializer=kind([]))) == []


def test_the_call_returns_when_fn_has_been_called(tmp_path: Path) -> None:
    """Initializers and ``fn`` have left their marks by then, though nothing was iterated."""
    marks = tmp_path / "marks"
    iterable = iterate(partial(_mark, marks), initializer=partial(remote.append_to, marks, "initialized"))
    assert marks.read_text().split() == ["initialized", "made"]
    assert list(iterable) == [0]


def _mark(path: Path) -> list[int]:
    remote.append_to(path, "made")
    return [0]


# -- leaving early


def test_break_leaves_the_worker_alive_and_the_next_iteration_whole() -> None:
    """What was fetched ahead and not taken is dropped."""
    iterable = iterate(partial(remote.Epochs, 50), buffer_size=4)
    for epoch in range(4):
        for index, item in enumerate(iterable):
            assert item == (epoch, index)
            if index == epoch:
                break
    assert list(iterable) == [(4, k) for k in range(50)]


def test_break_and_resume_keep_the_process() -> None:
    """It is the same one for ever."""
    iterable = iterate(partial(remote.process_ids, 10))
    pids = set()
    for _ in range(5):
        for pid in iterable:
            pids.add(pid)
            break
    assert len(pids) == 1


def test_zip_leaves_early_without_harm() -> None:
    """The shorter one ends it; the next round is whole."""
    iterable = iterate(partial(remote.Epochs, 5))
    assert [item for _, item in zip(range(2), iterable, strict=False)] == [(0, 0), (0, 1)]
    assert [item for item, _ in zip(iterable, range(2), strict=False)] == [(1, 0), (1, 1)]
    assert list(iterable) == [(2, k) for k in range(5)]


def test_break_out_of_an_endless_source() -> None:
    """An iteration without an end is given up for the next one."""
    iterable = iterate(remote.Endless, buffer_size=2)
    for epoch in range(5):
        assert next(iter(iterable)) == (epoch, 0)


def test_break_while_large_items_wait() -> None:
    """Nobody waits for the rest of an item that does not fit in a pipe."""
    iterable = iterate(partial(remote.give, [b"x" * 300_000] * 8), buffer_size=3)
    for _ in range(4):
        assert next(iter(iterable)) == b"x" * 300_000
    assert len(list(iterable)) == 8


def test_an_iterator_that_is_not_read_is_given_up_for_the_next() -> None:
    """Making one and leaving it does no harm."""
    iterable = iterate(partial(remote.give, range(5)))
    for _ in range(5):
        iter(iterable)
    assert list(iterable) == list(range(5))


def test_leftovers_that_do_not_unpickle_are_dropped_all_the_same() -> None:
    """What nobody takes is not made again either."""
    iterable = iterate(remote.BreakingOnArrival, buffer_size=3)
    assert next(iter(iterable)) == 1
    assert next(iter(iterable)) == 1


# -- how far ahead


@pytest.mark.parametrize("buffer_size", [1, 2, 5])
def test_the_worker_prefetches_as_many_items_as_it_is_told(buffer_size: int) -> None:
    """As many are made while nobody reads, and never more than that are made and not taken; 1 is step by step."""
    made = multiprocessing.get_context("spawn").Semaphore(0)
    iterable = iterate(partial(remote.counting_to, made, 100), buffer_size=buffer_size, mp_context="spawn")
    iterator = iter(iterable)
    num_made = 0
    for taken in range(1, 30):
        assert next(iterator) == taken - 1
        while num_made < max(buffer_size, taken):
            assert made.acquire(timeout=TIMEOUT), f"{num_made} items were made when {taken} had been taken"
            num_made += 1
        while made.acquire(block=False):
            num_made += 1
        assert num_made <= taken + buffer_size
    assert list(iterator) == list(range(29, 100))


@pytest.mark.parametrize("buffer_size", [0, -1])
def test_a_buffer_of_none_is_unlimited(buffer_size: int) -> None:
    """Everything is made before the second item is read."""
    made = multiprocessing.get_context("spawn").Semaphore(0)
    iterable = iterate(partial(remote.counting_to, made, 500), buffer_size=buffer_size, mp_context="spawn")
    iterator = iter(iterable)
    assert next(iterator) == 0
    for _ in range(500):
        assert made.acquire(timeout=TIMEOUT)
    assert list(iterator) == list(range(1, 500))


# -- next to other things


def test_two_workers_know_nothing_of_each_other() -> None:
    """Their items, ends and processes are their own."""
    one, two = iterate(partial(remote.process_ids, 3)), iterate(partial(remote.process_ids, 4))
    pids = list(zip(one, two, strict=False))
    assert len(pids) == 3
    assert len({pid for pair in pids for pid in pair}) == 2
    assert len(list(two)) == 4


def test_it_can_be_read_by_another_thread() -> None:
    """Than the one that made it, and by several in turn."""
    iterable = iterate(partial(remote.give, range(100)))
    iterator = iter(iterable)
    read: list[int] = []

    def take() -> None:
        read.extend(next(iterator) for _ in range(25))

    for _ in range(4):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(TIMEOUT)
    assert read == list(range(100))
    assert next(iterator, None) is None


def test_it_can_be_the_source_of_a_pipeline() -> None:
    """Built several times, each reads it anew."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(iterate(partial(remote.Epochs, 4))).pipe(_index).add_sink(2)
    assert [sorted(run(builder)) for _ in range(3)] == [[0, 1, 2, 3]] * 3


def _index(item: tuple[int, int]) -> int:
    return item[1]


def test_a_pipeline_in_the_worker_is_an_iterable_like_others() -> None:
    """``fn`` may return one: it runs there."""
    items = list(iterate(partial(remote.pipeline_of, range(5))))
    assert [item for item, _ in items] == [0, 2, 4, 6, 8]
    assert {pid for _, pid in items}.isdisjoint({os.getpid()})


def test_a_worker_can_have_a_worker() -> None:
    """It is not daemonic unless asked."""
    assert list(iterate(partial(remote.nested, 3))) == [0, 1, 2]


@pytest.mark.parametrize("daemon", [False, True])
def test_daemon_is_what_it_is_asked_to_be(daemon: bool) -> None:
    """As ``multiprocessing`` shows it in the worker."""
    assert list(iterate(remote.daemonic, daemon=daemon)) == [daemon]


def test_the_source_is_closed_when_it_is_given_up() -> None:
    """Collecting the iterator in the worker lets the generator's ``finally`` run before the next iteration's items."""
    iterable = iterate(remote.Finishing, buffer_size=1)
    assert next(iter(iterable)) == 0
    assert next(iter(iterable)) == 1


def test_ten_thousand_small_items_keep_their_order() -> None:
    """Whatever is sent together."""
    assert list(iterate(partial(remote.give, range(10_000)), buffer_size=64)) == list(range(10_000))


def test_items_that_differ_much_in_size_keep_their_order() -> None:
    """Small ones do not overtake large ones."""
    sizes = [0, 1, 100_000, 2, 4095, 4096, 4097, 3, 1_000_000, 0, 65_536, 5]
    assert [len(item) for item in iterate(partial(remote.give, [b"x" * size for size in sizes]))] == sizes


def test_the_iterable_here_is_not_touched() -> None:
    """What was sent along is a copy."""
    epochs = remote.Epochs(2)
    assert list(iterate(partial(remote.give, epochs))) == [(0, 0), (0, 1)]
    assert epochs.num_epochs == 0


def _iterate_lazily() -> Iterator[int]:
    yield from iterate(partial(remote.numbers, 3))


def test_a_generator_that_wraps_it_may_be_abandoned() -> None:
    """The worker ends with it, which the check for leaks sees."""
    assert next(_iterate_lazily()) == 0
