"""Aggregates: when they emit, when they are flushed, and what an exception in them does."""

import pickle
import threading
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, StageInfo, TaskHook
from spdl.pipeline.defs import Aggregate, Aggregator, Collate
from tests.support.running import TIMEOUT, await_event, build_of, fail, run, running


class Summing(Aggregator[int, int]):
    """Emits the sum of each ``num_items`` items, and notes what was asked of it."""

    def __init__(self, num_items: int = 3) -> None:
        self.num_items = num_items
        self.values: list[int] = []
        self.calls: list[Any] = []

    def accumulate(self, item: int) -> int | None:
        self.calls.append(item)
        self.values.append(item)
        return self.flush_values() if len(self.values) == self.num_items else None

    def flush(self) -> int | None:
        self.calls.append("flush")
        return self.flush_values() if self.values else None

    def flush_values(self) -> int:
        total = sum(self.values)
        self.values = []
        return total


@pytest.mark.parametrize("num_items", range(1, 8))
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("collate", [int, Collate])
def test_lists_of_n_and_the_rest(num_items: int, drop_last: bool, collate: Any) -> None:
    """An int is ``Collate``: lists in order; the rest is emitted at the end unless dropped."""
    expected = [list(range(k, min(k + num_items, 7))) for k in range(0, 7, num_items)]
    if drop_last and 7 % num_items:
        expected.pop()
    builder = build_of(range(7), lambda b: b.aggregate(collate(num_items), drop_last=drop_last))
    assert run(builder) == expected


def test_items_of_an_unfinished_list_are_counted() -> None:
    """Also while the source waits for others: what it gave is issued, taken and pending."""
    reached, go_on = threading.Event(), threading.Event()

    def source() -> Any:
        yield from range(7)
        reached.set()
        assert go_on.wait(TIMEOUT)
        yield from range(7, 9)

    with running(build_of(source(), lambda b: b.aggregate(4))) as pipeline:
        await_event(reached)
        stats = pipeline.stats()
        assert stats.stages[1].num_calls == 7
        assert pipeline._engine.ledger.sources[0].next_index == 7
        assert next(iter(pipeline)) == [0, 1, 2, 3]
        assert pipeline._engine.ledger.sources[0].pending == {4, 5, 6}
        go_on.set()
        assert list(pipeline) == [[4, 5, 6, 7], [8]]
        assert not pipeline._engine.ledger.sources[0].pending


@pytest.mark.parametrize("drop_last", [False, True])
def test_nothing_in_nothing_out(drop_last: bool) -> None:
    """No empty list is emitted for an empty source, nor after a full last list."""
    assert run(build_of([], lambda b: b.aggregate(3, drop_last=drop_last))) == []
    assert run(build_of(range(6), lambda b: b.aggregate(3, drop_last=drop_last))) == [[0, 1, 2], [3, 4, 5]]


def test_none_from_the_source_is_collated() -> None:
    """It is an ordinary item."""
    assert run(build_of([None, 0, None], lambda b: b.aggregate(2))) == [[None, 0], [None]]


@pytest.mark.parametrize("num_items", [0, -1])
def test_lists_shorter_than_one_are_refused(num_items: int) -> None:
    """By ``aggregate``, ``Aggregate`` and ``Collate``."""
    for make in (PipelineBuilder[Any, Any]().aggregate, Aggregate, Collate):
        with pytest.raises(ValueError, match=str(num_items)):
            make(num_items)


@pytest.mark.parametrize("bad", [True, False, 2.0, "2", None, [1], object(), Collate])
def test_other_inputs_are_refused(bad: Any) -> None:
    """Neither an int nor an aggregator; a bool is no int, a class is no instance."""
    with pytest.raises(TypeError):
        PipelineBuilder[Any, Any]().aggregate(bad)


def test_an_aggregator_of_the_users() -> None:
    """What ``accumulate`` and ``flush`` return is emitted, in order; ``flush`` is called once at the end."""
    aggregator = Summing()
    assert run(build_of(range(7), lambda b: b.aggregate(aggregator))) == [0 + 1 + 2, 3 + 4 + 5, 6]
    assert aggregator.calls == [*range(7), "flush"]


def test_flush_is_not_called_at_the_end_with_drop_last() -> None:
    """What is left stays in the aggregator."""
    aggregator = Summing()
    assert run(build_of(range(7), lambda b: b.aggregate(aggregator, drop_last=True))) == [3, 12]
    assert aggregator.calls == [*range(7)]
    assert aggregator.values == [6]


def test_flush_is_called_for_an_empty_stream() -> None:
    """The end of the stream is the end of the stream."""
    aggregator = Summing()
    assert run(build_of([], lambda b: b.aggregate(aggregator))) == []
    assert aggregator.calls == ["flush"]


@pytest.mark.parametrize("value", [0, "", [], False])
def test_only_none_is_no_output(value: Any) -> None:
    """Falsy outputs of ``accumulate`` and ``flush`` pass."""

    class Constant(Aggregator[Any, Any]):
        def accumulate(self, item: Any) -> Any:
            return value if item else None

        def flush(self) -> Any:
            return value

    assert run(build_of([0, 1], lambda b: b.aggregate(Constant()))) == [value, value]


