"""What each kind of stage does at the end of an epoch."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import Aggregate, Aggregator, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.pipeline.epochs.epoching import Add, Counting, continuous, epochs, same, same_async, twice, twice_async
from tests.support.running import TIMEOUT, await_event

STAGES: dict[str, tuple[Add, int]] = {
    "none": (lambda b: b, 1),
    "sync": (lambda b: b.pipe(same), 1),
    "async": (lambda b: b.pipe(same_async), 1),
    "sync, concurrent": (lambda b: b.pipe(same, concurrency=4), 1),
    "async, concurrent": (lambda b: b.pipe(same_async, concurrency=4), 1),
    "sync, ordered": (lambda b: b.pipe(same, concurrency=4, output_order="input"), 1),
    "async, ordered": (lambda b: b.pipe(same_async, concurrency=4, output_order="input"), 1),
    "generator": (lambda b: b.pipe(twice, concurrency=3), 2),
    "generator, ordered": (lambda b: b.pipe(twice, concurrency=3, output_order="input"), 2),
    "async generator": (lambda b: b.pipe(twice_async, concurrency=3), 2),
    "aggregate and disaggregate": (lambda b: b.aggregate(3).disaggregate(), 1),
    "paths": (lambda b: b.path_variants(lambda item: item[1] % 2, [[Pipe(same)], [Pipe(same_async)]]), 1),
    "async router": (lambda b: b.path_variants(zero_async, [[Pipe(same)], [Pipe(same)]]), 1),
    "batched paths": (
        lambda b: (
            b.aggregate(2)
            .path_variants(
                lambda batch: [item[1] % 2 for item in batch], [[Pipe(same)], [Pipe(same_async)]], batched=True
            )
            .disaggregate()
        ),
        1,
    ),
    "several": (
        lambda b: b.pipe(same, concurrency=2).pipe(twice_async).pipe(same_async).aggregate(2).disaggregate(),
        2,
    ),
}


async def zero_async(item: Any) -> int:
    return 0


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize("sink", [1, 8])
def test_no_item_crosses_an_epoch_end(stages: str, num_threads: int, sink: int) -> None:
    """Whatever the stages: each epoch gives its own items, all of them, and nothing else; empty epochs too."""
    add, factor = STAGES[stages]
    found = epochs(continuous(Counting(4, 0, 7, 1), add, sink=sink, num_threads=num_threads), 6)
    sizes = [4, 0, 7, 1, 1, 1]
    expected = [sorted([(epoch, k) for k in range(size)] * factor) for epoch, size in enumerate(sizes)]
    assert [sorted(items) for items in found] == expected


@pytest.mark.parametrize("kind", ["sync", "async", "executor", "ordered", "generator", "async generator"])
def test_an_epoch_end_waits_for_calls_in_flight(kind: str) -> None:
    """With the last call of an epoch blocked, its end is not seen, and the next epoch's items are not emitted."""
    release = threading.Event()
    blocked = threading.Event()

    def op(item: tuple[int, int]) -> tuple[int, int]:
        if item == (0, 1):
            blocked.set()
            await_event(release)
        return item

    async def op_async(item: tuple[int, int]) -> tuple[int, int]:
        return await asyncio.to_thread(op, item)

    def generator(item: tuple[int, int]) -> Iterator[tuple[int, int]]:
        yield op(item)

    async def generator_async(item: tuple[int, int]) -> AsyncIterator[tuple[int, int]]:
        yield await op_async(item)

    ops: dict[str, Any] = {"async": op_async, "generator": generator, "async generator": generator_async}
    with ThreadPoolExecutor(2) as pool:
        pipeline = continuous(
            Counting(2),
            lambda b: b.pipe(
                ops.get(kind, op),
                concurrency=3,
                executor=pool if kind == "executor" else None,
                output_order="input" if kind == "ordered" else "completion",
            ),
            num_threads=4,
        )
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=TIMEOUT) == (0, 0)
            await_event(blocked)
            with pytest.raises(TimeoutError):
                pipeline.get_item(timeout=0)
            release.set()
            assert pipeline.get_item(timeout=TIMEOUT) == (0, 1)
            with pytest.raises(EOFError):
                pipeline.get_item(timeout=TIMEOUT)
            # Both of its items may run by now, in any order.
            assert pipeline.get_item(timeout=TIMEOUT) in ([(1, 0)] if kind == "ordered" else [(1, 0), (1, 1)])


