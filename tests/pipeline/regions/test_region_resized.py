"""A region whose number of workers changes while it runs: nothing is lost, nothing comes twice."""

import logging
import os
import select
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder, PipelineFailure, PipelineStateError, WorkerDiedError
from spdl.pipeline._engine._region._workers import Died
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops
from tests.pipeline.regions.test_region_laws import STAGES, expected, region, sizes
from tests.pipeline.regions.threads import ThreadWorkers, ThreadWorkersConfig, kill
from tests.strategies.profiles import cases
from tests.support.running import TIMEOUT

#: After so many outputs, that many workers.
resizes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 4)), max_size=6)
names_of_stages = st.lists(st.sampled_from(["double", "async", "odd", "failing"]), min_size=1, max_size=2)


def resize_at(pipeline: Any, moments: list[tuple[int, int]], num_found: int) -> None:
    for moment, num_workers in moments:
        if moment == num_found:
            pipeline.resize(num_workers)


def taking_part(pipeline: Any) -> list[int]:
    """Indices of the workers that are not retiring."""
    stage = pipeline._engine.nodes[1]
    with pipeline._engine.lock:
        active: list[int] = stage.size.active()
    return active


@cases(100)
@given(
    names=st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=3),
    num_items=st.integers(0, 40),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
    moments=resizes,
    restart=st.booleans(),
)
def test_each_item_comes_out_or_is_counted(
    names: list[str],
    num_items: int,
    num_workers: int,
    size_in: int,
    size_out: int,
    moments: list[tuple[int, int]],
    restart: bool,
) -> None:
    """Whatever the numbers of workers are, the outputs are those of the stages."""
    pipeline = region(names, ThreadWorkersConfig(num_workers, restart=restart), size_in, size_out, range(num_items))
    found: list[int] = []
    resize_at(pipeline, moments, 0)  # before the start
    with pipeline.auto_stop():
        for item in pipeline:
            found.append(item)
            resize_at(pipeline, moments, len(found))
    assert Counter(found) == Counter(each for item in range(num_items) for each in expected(names, item))
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items
    stage = pipeline.stats().stages[1]
    assert stage.num_in_flight == 0
    assert stage.num_calls == num_items


@cases(100)
@given(
    names=st.lists(st.sampled_from(["double", "async", "odd", "generator"]), min_size=1, max_size=2),
    epochs=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
    moments=resizes,
    restart=st.booleans(),
)
def test_an_epochs_end_is_a_barrier(
    names: list[str],
    epochs: list[int],
    num_workers: int,
    size_in: int,
    size_out: int,
    moments: list[tuple[int, int]],
    restart: bool,
) -> None:
    """Also if workers leave or join in the middle of an epoch, or at its end."""
    target = ThreadWorkersConfig(num_workers, restart=restart)
    pipeline = region(names, target, size_in, size_out, ops.Epochs(*epochs), continuous=True)
    num_found = 0
    with pipeline.auto_stop():
        for number, num_items in enumerate(epochs):
            found: list[int] = []
            for item in pipeline:
                found.append(item)
                num_found += 1
                resize_at(pipeline, moments, num_found)
            given_items = range(100 * number, 100 * number + num_items)
            assert Counter(found) == Counter(each for item in given_items for each in expected(names, item))


