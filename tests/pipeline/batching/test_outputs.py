"""``Outputs``: several outputs of one call of an aggregator."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, TaskHook, build_pipeline
from spdl.pipeline.batching import CostBudget, PackSequences
from spdl.pipeline.defs import Aggregate as aggregate
from spdl.pipeline.defs import Aggregator, Outputs, Pipe, PipelineConfig, SourceConfig
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.running import TIMEOUT, Recorder, build_of, fail, run, running
from tests.support.watching import Log, hooked

from .aggregators import Copies, Grouped


def stage_of(pipeline: Pipeline[Any], number: int = 1) -> Any:
    return pipeline.stats().stages[number]


def expected(sizes: list[int], num_rest: int) -> list[Any]:
    return [(n, k) for n in sizes for k in range(n)] + [("rest", k) for k in range(num_rest)]


@cases(60)
@given(
    sizes=st.lists(st.integers(0, 6), max_size=12),
    num_rest=st.integers(0, 5),
    sink=st.integers(1, 3),
    num_threads=st.integers(1, 3),
    has_hooks=st.booleans(),
    then=st.sampled_from(["nothing", "pipe", "lists", "disaggregate"]),
)
def test_outputs_come_in_order_each_once(
    sizes: list[int], num_rest: int, sink: int, num_threads: int, has_hooks: bool, then: str
) -> None:
    """Any number of them, none too, whatever comes next and however small the buffers are; the counters add up."""
    after = {
        "nothing": lambda b: b,
        "pipe": lambda b: b.pipe(lambda item: item),
        "lists": lambda b: b.aggregate(2).disaggregate(),
        "disaggregate": lambda b: b.pipe(lambda item: [item]).disaggregate(),
    }[then]
    builder = build_of(sizes, lambda b: b.aggregate(Copies(num_rest)), after, sink=sink)
    options: Any = {"task_hook_factory": hooked(Log())} if has_hooks else {}
    with nothing_left(), running(builder, num_threads=num_threads, **options) as pipeline:
        outputs = list(pipeline.get_iterator(timeout=TIMEOUT))
        stats = stage_of(pipeline)
    assert outputs == expected(sizes, num_rest)
    assert (stats.num_calls, stats.num_emitted) == (len(sizes) + 1, len(outputs))
    assert stats.num_in_flight == 0


@cases(40)
@given(sizes=st.lists(st.integers(0, 6), max_size=8), num_read=st.integers(0, 10), num_threads=st.integers(1, 3))
def test_a_stop_in_the_middle_leaves_nothing(sizes: list[int], num_read: int, num_threads: int) -> None:
    """Also with outputs that still wait for room; what was read is a prefix."""
    source = Recorder(sizes)
    whole = expected(sizes, 2)
    with (
        nothing_left(),
        running(build_of(source, lambda b: b.aggregate(Copies(2)), sink=1), num_threads=num_threads) as pipeline,
    ):
        read = [pipeline.get_item(timeout=TIMEOUT) for _ in range(min(num_read, len(whole)))]
    assert read == whole[: len(read)]
    rest = list(pipeline.get_iterator(timeout=TIMEOUT))
    assert whole[len(read) :][: len(rest)] == rest


def test_outputs_wait_for_room() -> None:
    """No more leave the stage than fit; meanwhile it takes no further item, and its call counts as in flight."""
    asked = threading.Event()

    def source() -> Any:
        yield 9
        asked.set()
        yield from [0] * 50

    with running(build_of(source(), lambda b: b.aggregate(Copies()), sink=2)) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == (9, 0)
        assert asked.wait(TIMEOUT)
        stats = stage_of(pipeline)
        assert (stats.queue_len, stats.num_emitted, stats.num_in_flight) == (2, 4, 1)
        assert stats.num_calls == 1
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(8)] == [(9, k) for k in range(1, 9)]


@pytest.mark.parametrize("drop_last", [False, True])
def test_the_rest_of_an_epoch_comes_before_its_end(drop_last: bool) -> None:
    """All outputs of the flush, or none with ``drop_last``; nothing crosses."""
    builder = build_of([], lambda b: b.aggregate(Copies(5), drop_last=drop_last), sink=1)
    config = builder.get_config()
    config = PipelineConfig(SourceConfig([2, 0, 1], continuous=True), config.pipes, config.sink)
    pipeline: Pipeline[Any] = build_pipeline(config, num_threads=2)
    with pipeline.auto_stop():
        for _ in range(3):
            assert list(pipeline.get_iterator(timeout=TIMEOUT)) == expected([2, 0, 1], 0 if drop_last else 5)


def test_origins_are_shared_by_the_outputs_of_a_call() -> None:
    """A source position is consumed when all outputs that it may be in are; errors name the positions."""

    def refuse(item: int) -> int:
        if item == 3:
            raise ValueError(item)
        return item

    builder = build_of(range(6), lambda b: b.aggregate(Grouped(3)).pipe(refuse), sink=1)
    with running(builder) as pipeline:
        items = list(pipeline.get_iterator(timeout=TIMEOUT))
        (failure,) = stage_of(pipeline, 2).failures
    assert items == [0, 1, 2, 4, 5]
    assert failure.origin == ((3, 4, 5), 0)
    assert pipeline._engine.ledger.sources[0].num_consumed == 6


def test_what_an_aggregator_drops_is_counted() -> None:
    """Once, also if nothing else comes out; its position is consumed."""
    budget = CostBudget[str](2, oversized="drop")
    with running(build_of(["a", "bbbb", "c", "dddd", "eeee"], lambda b: b.aggregate(budget))) as pipeline:
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [["a", "c"]]
    stats = stage_of(pipeline)
    assert (stats.num_calls, stats.num_emitted, stats.num_dropped) == (6, 1, 3)
    assert pipeline._engine.ledger.sources[0].num_consumed == 5


@pytest.mark.parametrize("batched", [False, True])
def test_in_path_variants(batched: bool) -> None:
    """A path may give several outputs for one item."""
    if batched:
        paths: list[list[Any]] = [[aggregate(Grouped(1))], [Pipe(list)]]
        builder = build_of([[1, 2], [3]], lambda b: b.path_variants(lambda x: [v % 2 for v in x], paths, batched=True))
        assert run(builder) == [[2, 1], [3]]
        return
    builder = build_of(
        range(5), lambda b: b.path_variants(lambda item: item % 2, [[aggregate(Copies(1))], [aggregate(Copies(0))]])
    )
    assert sorted(run(builder), key=str) == sorted(expected([0, 1, 2, 3, 4], 1), key=str)


def test_an_iterable_that_fails_fails_the_stage() -> None:
    """It is read in the aggregator's own call, before anything of it is emitted."""

    class Broken(Aggregator[int, int]):
        def accumulate(self, item: int) -> Outputs[int]:
            return Outputs(1 // (2 - k) for k in range(item))

        def flush(self) -> None:
            return None

    items, error = fail(build_of([2, 3], lambda b: b.aggregate(Broken())))
    assert items == [0, 1]
    assert isinstance(error, ZeroDivisionError)


def test_a_hook_that_keeps_an_item_out_drops_it() -> None:
    """The aggregator has not seen it: it is counted and consumed at once, and the others keep their places."""

    class Refusing(TaskHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            if input_item == "b":
                raise ValueError(input_item)
            yield

    failed: list[Any] = []

    def refuse(batch: list[str]) -> None:
        failed.append(batch)
        raise ValueError(batch)

    builder = build_of(["a", "b", "cc", "d"], lambda b: b.aggregate(CostBudget(2)).pipe(refuse, max_failures=-1))
    pipeline = builder.build(
        num_threads=2, task_hook_factory=lambda info: [Refusing()] if "CostBudget" in info.stage_name else []
    )
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == []
        assert stage_of(pipeline).num_dropped == 1
        assert [each.origin for each in stage_of(pipeline, 2).failures] == [(0,), (2,), (3,)]
    assert failed == [["a"], ["cc"], ["d"]]


def test_inputs_say_what_is_in_each_output() -> None:
    """One entry for each, ints only; what is no output takes its entry with it."""
    outputs = Outputs(["a", None, "b"], inputs=[[0], [1], np.arange(2)])
    assert outputs.values == ("a", "b")
    assert outputs.inputs == ((0,), (0, 1))
    with pytest.raises(ValueError, match="inputs must be given for each output: 1 for 2"):
        Outputs("ab", inputs=[[0]])
    with pytest.raises(TypeError):
        Outputs("a", inputs=[["0"]])  # type: ignore[list-item]


def test_inputs_that_are_not_held_are_passed_over() -> None:
    """Named twice, or of a run before: nothing to account for. What is never named is dropped at the end."""

    class Odd(Aggregator[int, int]):
        def accumulate(self, item: int) -> Outputs[int] | None:
            return Outputs([item, item], inputs=[[0, 0, 7], [0, -1]]) if item % 2 else None

        def flush(self) -> None:
            return None

    with running(build_of(range(6), lambda b: b.aggregate(Odd()))) as pipeline:
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [1, 1, 3, 3, 5, 5]
    assert stage_of(pipeline).num_dropped == 3
    assert pipeline._engine.ledger.sources[0].num_consumed == 6


def test_none_among_them_is_no_output_and_other_ops_may_give_the_class() -> None:
    """Only an aggregator's result is taken apart."""
    assert Outputs([None, 0, None, ""]).values == (0, "")
    assert repr(Outputs("ab")) == "<Outputs: 2>"
    (item,) = run(build_of([1], lambda b: b.pipe(lambda item: Outputs([item, item]))))
    assert item.values == (1, 1)


def test_unfinished_items_come_with_inputs() -> None:
    """They are ages too; without inputs nobody knows which outputs the item is in."""
    assert Outputs("ab", inputs=[[0], [0]], unfinished=np.arange(1)).unfinished == (0,)
    assert Outputs("a", inputs=[[0]]).unfinished == ()
    with pytest.raises(ValueError, match="unfinished must come with inputs"):
        Outputs("a", unfinished=[0])
    with pytest.raises(TypeError):
        Outputs("a", inputs=[[0]], unfinished=["0"])  # type: ignore[list-item]


def test_the_rest_of_a_split_item_needs_a_method() -> None:
    """An aggregator that does not have it says so."""
    with pytest.raises(NotImplementedError, match=r"Grouped splits items, so it needs accumulate_rest\(\)"):
        Grouped(2).accumulate_rest(1, {0})
    packing = PackSequences(2, too_long="split")
    outputs = packing.accumulate_rest([1, 2, 3, 4, 5], {0})
    assert outputs is not None
    assert ([row.tokens for row in outputs.values], outputs.inputs, outputs.unfinished) == ([[3, 4]], ((0,),), (0,))
    outputs = packing.accumulate_rest([6, 7, 8], {0})
    assert outputs is not None
    assert [row.tokens for row in outputs.values] == [[5, 8]]
    assert packing.accumulate_rest([1, 2, 3], {0, 1}) is None