class Remembering(Aggregator[Any, list[Any]]):
    """Emits all it has got when it is flushed, and counts the flushes."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.num_flushes = 0

    def accumulate(self, item: Any) -> list[Any] | None:
        self.items.append(item)
        return None

    def flush(self) -> list[Any] | None:
        self.num_flushes += 1
        items, self.items = self.items, []
        return items or None


def test_aggregates_flush_at_each_epoch_end() -> None:
    """The rest of an epoch is emitted with it; an empty epoch emits nothing."""
    expected = [[[(0, 0), (0, 1)], [(0, 2)]], [], [[(2, 0)]]]
    assert epochs(continuous(Counting(3, 0, 1), lambda b: b.aggregate(2)), 3) == expected
    aggregator = Remembering()
    found = epochs(continuous(Counting(3, 0, 1), lambda b: b.aggregate(aggregator)), 3)
    assert found == [[[(0, 0), (0, 1), (0, 2)]], [], [[(2, 0)]]]
    assert aggregator.num_flushes >= 3


def test_aggregates_with_drop_last_discard_at_each_epoch_end() -> None:
    """``flush`` is called there, to reset, and its result goes nowhere."""
    expected = [[[(0, 0), (0, 1)]], [], [], [[(3, 0), (3, 1)], [(3, 2), (3, 3)]]]
    pipeline = continuous(Counting(3, 0, 1, 4), lambda b: b.aggregate(2, drop_last=True))
    assert epochs(pipeline, 4) == expected
    aggregator = Remembering()
    assert epochs(continuous(Counting(3), lambda b: b.aggregate(aggregator, drop_last=True)), 3) == [[], [], []]
    assert aggregator.num_flushes >= 3


def test_failed_and_dropped_items_do_not_hold_an_epoch_up() -> None:
    """An epoch all of whose items are lost is an empty one."""

    def op(item: tuple[int, int]) -> Any:
        if item[0] == 0:
            raise ValueError(item)
        return None if item[0] == 1 else item

    for order in ("completion", "input"):
        options: dict[str, Any] = {"concurrency": 2, "output_order": order, "max_failures": -1}
        pipeline = continuous(Counting(3), lambda b, options=options: b.pipe(op, **options))  # type: ignore[misc]
        found = epochs(pipeline, 3)
        assert [sorted(epoch) if order == "completion" else epoch for epoch in found] == [
            [],
            [],
            [(2, 0), (2, 1), (2, 2)],
        ]


def test_an_ordered_stage_keeps_the_mark_in_its_place() -> None:
    """The last call of an epoch ends long after the others: it still comes before the mark, and after them."""
    others = threading.Semaphore(0)

    def op(item: tuple[int, int]) -> tuple[int, int]:
        if item[1] == 0:
            for _ in range(3):
                assert others.acquire(timeout=TIMEOUT)
        else:
            others.release()
        return item

    pipeline = continuous(Counting(4), lambda b: b.pipe(op, concurrency=4, output_order="input"), num_threads=4)
    assert epochs(pipeline, 3) == [[(epoch, k) for k in range(4)] for epoch in range(3)]


def merged(*sources: Any, op: Any = None, stages: Any = (), is_continuous: bool = True) -> PipelineConfig[Any]:
    """Return a pipeline that merges one sub-pipeline per source."""
    below: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(source, continuous=is_continuous), [Pipe(same)], SinkConfig(1))
        for source in sources
    ]
    return PipelineConfig(Merge(below, op=op), list(stages), SinkConfig(3))


def test_a_merge_waits_for_all_inputs_at_an_epoch_end() -> None:
    """It forwards one mark when each has reached its own, and holds back what is ahead."""
    config = merged(Counting(3), Counting(0, 5), stages=[Pipe(same)])
    found = epochs(build_pipeline(config, num_threads=2), 3)
    assert [sorted(items) for items in found] == [
        [(0, k) for k in range(3)],
        sorted([(1, k) for k in range(3)] + [(1, k) for k in range(5)]),
        sorted([(2, k) for k in range(3)] + [(2, k) for k in range(5)]),
    ]


def test_a_merge_op_sees_the_marks() -> None:
    """With continuous sources a custom op deals with them: it reads them, and may put one."""

    async def in_turns(info: Any, inputs: Any, output: Any) -> None:
        while True:
            for queue in inputs:
                while not is_epoch_end(item := await queue.get()):
                    if is_eof(item):
                        return
                    await output.put(item)
            await output.put(item)

    config = merged(Counting(2), Counting(1), op=in_turns)
    found = epochs(build_pipeline(config, num_threads=2), 3)
    assert found == [[(epoch, 0), (epoch, 1), (epoch, 0)] for epoch in range(3)]


def test_is_epoch_end_is_false_for_items() -> None:
    """Whatever they are."""
    for item in (None, 0, "", object(), EOFError, is_epoch_end):
        assert is_epoch_end(item) is False


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True, False)])
def test_mixed_sources_are_refused(flags: tuple[bool, ...]) -> None:
    """Continuous and ordinary ones cannot be merged; nested merges neither."""
    below: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig([1], continuous=flag), [], SinkConfig(1)) for flag in flags
    ]
    flat: PipelineConfig[Any] = PipelineConfig(Merge(below), [], SinkConfig(1))
    inner: PipelineConfig[Any] = PipelineConfig(Merge(below[:1]), [], SinkConfig(1))
    nested: PipelineConfig[Any] = PipelineConfig(Merge([inner, *below[1:]]), [], SinkConfig(1))
    for config in (flat, nested):
        with pytest.raises(ValueError, match="Mixed continuous mode"):
            build_pipeline(config)


def test_path_variants_send_the_mark_down_every_path() -> None:
    """Aggregates in paths that got no item, or few, are flushed with their epoch."""
    pipeline = continuous(
        Counting(5, 0, 1),
        lambda b: b.path_variants(
            lambda item: item[1] % 2, [[Aggregate(2)], [Aggregate(2, drop_last=True)], [Aggregate(2)]]
        ),
    )
    found = epochs(pipeline, 3)
    assert [sorted(items) for items in found] == [
        [[(0, 0), (0, 2)], [(0, 1), (0, 3)], [(0, 4)]],
        [],
        [[(2, 0)]],
    ]


def test_nested_paths_keep_epochs_apart() -> None:
    """The mark passes through paths in paths."""
    from spdl.pipeline.defs import PathVariants

    inner = PathVariants(lambda item: item[1] % 3 == 0, [[Pipe(same)], [Pipe(same_async, concurrency=2)]])
    pipeline = continuous(
        Counting(6), lambda b: b.path_variants(lambda item: item[1] % 2, [[inner], [Pipe(twice)]]), num_threads=4
    )
    for epoch, items in enumerate(epochs(pipeline, 4)):
        assert sorted(items) == sorted([(epoch, k) for k in range(6)] + [(epoch, k) for k in (1, 3, 5)])
