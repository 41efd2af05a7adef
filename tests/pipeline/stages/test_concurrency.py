"""How many calls run at once, and which come first."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from tests.support.running import TIMEOUT, await_event, build_of, run, running


def double(item: int) -> int:
    return 2 * item


@pytest.mark.parametrize(("concurrency", "num_threads", "expected"), [(3, 8, 3), (8, 3, 3), (1, 8, 1)])
def test_calls_in_flight_are_as_many_as_allowed_and_no_more(concurrency: int, num_threads: int, expected: int) -> None:
    """Concurrency is a cap, and so is the number of threads; what is allowed is used."""
    lock = threading.Lock()
    running = most = 0
    full = threading.Event()

    def op(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == expected:
                full.set()
        await_event(full)
        with lock:
            running -= 1
        return item

    builder = build_of(range(40), lambda b: b.pipe(op, concurrency=concurrency))
    assert sorted(run(builder, num_threads=num_threads)) == list(range(40))
    assert most == expected


def test_workers_that_start_together_have_names_of_their_own() -> None:
    """A report names threads: two of one name could not be told apart."""
    together = threading.Barrier(6)

    def op(item: int) -> str:
        together.wait(TIMEOUT)
        return threading.current_thread().name

    names = run(build_of(range(6), lambda b: b.pipe(op, concurrency=6)), num_threads=6)
    assert sorted(name.rpartition("-")[2] for name in names) == ["0", "1", "2", "3", "4", "5"]


def test_async_calls_are_limited_by_concurrency_alone() -> None:
    """Calls on the loop need no thread: 16 wait at once in a pipeline of one thread, and never a 17th."""
    running = most = 0
    full: list[asyncio.Event] = []

    async def op(item: int) -> int:
        nonlocal running, most
        if not full:
            full.append(asyncio.Event())
        running += 1
        most = max(most, running)
        if running == 16:
            full[0].set()
        await asyncio.wait_for(full[0].wait(), TIMEOUT)
        await asyncio.sleep(0)
        running -= 1
        return item

    assert sorted(run(build_of(range(64), lambda b: b.pipe(op, concurrency=16)), num_threads=1)) == list(range(64))
    assert most == 16


def test_stages_share_few_threads_without_a_deadlock() -> None:
    """Five stages of concurrency 4 on one thread: every item comes out, in order, each stage on that thread."""
    threads = set()

    def op(item: int) -> int:
        threads.add(threading.get_ident())
        return item + 1

    def add(builder: PipelineBuilder[Any, Any]) -> None:
        for _ in range(5):
            builder.pipe(op, concurrency=4, output_order="input")

    assert run(build_of(range(50), add), num_threads=1) == [item + 5 for item in range(50)]
    assert threading.get_ident() not in threads


def test_threads_take_the_latest_stage_first() -> None:
    """With one thread and a full backlog, an item that has been through the first stage goes on before the next."""
    calls: list[tuple[str, int]] = []
    begun = threading.Event()
    filled = threading.Event()

    def source() -> Iterator[int]:
        yield 0
        await_event(begun)
        yield 1
        yield 2
        filled.set()

    def first(item: int) -> int:
        begun.set()
        await_event(filled)
        calls.append(("first", item))
        return item

    def second(item: int) -> int:
        calls.append(("second", item))
        return item

    assert run(build_of(source(), lambda b: b.pipe(first).pipe(second)), num_threads=1) == [0, 1, 2]
    assert calls == [(name, item) for item in range(3) for name in ("first", "second")]


def test_a_slow_stage_does_not_keep_threads_from_others() -> None:
    """One stage blocked with its whole concurrency leaves the other threads to the other stages."""
    release = threading.Event()
    seen = threading.Event()

    def blocked(item: int) -> int:
        if item == 0:
            await_event(release)
        return item

    def later(item: int) -> int:
        if item == 3:
            seen.set()
        return item

    builder = build_of(range(4), lambda b: b.pipe(blocked, concurrency=2).pipe(later), sink=4)
    with running(builder, num_threads=2) as pipeline:
        await_event(seen)  # with item 0 still blocked
        release.set()
        assert sorted(pipeline.get_iterator(timeout=TIMEOUT)) == [0, 1, 2, 3]