@cases(150)
@given(
    names=names_of_stages,
    epochs=st.lists(st.integers(0, 20), min_size=1, max_size=3),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
    moments=resizes,
    deaths=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=4),
)
def test_items_are_conserved_when_workers_die(
    names: list[str],
    epochs: list[int],
    num_workers: int,
    size_in: int,
    size_out: int,
    moments: list[tuple[int, int]],
    deaths: list[tuple[int, int]],
) -> None:
    """Those that are retiring, starting or working: an item comes out, was dropped, or has failed, once."""
    target = ThreadWorkersConfig(num_workers, restart=True)
    pipeline = region(names, target, size_in, size_out, ops.Epochs(*epochs), continuous=True)
    lost: list[Any] = []
    pipeline._engine.failure_watchers.append(
        lambda failure: lost.append(failure.record.origin) if type(failure.record.error) is WorkerDiedError else None
    )
    num_found = 0
    with pipeline.auto_stop():
        for number, num_items in enumerate(epochs):
            found: list[int] = []
            for item in pipeline:
                found.append(item)
                num_found += 1
                resize_at(pipeline, moments, num_found)
                for moment, worker in deaths:
                    if moment == num_found:
                        kill(target, worker % len(target.made[-1].ports))
            given_items = range(100 * number, 100 * number + num_items)
            wanted = Counter(each for item in given_items for each in expected(names, item))
            assert not Counter(found) - wanted
            assert len(lost) >= (wanted - Counter(found)).total()
        stage = pipeline.stats().stages[1]
        assert stage.num_calls == sum(epochs) == stage.num_emitted + stage.num_dropped + stage.num_failures
        assert len(lost) == len(set(lost))
        if len(deaths) < 2:
            assert not lost


@cases(50)
@given(
    num_items=st.integers(1, 30),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    num_before=st.integers(0, 30),
    moments=resizes,
)
def test_a_resumed_run_goes_on_exactly(
    num_items: int, num_workers: int, size_in: int, num_before: int, moments: list[tuple[int, int]]
) -> None:
    """What was read before a state, and what is read after it is loaded, is every item once."""

    def build() -> Any:
        builder: Any = PipelineBuilder().add_source(range(num_items))
        builder.to(ThreadWorkersConfig(num_workers), buffer_size=size_in)
        return builder.pipe(ops.double).to(MAIN_PROCESS).add_sink(2).build(num_threads=1, resumable=True)

    pipeline = build()
    found: list[int] = []
    with pipeline.auto_stop():
        while len(found) < min(num_before, num_items):
            found.append(pipeline.get_item(timeout=TIMEOUT))
            resize_at(pipeline, moments, len(found))
        state = pipeline.state_dict()
    again = build()
    again.load_state_dict(state)
    with again.auto_stop():
        for item in again:
            found.append(item)
            resize_at(again, moments, len(found))
    assert sorted(found) == [2 * item for item in range(num_items)]


class UntilTold:
    """Counts until it is told to end."""

    def __init__(self) -> None:
        self.is_over = False
        self.num_given = 0

    def __iter__(self) -> Iterator[int]:
        while not self.is_over:
            yield self.num_given
            self.num_given += 1


def is_settled(pipeline: Any, num_workers: int) -> bool:
    """Whether as many workers as wanted are ready, and all others have ended."""
    stage = pipeline._engine.nodes[1]
    with pipeline._engine.lock:
        ready = [worker for worker in stage.workers if not worker.is_away]
        return len(ready) == num_workers and len(stage.size.active()) == num_workers and not stage.size.num_missing


@cases(60)
@given(
    names=st.lists(st.sampled_from(["double", "async", "failing"]), min_size=1, max_size=2),  # there is some output
    num_workers=st.integers(1, 3),
    size_in=sizes,
    steps=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=6),
    restart=st.booleans(),
)
def test_places_are_taken_again(
    names: list[str], num_workers: int, size_in: int, steps: list[tuple[int, bool]], restart: bool
) -> None:
    """Whether or not all workers that retired have ended by then, and one that retires is killed."""
    target = ThreadWorkersConfig(num_workers, restart=restart)
    source = UntilTold()
    pipeline = region(names, target, size_in, 1, source)
    found: list[int] = []
    with pipeline.auto_stop():
        for wanted, is_killing in steps:
            pipeline.resize(wanted)
            if is_killing and restart and wanted not in taking_part(pipeline):
                with suppress(IndexError):  # there is no such worker
                    kill(target, wanted)
            else:
                while not is_settled(pipeline, wanted):
                    found.append(pipeline.get_item(timeout=TIMEOUT))
        source.is_over = True
        found += pipeline
    assert Counter(found) == Counter(each for item in range(source.num_given) for each in expected(names, item))


