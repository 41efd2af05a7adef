"""``output_order``: what is promised about the order of outputs, whatever the order in which calls end."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Pipe
from tests.support.running import TIMEOUT, await_event, build_of, fail, run, running


class Turns:
    """Lets calls end in a given order: call ``k`` ends when all that precede it in ``order`` have ended."""

    def __init__(self, order: list[int]) -> None:
        self.ended = {item: threading.Event() for item in order}
        self.before = dict(itertools.pairwise(reversed(order)))

    def take(self, item: int) -> None:
        if item in self.before:
            await_event(self.ended[self.before[item]])

    def end(self, item: int) -> None:
        self.ended[item].set()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_input_order_holds_for_every_order_of_completion(order: tuple[int, ...]) -> None:
    """Four calls at once that end in any order: outputs follow inputs. In completion order they follow the ends."""
    turns = Turns(list(order))

    def op(item: int) -> int:
        turns.take(item)
        turns.end(item)
        return item

    assert run(build_of(range(4), lambda b: b.pipe(op, concurrency=4, output_order="input"))) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_async", [False, True])
def test_completion_order_emits_as_calls_end(is_async: bool) -> None:
    """The later item comes out, and is taken, before the first one's call ends."""
    release = threading.Event()

    def op(item: int) -> int:
        if item == 0:
            await_event(release)
        return item

    async def op_async(item: int) -> int:
        return await asyncio.to_thread(op, item)

    builder = build_of(range(3), lambda b: b.pipe(op_async if is_async else op, concurrency=3))
    with running(builder) as pipeline:
        assert {pipeline.get_item(timeout=TIMEOUT) for _ in range(2)} == {1, 2}
        release.set()
        assert pipeline.get_item(timeout=TIMEOUT) == 0


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("is_async", [False, True])
def test_one_call_at_a_time_keeps_order(is_async: bool, order: Any) -> None:
    """With concurrency 1 there is but one order."""

    def op(item: int) -> int:
        return item

    async def op_async(item: int) -> int:
        await asyncio.sleep(0)
        return item

    builder = build_of(range(30), lambda b: b.pipe(op_async if is_async else op, output_order=order))
    assert run(builder) == list(range(30))


@pytest.mark.parametrize("kind", ["sync", "async", "executor"])
def test_failed_and_none_items_leave_no_gap_in_input_order(kind: str) -> None:
    """They neither hold later results back nor show."""
    turns = Turns([5, 4, 3, 2, 1, 0])

    def op(item: int) -> int | None:
        turns.take(item)
        turns.end(item)
        if item in (0, 3):
            raise ValueError(item)
        return None if item in (1, 4) else item

    async def op_async(item: int) -> int | None:
        await asyncio.sleep(0)
        return op(item) if item == 5 else await asyncio.to_thread(op, item)

    with ThreadPoolExecutor(6) as pool:
        builder = build_of(
            range(6),
            lambda b: b.pipe(
                op_async if kind == "async" else op,
                concurrency=6,
                output_order="input",
                executor=pool if kind == "executor" else None,
            ),
        )
        assert run(builder, num_threads=6) == [2, 5]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_results_wait_for_a_slow_first_one_up_to_concurrency(kind: str) -> None:
    """With the first of 4 blocked, 3 more are called and wait; the next is not called before the first has ended."""
    release = threading.Event()
    all_called = threading.Event()
    called: list[int] = []
    lock = threading.Lock()

    def op(item: int) -> int:
        with lock:
            called.append(item)
            if len(called) == 4:
                all_called.set()
        if item == 0:
            await_event(release)
            with lock:
                called.append(-1)
        return item

    async def op_async(item: int) -> int:
        return await asyncio.to_thread(op, item)

    builder = build_of(
        range(8), lambda b: b.pipe(op if kind == "sync" else op_async, concurrency=4, output_order="input"), sink=8
    )
    with running(builder, num_threads=8) as pipeline:
        await_event(all_called)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        release.set()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == list(range(8))
    assert sorted(called[: called.index(-1)]) == [0, 1, 2, 3]


def test_input_order_on_fewer_threads_than_concurrency() -> None:
    """The reorder buffer fills with one thread too, and never blocks it."""
    builder = build_of(range(40), lambda b: b.pipe(lambda item: item, concurrency=8, output_order="input"), sink=1)
    assert run(builder, num_threads=1) == list(range(40))


def test_input_order_through_several_stages() -> None:
    """Each stage keeps it, on threads and on the loop."""

    async def op_async(item: int) -> int:
        for _ in range(item % 3):
            await asyncio.sleep(0)
        return item

    def add(builder: PipelineBuilder[Any, Any]) -> None:
        for op in (lambda item: item, op_async, lambda item: item, op_async):
            builder.pipe(op, concurrency=4, output_order="input")

    assert run(build_of(range(100), add)) == list(range(100))


