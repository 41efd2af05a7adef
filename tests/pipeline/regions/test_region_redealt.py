"""Items of dead workers are dealt once more, where workers are replaced: none is lost, none comes twice."""

import os
import signal
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._processes._remote_failure import RemoteFailure
from spdl.pipeline import PipelineBuilder, WorkerDiedError
from spdl.pipeline._engine._origin import SourcePosition
from spdl.pipeline._engine._region._workers import FailedItem, Report
from spdl.pipeline.defs import MAIN_PROCESS
from tests.pipeline.regions import ops
from tests.pipeline.regions.scripted import ScriptedWorkersConfig, report_of
from tests.pipeline.regions.test_region_laws import STAGES, expected, region, sizes
from tests.pipeline.regions.threads import ThreadWorkersConfig, kill
from tests.strategies.profiles import cases
from tests.support.region_kinds import IN_PROCESSES, RegionKind
from tests.support.running import TIMEOUT

names_of_stages = st.lists(st.sampled_from(["double", "async", "odd", "failing"]), min_size=1, max_size=2)


def region_of(pipeline: Any) -> Any:
    return pipeline.stats().stages[1]


@cases(60)
@given(
    names=names_of_stages,
    epochs=st.lists(st.integers(0, 15), min_size=1, max_size=3),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
    death=st.tuples(st.integers(1, 20), st.integers(0, 2)),
)
def test_one_death_loses_nothing(
    names: list[str], epochs: list[int], num_workers: int, size_in: int, size_out: int, death: tuple[int, int]
) -> None:
    """Each epoch gives what its items give, whenever the worker dies, and failures of ops are counted once."""
    target = ThreadWorkersConfig(num_workers, restart=True)
    moment, worker = death
    num_found = 0
    pipeline = region(names, target, size_in, size_out, ops.Epochs(*epochs), continuous=True)
    with pipeline.auto_stop():
        for number, num_items in enumerate(epochs):
            found: list[int] = []
            for item in pipeline:
                found.append(item)
                num_found += 1
                if num_found == moment:
                    kill(target, worker % num_workers)
            given_items = range(100 * number, 100 * number + num_items)
            assert Counter(found) == Counter(each for item in given_items for each in expected(names, item))
        stage = region_of(pipeline)
        assert stage.num_calls == sum(epochs) == stage.num_emitted + stage.num_dropped + stage.num_failures
        assert not any(isinstance(failure.error, WorkerDiedError) for failure in stage.failures)


@cases(60)
@given(
    names=st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=2),
    num_items=st.integers(1, 30),
    num_workers=st.integers(1, 3),
    size_in=sizes,
    size_out=sizes,
    deaths=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=4),
)
def test_no_output_comes_twice(
    names: list[str], num_items: int, num_workers: int, size_in: int, size_out: int, deaths: list[tuple[int, int]]
) -> None:
    """An item of which an output has come is not dealt again: what did not come of it is a failure."""
    target = ThreadWorkersConfig(num_workers, restart=True)
    found: list[int] = []
    pipeline = region(names, target, size_in, size_out, range(num_items))
    lost: list[Any] = []

    def note(failure: Any) -> None:
        if isinstance(failure.record.error, WorkerDiedError):
            lost.append(failure.record.origin)

    pipeline._engine.failure_watchers.append(note)
    with pipeline.auto_stop():
        for item in pipeline:
            found.append(item)
            for moment, worker in deaths:
                if moment == len(found):
                    kill(target, worker % num_workers)
    wanted = Counter(each for item in range(num_items) for each in expected(names, item))
    stage = region_of(pipeline)
    assert not Counter(found) - wanted
    assert stage.num_calls == num_items
    assert stage.num_in_flight == 0
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items
    owners = {each: item for item in range(num_items) for each in expected(names, item)}
    assert {owners[each] for each in wanted - Counter(found)} <= set(lost)
    assert len(lost) == len(set(lost))


@cases(30)
@given(
    num_items=st.integers(1, 30),
    num_workers=st.integers(1, 2),
    size_in=sizes,
    num_before=st.integers(0, 30),
    moment=st.integers(0, 20),
)
def test_a_resumed_run_goes_on_exactly(
    num_items: int, num_workers: int, size_in: int, num_before: int, moment: int
) -> None:
    """What was read before a state, and what is read after it is loaded, is every item once."""

    def build() -> tuple[Any, Any]:
        target = ThreadWorkersConfig(num_workers, restart=True)
        builder: Any = PipelineBuilder().add_source(range(num_items)).to(target, buffer_size=size_in)
        builder.pipe(ops.double).to(MAIN_PROCESS).add_sink(2)
        return target, builder.build(num_threads=1, resumable=True)

    target, pipeline = build()
    found: list[int] = []
    with pipeline.auto_stop():
        while len(found) < min(num_before, num_items):
            found.append(pipeline.get_item(timeout=60))
            if len(found) == moment:
                kill(target, 0)
        state = pipeline.state_dict()
    _, again = build()
    again.load_state_dict(state)
    with again.auto_stop():
        found += again
    assert sorted(found) == [2 * item for item in range(num_items)]