def test_all_workers_take_part() -> None:
    """New ones get items when they are ready, and those that retire end."""
    target = ThreadWorkersConfig(1)
    pipeline = region(["double"], target, 1, 1, iter(count()))
    with pipeline.auto_stop():
        pipeline.get_item(timeout=TIMEOUT)
        pipeline.resize(3)
        workers = target.made[-1]
        while len(workers.ports) < 3 or not all(worker.num_taken for worker in numbers(pipeline)):
            pipeline.get_item(timeout=TIMEOUT)
        pipeline.resize(1)
        assert taking_part(pipeline) == [0]
        threads = [port.thread for port in workers.ports[1:]]
        while any(thread.is_alive() for thread in threads):
            pipeline.get_item(timeout=TIMEOUT)
        pipeline.resize(2)  # in a place that is free
        while len(taking_part(pipeline)) < 2 or not numbers(pipeline)[1].num_taken:
            pipeline.get_item(timeout=TIMEOUT)
        assert taking_part(pipeline) == [0, 1]
        assert len(workers.ports) == 3


@dataclass
class Taken:
    """How many calls a worker has reported."""

    num_taken: int


def numbers(pipeline: Any) -> list[Taken]:
    with pipeline._engine.lock:
        return [Taken(worker.num_calls) for worker in pipeline._engine.nodes[1].workers]


def test_the_number_can_be_set_before_the_start() -> None:
    """Only that many are started."""
    target = ThreadWorkersConfig(4)
    pipeline = region(["double"], target, 1, 1, range(5))
    pipeline.resize(2)
    with pipeline.auto_stop():
        assert sorted(pipeline) == [0, 2, 4, 6, 8]
    assert len(target.made[-1].ports) == 2


def test_what_is_set_last_holds() -> None:
    """Before anything was done for what was set before."""
    target = ThreadWorkersConfig(2)
    pipeline = region(["double"], target, 1, 1, iter(count()))
    with pipeline.auto_stop():
        for num_workers in (4, 1, 2, 3, 1, 2):
            pipeline.resize(num_workers)
        while pipeline._engine.nodes[1].size.num_missing or len(taking_part(pipeline)) != 2:
            pipeline.get_item(timeout=TIMEOUT)


class FailingToStart(ThreadWorkers):
    """The system has no room for more."""

    def add(self) -> None:
        if len(self.ports) == self.num_workers:
            raise OSError("no more processes")
        super().add()


class DyingAtStart(ThreadWorkers):
    """Those that are added die before they are ready."""

    def __init__(self, spec: Any, num_workers: int, *, may_replace: bool) -> None:
        super().__init__(spec, num_workers, may_replace=may_replace)
        self.deaths: list[Died] = []

    def add(self) -> None:
        super().add()
        if len(self.ports) > self.num_workers:
            self._watched.discard(len(self.ports) - 1)
            self.deaths.append(Died(len(self.ports) - 1, WorkerDiedError("no such library")))
            self.wake()

    def wait(self) -> list[Any]:
        events = super().wait()
        deaths, self.deaths = self.deaths, []
        return [*events, *deaths]


@dataclass(frozen=True)
class MadeConfig(ThreadWorkersConfig):
    """With workers of some class."""

    kind: Callable[..., ThreadWorkers] = field(default=ThreadWorkers)

    def _build(self, spec: Any) -> ThreadWorkers:
        workers = self.kind(spec, self.max_workers, may_replace=self.restart)
        self.made.append(workers)
        return workers


