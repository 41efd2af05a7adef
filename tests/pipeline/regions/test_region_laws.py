"""In = out + dropped + failed, whatever the transfers are, and whenever workers die."""

import os
import random
import signal
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder, PipelineFailure, WorkerDiedError
from spdl.pipeline.defs import MAIN_PROCESS
from tests.pipeline.regions import ops
from tests.pipeline.regions.threads import ThreadWorkersConfig, kill
from tests.strategies.profiles import cases
from tests.support.region_kinds import IN_PROCESSES, RegionKind
from tests.support.soak import seeds

STAGES = {
    "double": lambda builder: builder.pipe(ops.double, concurrency=2),
    "async": lambda builder: builder.pipe(ops.double_async, concurrency=2),
    "odd": lambda builder: builder.pipe(ops.odd_only),
    "failing": lambda builder: builder.pipe(ops.fail_on_multiples_of_three),
    "generator": lambda builder: builder.pipe(ops.three_of_each).pipe(ops.first),
    "lists": lambda builder: builder.aggregate(2).disaggregate(),
}
sizes = st.integers(1, 4)


def region(names: list[str], target: Any, size_in: int, size_out: int, source: Any, **options: Any) -> Any:
    builder: Any = PipelineBuilder().add_source(source, **options).to(target, buffer_size=size_in)
    for name in names:
        STAGES[name](builder)
    builder.to(MAIN_PROCESS, buffer_size=size_out).pipe(ops.same, name="after").add_sink(2)
    return builder.build(num_threads=2, max_failures=Fraction(1))  # never trips, and all calls may fail


def expected(names: list[str], item: int) -> list[int]:
    """What comes of one item."""
    items = [item]
    for name in names:
        if name in ("double", "async"):
            items = [2 * each for each in items]
        elif name == "odd":
            items = [each for each in items if each % 2]
        elif name == "failing":
            items = [each for each in items if each % 3]
        elif name == "generator":
            items = [each for each in items for _ in range(3)]
    return items


@cases(60)
@given(
    names=st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=3),
    num_items=st.integers(0, 25),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
)
def test_each_item_comes_out_or_is_counted(
    names: list[str], num_items: int, num_workers: int, size_in: int, size_out: int
) -> None:
    """Without deaths the outputs are those of the stages, and every position of the source is consumed."""
    pipeline = region(names, ThreadWorkersConfig(num_workers), size_in, size_out, range(num_items))
    with pipeline.auto_stop():
        found = Counter(pipeline)
    assert found == Counter(each for item in range(num_items) for each in expected(names, item))
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items
    stage = pipeline.stats().stages[1]
    assert stage.num_in_flight == 0
    assert stage.num_calls == num_items
    if not {"generator", "lists"} & set(names):
        assert stage.num_calls == stage.num_emitted + stage.num_dropped + stage.num_failures


@cases(40)
@given(
    names=st.lists(st.sampled_from(["double", "async", "odd", "generator"]), min_size=1, max_size=2),
    epochs=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
)
def test_an_epochs_end_is_a_barrier(
    names: list[str], epochs: list[int], num_workers: int, size_in: int, size_out: int
) -> None:
    """Each epoch gives what its own items give."""
    source = ops.Epochs(*epochs)
    pipeline = region(names, ThreadWorkersConfig(num_workers), size_in, size_out, source, continuous=True)
    with pipeline.auto_stop():
        for number, num_items in enumerate(epochs):
            given_items = range(100 * number, 100 * number + num_items)
            assert Counter(pipeline) == Counter(each for item in given_items for each in expected(names, item))