def test_generators_in_input_order_emit_item_by_item() -> None:
    """All outputs of one item, in the order of its yields, before those of the next, whichever runs ahead."""
    turns = Turns([2, 1, 0])

    def op(item: int) -> Iterator[tuple[int, int]]:
        turns.take(item)
        turns.end(item)
        for k in range(item + 2):
            yield item, k

    builder = build_of(range(3), lambda b: b.pipe(op, concurrency=3, output_order="input"))
    assert run(builder) == [(item, k) for item in range(3) for k in range(item + 2)]


def test_generators_in_input_order_leave_no_gap() -> None:
    """Without an output, with ``None`` only, failed at once, or failed half way: the next one's turn comes."""

    def op(item: int) -> Iterator[Any]:
        if item == 1:
            return
        if item == 2:
            yield None
            return
        if item == 3:
            raise ValueError(item)
        yield item, "a"
        if item == 4:
            raise ValueError(item)
        yield None
        yield item, "b"

    builder = build_of(range(7), lambda b: b.pipe(op, concurrency=4, output_order="input"), sink=1)
    assert run(builder) == [(0, "a"), (0, "b"), (4, "a"), (5, "a"), (5, "b"), (6, "a"), (6, "b")]


def test_generators_in_input_order_pass_what_the_oldest_has_yielded() -> None:
    """The oldest call's outputs are emitted as they are produced, not when it has ended."""
    release = threading.Event()

    def op(item: int) -> Iterator[tuple[int, int]]:
        yield item, 0
        if item == 0:
            await_event(release)
        yield item, 1

    builder = build_of(range(3), lambda b: b.pipe(op, concurrency=3, output_order="input"))
    with running(builder) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == (0, 0)
        release.set()
        rest = list(pipeline.get_iterator(timeout=TIMEOUT))
    assert rest == [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_generators_in_input_order_on_one_thread() -> None:
    """More generators than threads, more outputs than room: none blocks the one whose turn it is."""

    def op(item: int) -> Iterator[tuple[int, int]]:
        for k in range(10):
            yield item, k

    builder = build_of(range(10), lambda b: b.pipe(op, concurrency=4, output_order="input"), sink=1)
    assert run(builder, num_threads=1) == [(item, k) for item in range(10) for k in range(10)]


def test_generators_in_input_order_on_an_executor() -> None:
    """The same for a thread pool of the user's."""

    def op(item: int) -> Iterator[tuple[int, int]]:
        for k in range(3):
            yield item, k

    with ThreadPoolExecutor(3) as pool:
        builder = build_of(range(10), lambda b: b.pipe(op, concurrency=4, output_order="input", executor=pool), sink=1)
        assert run(builder, num_threads=1) == [(item, k) for item in range(10) for k in range(3)]


@pytest.mark.parametrize("order", ["output", "", None, "INPUT", 1])
def test_other_orders_are_refused(order: Any) -> None:
    """Only the two words are accepted, by ``pipe`` and by ``Pipe``."""
    with pytest.raises(ValueError, match="output_order"):
        Pipe(lambda item: item, output_order=order)
    with pytest.raises(ValueError, match="output_order"):
        PipelineBuilder[Any, Any]().pipe(lambda item: item, output_order=order)


def test_input_order_with_an_async_generator_is_refused() -> None:
    """For functions and for objects."""

    async def op(item: int) -> AsyncIterator[int]:
        yield item

    class Op:
        async def __call__(self, item: int) -> AsyncIterator[int]:
            yield item

    for bad in (op, Op()):
        with pytest.raises(ValueError, match="output_order"):
            PipelineBuilder[Any, Any]().pipe(bad, output_order="input")


@pytest.mark.parametrize("is_generator", [False, True])
def test_what_precedes_the_failure_of_an_ordered_stage_comes_out(is_generator: bool) -> None:
    """When the limit trips at item 3, what was emitted before stays; results that wait behind it are discarded."""

    def op(item: int) -> int:
        if item == 3:
            raise ValueError(item)
        return item

    def generator(item: int) -> Iterator[int]:
        yield op(item)

    builder = build_of(
        range(20), lambda b: b.pipe(generator if is_generator else op, concurrency=1, output_order="input")
    )
    items, error = fail(builder, num_threads=2, max_failures=0)
    assert items == [0, 1, 2]
    assert "failed 1 times" in str(error)


def test_an_ordered_stage_reads_a_dataset() -> None:
    """A map-style dataset with ``__getitem__`` alone, read by index, in order."""

    class Dataset:
        def __getitem__(self, index: int) -> tuple[int, str]:
            return index, f"sample {index}"

    builder = build_of(range(9), lambda b: b.pipe(Dataset(), concurrency=3, output_order="input").aggregate(4))
    assert run(builder) == [
        [(index, f"sample {index}") for index in indices] for indices in (range(4), range(4, 8), range(8, 9))
    ]