@pytest.mark.parametrize(
    ("kind", "message"), [(FailingToStart, "no more processes"), (DyingAtStart, "no such library")]
)
def test_a_worker_that_cannot_be_started_leaves_the_work_to_others(
    kind: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says why, and a smaller number is possible still."""
    pipeline = region(["double"], MadeConfig(2, kind=kind), 1, 1, iter(count()))
    with caplog.at_level(logging.WARNING, "spdl.pipeline"), pipeline.auto_stop():
        pipeline.resize(4)
        while not any(message in record.getMessage() for record in caplog.records):
            pipeline.get_item(timeout=TIMEOUT)
        pipeline.resize(1)
        assert taking_part(pipeline) == [0]
        for _ in range(20):
            pipeline.get_item(timeout=TIMEOUT)


def test_a_death_of_the_last_worker_fails_the_pipeline() -> None:
    """Although another one is retiring."""
    target = ThreadWorkersConfig(2)
    pipeline = region(["double"], target, 1, 1, iter(count()))

    def read() -> None:
        with pipeline.auto_stop():
            pipeline.resize(1)
            pipeline.get_item(timeout=TIMEOUT)
            kill(target, 0)
            for _ in pipeline:
                pass

    with pytest.raises(PipelineFailure) as info:
        read()
    assert isinstance(info.value.exceptions[0], WorkerDiedError)


def test_errors_say_what_is_wrong() -> None:
    """With the number, the region, or the pipeline."""
    pipeline = region(["double"], ThreadWorkersConfig(1), 1, 1, range(3))
    with pytest.raises(ValueError, match="num_workers must be >= 1, got 0"):
        pipeline.resize(0)
    with pytest.raises(TypeError, match="num_workers"):
        pipeline.resize("2")
    with pytest.raises(TypeError, match="stage must be a StageInfo, the name of a stage, or None, got 1"):
        pipeline.resize(2, stage=1)
    with pytest.raises(ValueError, match="has no region 'after'; its regions are 'subprocess_pipeline"):
        pipeline.resize(2, stage="after")
    with pipeline.auto_stop():
        list(pipeline)
        with pytest.raises(PipelineStateError, match=r"pipeline .* has ended"):
            pipeline.resize(2)
    stopped = region(["double"], ThreadWorkersConfig(1), 1, 1, iter(count()))
    with stopped.auto_stop():
        stopped.get_item(timeout=TIMEOUT)
    with pytest.raises(PipelineStateError, match="has been stopped"):
        stopped.resize(2)
    plain: Any = PipelineBuilder().add_source([1]).add_sink().build(num_threads=1)
    with pytest.raises(ValueError, match=r"has no region; PipelineBuilder\.to makes one"):
        plain.resize(2)


def test_one_of_several_regions_is_named() -> None:
    """By its name, or, if they have the same, by its ``StageInfo``."""
    first, second, third = (ThreadWorkersConfig(1) for _ in range(3))
    builder: Any = PipelineBuilder().add_source(range(4))
    builder.to(first).pipe(ops.same).to(second).pipe(ops.double).to(third).pipe(ops.same).to(MAIN_PROCESS).add_sink()
    pipeline = builder.build(num_threads=1)
    with pytest.raises(ValueError, match="has 3 such regions"):
        pipeline.resize(2)
    with pytest.raises(ValueError, match="has 2 such regions"):
        pipeline.resize(2, stage="subprocess_pipeline(same)")
    pipeline.resize(2, stage="subprocess_pipeline(double)")
    pipeline.resize(3, stage=pipeline.stats().stages[3].info)
    with pipeline.auto_stop():
        assert sorted(pipeline) == [0, 2, 4, 6]
    assert [len(each.made[-1].ports) for each in (first, second, third)] == [1, 2, 3]


def pids_of(pipeline: Any, wanted: Callable[[set[int]], bool]) -> Iterator[int]:
    """Read until the processes of the newest outputs are as wanted. Yields the items."""
    newest: list[int] = []
    while not wanted(set(newest)):
        item, pid = pipeline.get_item(timeout=TIMEOUT)
        newest = [*newest[-30:], pid]
        yield item


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True])
def test_processes_come_and_go(restart: bool) -> None:
    """And those that are too many end."""
    builder: Any = PipelineBuilder().add_source(iter(count())).to(ProcessPoolExecutorConfig(1, restart=restart))
    pipeline = builder.pipe(ops.with_pid).to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        item, first = pipeline.get_item(timeout=TIMEOUT)
        found = [item]
        pipeline.resize(2)
        found += pids_of(pipeline, lambda pids: len(pids) == 2)
        process = os.pidfd_open(pipeline._engine.nodes[1].lane.workers._children[1].pid)
        try:
            pipeline.resize(1)
            found += pids_of(pipeline, lambda pids: pids == {first})
            assert select.select([process], [], [], TIMEOUT)[0]
        finally:
            os.close(process)
    assert len(set(found)) == len(found)