def test_one_item_at_a_time() -> None:
    """``accumulate`` and ``flush`` never run at once, whatever the number of threads; items come in order."""
    busy = threading.Lock()
    seen: list[int] = []

    class Exclusive(Aggregator[int, int]):
        def accumulate(self, item: int) -> None:
            assert busy.acquire(blocking=False)
            seen.append(item)
            busy.release()

        def flush(self) -> int:
            assert busy.acquire(blocking=False)
            busy.release()
            return len(seen)

    assert run(build_of(range(200), lambda b: b.aggregate(Exclusive())), num_threads=8) == [200]
    assert seen == list(range(200))


@pytest.mark.parametrize("where", ["accumulate", "flush"])
@pytest.mark.parametrize("max_failures", [-1, 100])
def test_an_exception_fails_the_stage(where: str, max_failures: int) -> None:
    """It is no item's failure: no limit allows it; it is the stage's exception itself."""
    failure = ValueError(where)

    class Broken(Aggregator[int, int]):
        def accumulate(self, item: int) -> int:
            if where == "accumulate" and item == 2:
                raise failure
            return item

        def flush(self) -> None:
            if where == "flush":
                raise failure

    items, error = fail(build_of(range(4), lambda b: b.aggregate(Broken())), max_failures=max_failures)
    assert items == ([0, 1] if where == "accumulate" else [0, 1, 2, 3])
    assert error is failure
    assert any("Pipeline stage:" in note for note in error.__notes__)


def test_a_failing_stage_before_an_aggregate_has_it_flushed() -> None:
    """Stages after a failing one finish their items: the rest comes out before the failure."""

    def source() -> Any:
        yield from range(4)
        raise OSError("source")

    aggregator = Summing()
    items, error = fail(build_of(source(), lambda b: b.aggregate(aggregator)))
    assert items == [3, 3]
    assert isinstance(error, OSError)
    assert run(build_of(range(1))) == [0]


def test_builds_of_one_builder_share_the_aggregator() -> None:
    """It belongs to the config: what one run leaves in it, the next finds."""
    builder = build_of(range(4), lambda b: b.aggregate(Summing(), drop_last=True))
    assert run(builder) == [0 + 1 + 2]
    assert run(builder) == [3 + 0 + 1]


def test_builds_of_one_builder_do_not_share_plain_lists() -> None:
    """``aggregate(n)`` keeps nothing from one run to the next: each list is of one run."""
    builder = build_of(range(4), lambda b: b.aggregate(3, drop_last=True))
    assert run(builder) == [[0, 1, 2]]
    assert run(builder) == [[0, 1, 2]]


class Counting(TaskHook):
    """Counts the calls of one stage."""

    counts: dict[str, int]

    def __init__(self, info: StageInfo, counts: dict[str, int]) -> None:
        self.name = info.stage_name
        self.counts = counts

    def task_hook(self, input_item: Any = None) -> Any:
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def hook() -> Any:
            self.counts[self.name] = self.counts.get(self.name, 0) + 1
            yield

        return hook()


@pytest.mark.parametrize(("drop_last", "num_calls"), [(False, 11), (True, 10)])
@pytest.mark.parametrize("is_own", [False, True])
def test_hooks_run_once_per_item_and_once_for_the_last_flush(drop_last: bool, num_calls: int, is_own: bool) -> None:
    """Ten items are eleven calls, or ten with ``drop_last``."""
    counts: dict[str, int] = {}
    aggregator = Summing() if is_own else 3
    builder = build_of(range(10), lambda b: b.aggregate(aggregator, drop_last=drop_last))
    assert len(run(builder, task_hook_factory=lambda info: [Counting(info, counts)])) == (3 if drop_last else 4)
    assert list(counts.values()) == [num_calls]


def test_an_aggregator_that_runs_ahead_of_its_consumer_waits() -> None:
    """It emits no more than there is room for, and the source is asked for no more than that."""
    import itertools

    taken = 0
    reached = threading.Event()

    def source() -> Any:
        nonlocal taken
        for taken in itertools.count(1):
            if taken == 8:
                reached.set()
            yield taken

    with running(build_of(source(), lambda b: b.aggregate(2), sink=1)) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == [1, 2]
        await_event(reached)
    assert taken <= 16


def test_a_subclass_of_collate_is_asked() -> None:
    """What it overrides is called."""

    class Tuples(Collate[Any]):
        def accumulate(self, item: Any) -> Any:
            out = super().accumulate(item)
            return None if out is None else tuple(out)

    assert run(build_of(range(5), lambda b: b.aggregate(Tuples(2)))) == [(0, 1), (2, 3), [4]]


def test_aggregate_then_disaggregate_is_the_identity() -> None:
    """Order is kept, also on few threads and with small buffers."""
    builder = build_of(range(100), lambda b: b.aggregate(7).disaggregate().aggregate(3).disaggregate(), sink=1)
    assert run(builder, num_threads=1) == list(range(100))


def test_an_aggregator_pickles_with_its_config() -> None:
    """With the state it has."""
    aggregator = Summing()
    aggregator.accumulate(5)
    copy = pickle.loads(pickle.dumps(Aggregate(aggregator)))
    builder = build_of(range(2), lambda b: b.aggregate(copy.op))
    assert run(builder) == [5 + 0 + 1]