def die_once(note: Path, at: int, item: int) -> int:
    """Ends its process for the item ``at``, unless one has before."""
    if item == at:
        try:
            note.touch(exist_ok=False)
        except FileExistsError:
            return item
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def build(kind: RegionKind, op: Any, num_items: int, *, num_workers: int = 1, size: int = 1, **options: Any) -> Any:
    builder: Any = PipelineBuilder().add_source(range(num_items))
    builder.to(kind.workers(num_workers, restart=True), buffer_size=size)
    return builder.pipe(op, **options).to(MAIN_PROCESS, buffer_size=size).add_sink().build(num_threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("at", [5, 11])
@IN_PROCESSES
def test_an_item_that_ends_its_worker_once_comes(kind: RegionKind, at: int, tmp_path: Path) -> None:
    """Also if it is the last one: the end of the stream was sent before the worker died."""
    pipeline = build(kind, partial(die_once, tmp_path / "note", at), 12, num_workers=2, size=3)
    with pipeline.auto_stop():
        assert sorted(pipeline) == list(range(12))
    stage = region_of(pipeline)
    assert (stage.num_calls, stage.num_emitted, stage.num_failures) == (12, 12, 0)
    assert stage.num_redealt >= 1


@IN_PROCESSES
def test_an_item_that_ends_two_workers_fails(kind: RegionKind, caplog: pytest.LogCaptureFixture) -> None:
    """With what happened in the notes of its error; the first death is in the log."""
    pipeline = build(kind, ops.die, 1 + 5, max_failures=-1)
    with pipeline.auto_stop():
        items = list(pipeline)
    stage = region_of(pipeline)
    failures = {failure.item_repr: failure.error for failure in stage.failures}
    assert sorted([*items, *map(int, failures)]) == list(range(6))
    assert any("sent again after another worker that held it had died" in note for note in failures["5"].__notes__)
    assert any("sent again" in record.message and record.levelname == "WARNING" for record in caplog.records)


def draw_or_die(note: Path, item: int, rng: Any) -> tuple[int, float]:
    die_once(note, 3, item)
    return item, rng.python().random()


@pytest.mark.slow
@IN_PROCESSES
def test_an_item_gets_the_same_random_numbers_again(kind: RegionKind, tmp_path: Path) -> None:
    """They belong to its position."""
    runs = []
    for note in (tmp_path / "note", tmp_path / "note"):  # in the second run nothing dies
        pipeline = build(kind, partial(draw_or_die, note), 6, rng=True)
        with pipeline.auto_stop():
            runs.append(sorted(pipeline))
    assert runs[0] == runs[1]


@pytest.mark.slow
@IN_PROCESSES
@pytest.mark.parametrize("num_before", [0, 7, 20])
def test_a_run_whose_workers_were_killed_is_resumed_exactly(kind: RegionKind, num_before: int) -> None:
    """What the state says was read is not read again, and nothing else is left out."""

    def build() -> Any:
        builder: Any = PipelineBuilder().add_source(range(20)).to(kind.workers(2, restart=True), buffer_size=2)
        return builder.pipe(ops.with_pid).to(MAIN_PROCESS).add_sink(2).build(num_threads=1, resumable=True)

    pipeline = build()
    found: list[int] = []
    with pipeline.auto_stop():
        while len(found) < num_before:
            item, pid = pipeline.get_item(timeout=TIMEOUT)
            found.append(item)
            if len(found) == 3:
                os.kill(pid, signal.SIGKILL)
        state = pipeline.state_dict()
    again = build()
    again.load_state_dict(state)
    with again.auto_stop():
        found += [item for item, _ in again]
    assert sorted(found) == list(range(20))


@pytest.mark.parametrize(("is_part", "num_failures"), [(False, 1), (True, 2)])
def test_a_failure_that_was_reported_is_not_counted_again(is_part: bool, num_failures: int) -> None:
    """The worker dies before it reports that the item is consumed; with a failed output, the item's rest fails."""
    transfers: list[list[int]] = []

    def script(positions: Sequence[int]) -> list[Report | None]:
        transfers.append(list(positions))
        place = SourcePosition(0, positions[0])
        failed = FailedItem("1:decode", (place, 0) if is_part else place, "0", RemoteFailure.of(ValueError("bad")))
        return [report_of(1, failures=[failed]), None]

    builder: Any = PipelineBuilder().add_source([0]).to(ScriptedWorkersConfig(script=script))
    pipeline = builder.pipe(ops.same, max_failures=-1).to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == []
    stage = region_of(pipeline)
    assert transfers == [[0]]
    assert (stage.num_calls, stage.num_failures, stage.num_redealt) == (1, num_failures, 0)


def test_an_item_is_dealt_twice_at_most() -> None:
    """Under a new position, and then it fails."""
    transfers: list[list[int]] = []

    def script(positions: Sequence[int]) -> list[Report | None]:
        transfers.append(list(positions))
        return [None]

    builder: Any = PipelineBuilder().add_source([0]).to(ScriptedWorkersConfig(script=script))
    pipeline = builder.pipe(ops.same, max_failures=-1).to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == []
    stage = region_of(pipeline)
    assert transfers == [[0], [1]]
    assert (stage.num_calls, stage.num_failures, stage.num_redealt) == (1, 1, 1)