@cases(60)
@given(
    names=st.lists(st.sampled_from(["double", "async", "odd", "failing", "lists"]), min_size=1, max_size=2),
    num_items=st.integers(1, 40),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
    deaths=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=4),
    continuous=st.booleans(),
)
def test_items_are_conserved_when_workers_die(
    names: list[str],
    num_items: int,
    num_workers: int,
    size_in: int,
    size_out: int,
    deaths: list[tuple[int, int]],
    continuous: bool,
) -> None:
    """With replacement, an item that does not come out has been dropped, or is in the ledger, once."""
    target = ThreadWorkersConfig(num_workers, restart=True)
    source = ops.Epochs(num_items) if continuous else range(num_items)
    pipeline = region(names, target, size_in, size_out, source, continuous=continuous)
    found: list[int] = []
    with pipeline.auto_stop():
        for item in pipeline:
            found.append(item)
            for moment, worker in deaths:
                if moment == len(found):
                    kill(target, worker % num_workers)
    stage = pipeline.stats().stages[1]
    assert not Counter(found) - Counter(each for item in range(num_items) for each in expected(names, item))
    assert stage.num_calls == num_items
    assert stage.num_calls == stage.num_emitted + stage.num_dropped + stage.num_failures or "lists" in names
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items
    lost = [failure.origin for failure in stage.failures if isinstance(failure.error, WorkerDiedError)]
    assert len(lost) == len(set(lost))
    if "lists" not in names:
        for position in lost:
            for each in expected(names, position):
                assert found.count(each) == 0, (position, found)


@cases(20)
@given(num_workers=st.integers(1, 3), size_in=sizes, moment=st.integers(0, 20))
def test_a_death_without_replacement_ends_the_pipeline(num_workers: int, size_in: int, moment: int) -> None:
    """Reads first give what had come; then the failure, again and again."""
    target = ThreadWorkersConfig(num_workers)
    pipeline = region(["double"], target, size_in, 1, iter(range(10**9)))
    found: list[int] = []
    failure: Any = None
    try:
        with pipeline.auto_stop():
            for item in pipeline:
                found.append(item)
                if len(found) == moment + 1:
                    kill(target, 0)
    except PipelineFailure as exc:
        failure = exc
    assert isinstance(failure.exceptions[0], WorkerDiedError)
    assert len(found) == len(set(found))


@IN_PROCESSES
@pytest.mark.parametrize("names", [["double", "odd"], ["failing", "async"], ["generator"], ["lists", "double"]])
@pytest.mark.parametrize("restart", [False, True])
def test_regions_give_the_same_in_other_processes(kind: RegionKind, names: list[str], restart: bool) -> None:
    """Each item comes out or is counted, and an epoch's end is a barrier."""
    target = kind.workers(2, restart=restart)
    pipeline = region(names, target, 3, 2, ops.Epochs(20, 0, 7), continuous=True)
    with pipeline.auto_stop():
        for number, num_items in enumerate((20, 0, 7)):
            items = range(100 * number, 100 * number + num_items)
            assert Counter(pipeline) == Counter(each for item in items for each in expected(names, item))
    assert pipeline.stats().stages[1].num_calls == 27


@pytest.mark.slow
@pytest.mark.soak
@IN_PROCESSES
@pytest.mark.parametrize("seed", seeds(3, 10))
def test_items_are_conserved_when_processes_are_killed(kind: RegionKind, seed: int) -> None:
    """The same with real processes, and the signals of real crashes."""
    draw = random.Random(seed)
    num_items, num_workers = draw.randrange(100, 300), draw.randint(1, 3)
    deaths = {draw.randrange(60) for _ in range(draw.randint(1, 3))}
    number = draw.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
    target = kind.workers(num_workers, restart=True)
    builder: Any = PipelineBuilder().add_source(range(num_items)).to(target, buffer_size=draw.randint(1, 4))
    builder.pipe(ops.with_pid, concurrency=2).to(MAIN_PROCESS, buffer_size=draw.randint(1, 4)).add_sink()
    pipeline = builder.build(num_threads=2)
    found: list[int] = []
    killed: set[int] = set()
    with pipeline.auto_stop():
        for item, pid in pipeline:
            found.append(item)
            if len(found) in deaths and pid not in killed:  # its number may be another process's by now
                killed.add(pid)
                with suppress(ProcessLookupError):  # it has ended
                    os.kill(pid, number)
    stage = pipeline.stats().stages[1]
    assert len(set(found)) == len(found) == stage.num_emitted
    assert stage.num_calls == num_items == stage.num_emitted + stage.num_failures
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items
    for failure in stage.failures:
        assert isinstance(failure.error, WorkerDiedError)
        assert failure.error.exit_code == (None if kind.are_actors else -number)
        assert failure.origin not in found
