"""``build(provenance=)`` logs what batches were made of, and ``spdl.resume.replay`` makes them again."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline.batching import LengthBuckets, PackSequences
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Aggregator,
    ExecutorConfig,
    Merge,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from spdl.resume import ResumeError, gather, replay
from spdl.source import DistributedKeyedSampler
from tests.support.region_kinds import RegionKind
from tests.support.rng_ops import adraw, draw, draw_first, draw_twice
from tests.support.timeouts import TIMEOUT

SEED = 11


def logged(builder: Any, log: Path, **options: Any) -> list[Any]:
    """Run a pipeline, and return its outputs."""
    pipeline = builder.build(provenance=log, **{"seed": SEED, **options})
    with pipeline.auto_stop():
        return list(pipeline)


def replayed(builder: Any, log: Path, num: int) -> list[Any]:
    return [replay(builder, log, step=step) for step in range(num)]


def noise(item: int, rng: Any) -> Any:
    return rng.numpy().normal(size=3).astype(np.float32) + item


def stack(items: Any, rng: Any) -> Any:
    return np.stack(items) * rng.numpy().random(dtype=np.float32)


def odd(item: int) -> int | None:
    return item if item % 2 else None


def spread(item: Any) -> Iterator[Any]:
    yield from (item, -item, 10 * item)


def _plain() -> Any:
    return PipelineBuilder().add_source(range(20)).pipe(draw, rng=True, concurrency=4).aggregate(3).add_sink()


def _tensors() -> Any:
    builder = PipelineBuilder().add_source(range(20)).pipe(noise, rng=True, concurrency=4).aggregate(4)
    return builder.pipe(stack, rng=True, concurrency=2).pipe(np.ndarray.tobytes).add_sink()


def _filtered() -> Any:
    return PipelineBuilder().add_source(range(20)).pipe(odd, concurrency=4).pipe(draw, rng=True).aggregate(3).add_sink()


def _generated() -> Any:
    builder = PipelineBuilder().add_source(range(1, 12)).pipe(spread, concurrency=4).pipe(draw_twice, rng=True)
    return builder.pipe(draw_first, rng=True, concurrency=3).aggregate(5).add_sink()


def _nested() -> Any:
    builder = PipelineBuilder().add_source(range(20)).aggregate(2).pipe(draw, rng="two", concurrency=2).aggregate(3)
    return builder.pipe(draw, rng="six", concurrency=2).add_sink()


def _disaggregated() -> Any:
    builder = PipelineBuilder().add_source(range(20)).aggregate(4).disaggregate().pipe(draw, rng=True, concurrency=3)
    return builder.aggregate(3).add_sink()


def _bucketed() -> Any:
    buckets: Any = LengthBuckets([5, 10, 20], length=lambda item: item[0], batch_size=3)
    return PipelineBuilder().add_source(range(20)).pipe(draw, rng=True, concurrency=4).aggregate(buckets).add_sink()


def _paths() -> Any:
    paths = [[Pipe(draw, rng="even", concurrency=2)], [Pipe(adraw, rng="odd", concurrency=2)]]
    builder = PipelineBuilder().add_source(range(20)).path_variants(lambda item: item % 2, paths)
    return builder.aggregate(4).add_sink()


def _batched_paths() -> Any:
    paths = [[Pipe(draw_first, rng="even")], [Pipe(draw_first, rng="odd")]]
    builder = PipelineBuilder().add_source(range(20)).aggregate(4)
    route = lambda items: [item % 2 for item in items]  # noqa: E731 - a lambda is what users write here
    return builder.path_variants(route, [[*path, Pipe(list)] for path in paths], batched=True).add_sink()


def _region(workers: ExecutorConfig) -> Any:
    builder = PipelineBuilder().add_source(range(20)).to(workers, buffer_size=2)
    return builder.pipe(draw, rng=True, concurrency=2).to(MAIN_PROCESS).aggregate(3).add_sink()


def _iterable() -> Any:
    return PipelineBuilder().add_source(dict.fromkeys("abcdefgh")).pipe(draw, rng=True).aggregate(3).add_sink()


BUILDERS = [
    _plain,
    _tensors,
    _filtered,
    _generated,
    _nested,
    _disaggregated,
    _bucketed,
    _paths,
    _batched_paths,
    _iterable,
]


@pytest.mark.parametrize("make", BUILDERS, ids=lambda make: make.__name__.strip("_"))
def test_batches_are_made_again(make: Callable[[], Any], tmp_path: Path) -> None:
    """Each logged batch is made again, equal to the last bit, whatever the order was."""
    log = tmp_path / "batches.jsonl"
    batches = logged(make(), log)
    assert batches
    assert replayed(make(), log, len(batches)) == batches


def test_batches_of_regions_are_made_again(kind: RegionKind, tmp_path: Path) -> None:
    """Whoever its workers are."""
    log = tmp_path / "batches.jsonl"
    batches = logged(_region(kind.workers(2)), log)
    assert replayed(_region(kind.workers(2)), log, len(batches)) == batches


def test_process_pools_are_replayed(tmp_path: Path) -> None:
    """A batch of items that came from a process pool in completion order is made again."""
    log = tmp_path / "batches.jsonl"
    with ProcessPoolExecutor(1) as pool:
        builder = PipelineBuilder().add_source(range(20)).pipe(draw, rng=True, executor=pool, concurrency=4)
        batches = logged(builder.aggregate(3).add_sink(), log)
        assert replayed(builder, log, len(batches)) == batches


def test_any_rank_replays_any_epoch(tmp_path: Path) -> None:
    """A batch of one rank and a later epoch is made on another rank, whose sampler keeps its epoch."""
    log = tmp_path / "batches.jsonl"

    def builder(rank: int, world: int) -> Any:
        sampler = DistributedKeyedSampler(24, rank=rank, world_size=world, seed=1)
        source = PipelineBuilder().add_source(sampler, continuous=True)
        return sampler, source.pipe(draw, rng=True, concurrency=2).aggregate(3).add_sink()

    pipeline = builder(1, 2)[1].build(provenance=log, seed=SEED)
    with pipeline.auto_stop():
        batches = [batch for _ in range(3) for batch in pipeline]
    sampler, other = builder(0, 3)
    assert replayed(other, log, len(batches)) == batches
    assert sampler.epoch == 0


def test_steps_go_on_after_a_resume(tmp_path: Path) -> None:
    """A resumed run goes on with the number of the step, and the newest batch of a step counts."""
    log = tmp_path / "batches.jsonl"
    builder = _plain()
    first = builder.build(provenance=log, seed=SEED, resumable=True)
    with first.auto_stop():
        batches = [first.get_item(timeout=TIMEOUT) for _ in range(2)]
        state = first.state_dict()
        first.get_item(timeout=TIMEOUT)
    second = builder.build(provenance=log, seed=SEED, resumable=True)
    second.load_state_dict(state)
    assert second.state_dict() == state
    with second.auto_stop():
        batches += list(second)
    assert replayed(builder, log, len(batches)) == batches
    assert gather([state])["spdl"]


def test_the_log_has_one_line_for_each_batch(tmp_path: Path) -> None:
    """A line has the step and ranges of positions; a header says what made them."""
    log = tmp_path / "batches.jsonl"
    logged(PipelineBuilder().add_source(range(5)).aggregate(2).add_sink(), log)
    header, *lines = [json.loads(line) for line in log.read_text().splitlines()]
    run = header.pop("run")
    assert header == {"spdl": 2, "seed": SEED, "fingerprint": [["source", "range", 5], ["aggregate", 2, False]]}
    assert lines == [
        {"step": 0, "run": run, "epoch": 0, "origin": {"all": [[0, 2]]}},
        {"step": 1, "run": run, "epoch": 0, "origin": {"all": [[2, 4]]}},
        {"step": 2, "run": run, "epoch": 0, "origin": {"all": [[4, 5]]}},
    ]


def test_reading_with_origins_is_logged_too(tmp_path: Path) -> None:
    """Each read of a batch writes its line, once."""
    log = tmp_path / "batches.jsonl"
    pipeline = _plain().build(provenance=log, seed=SEED)
    items = pipeline.with_origins()
    with pipeline.auto_stop():
        batches = [batch for batch, _ in items]
    assert replayed(_plain(), log, len(batches)) == batches
    assert len(log.read_text().splitlines()) == 1 + len(batches)


def test_a_log_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk ends the log, with one error; a file that cannot be opened is an error of the build."""

    def full(fd: int, line: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert len(logged(_plain(), tmp_path / "batches.jsonl")) == 7
    assert caplog.text.count("cannot write step 0 to the provenance log") == 1
    with pytest.raises(OSError, match="missing"):
        _plain().build(provenance=tmp_path / "missing" / "batches.jsonl")


# What is refused


def test_other_pipelines_are_refused(tmp_path: Path) -> None:
    """A log is not replayed with another pipeline; the difference is named."""
    log = tmp_path / "batches.jsonl"
    logged(_plain(), log)
    with pytest.raises(ResumeError, match=r"another pipeline.*aggregate"):
        replay(_nested(), log, step=0)
    assert replay(_plain(), log, step=0)


def test_missing_steps_and_damaged_lines_are_refused(tmp_path: Path) -> None:
    """A step that is not there, a line that is cut and a log without a header are errors with the reason."""
    log = tmp_path / "batches.jsonl"
    logged(_plain(), log)
    with pytest.raises(ResumeError, match="has no step 99"):
        replay(_plain(), log, step=99)
    header, *lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines))
    with pytest.raises(ResumeError, match="no header"):
        replay(_plain(), log, step=0)
    log.write_bytes(header[:-4] + b"\n" + b"".join(lines))
    with pytest.raises(ResumeError, match="no header"):
        replay(_plain(), log, step=0)
    log.write_bytes(header + lines[0][:-4] + b"\n")
    with pytest.raises(ResumeError, match=r"is damaged in line 2"):
        replay(_plain(), log, step=0)
    run = json.loads(header)["run"]
    for line, said in [
        (f'{{"step":0,"run":"{run}","epoch":0,"origin":{{"some":[1]}}}}', "no origin of a batch"),
        (f'{{"step":0,"run":"{run}","epoch":"0","origin":0}}', "no epoch"),
        ('{"step":0,"run":"0","epoch":0,"origin":0}', "no header"),
        ('{"step":0,"run":[0],"epoch":0,"origin":0}', "damaged in line 2"),
        ('{"step":0,"epoch":0,"origin":0}', "damaged in line 2"),
    ]:
        log.write_bytes(header + line.encode() + b"\n")
        with pytest.raises(ResumeError, match=said):
            replay(_plain(), log, step=0)


def test_a_torn_last_line_changes_no_later_run(tmp_path: Path) -> None:
    """Whatever a killed run has left of its last line: the next run is replayed with its own seed."""

    def drawn(item: int, rng: Any) -> float:
        return item + cast(float, rng.python().random())

    builder = PipelineBuilder().add_source(range(6)).pipe(drawn, rng=True).aggregate(2).add_sink()
    log = tmp_path / "batches.jsonl"
    list(builder.build(provenance=log, seed=1))
    whole = log.read_bytes()
    for cut in range(len(whole.splitlines(keepends=True)[0]) + 1, len(whole)):
        log.write_bytes(whole[:cut])
        batches = list(builder.build(provenance=log, seed=2))
        assert [replay(builder, log, step=step) for step in range(3)] == batches


def test_pipelines_that_append_in_turns_are_replayed_with_their_own_seed(tmp_path: Path) -> None:
    """The newest line of this pipeline counts, with the seed of its run."""

    def drawn(item: int, rng: Any) -> float:
        return item + cast(float, rng.python().random())

    log = tmp_path / "batches.jsonl"
    one = PipelineBuilder().add_source(range(6)).pipe(drawn, rng=True).aggregate(2).add_sink()
    other = PipelineBuilder().add_source(range(9)).pipe(drawn, rng=True).aggregate(3).add_sink()
    first, second = one.build(provenance=log, seed=1), other.build(provenance=log, seed=2)
    pairs = []
    with first.auto_stop(), second.auto_stop():
        for _ in range(3):
            pairs.append((first.get_item(), second.get_item()))
    for step, (mine, others) in enumerate(pairs):
        assert (replay(one, log, step=step), replay(other, log, step=step)) == (mine, others)


def test_what_cannot_be_made_again_is_refused(tmp_path: Path) -> None:
    """Rows that were split, aggregates before a merge and one-shot sources are refused with the reason."""
    log = tmp_path / "batches.jsonl"
    rows = PipelineBuilder().add_source(range(1, 9)).pipe(lambda n: np.arange(n), name="row")
    packed = rows.aggregate(PackSequences(5, too_long="split")).add_sink()
    num = len(logged(packed, log))
    with pytest.raises(ResumeError, match="split"):
        replayed(packed, log, num)

    def once() -> Any:
        return PipelineBuilder().add_source(iter(range(4))).aggregate(2).add_sink()

    log = tmp_path / "once.jsonl"
    logged(once(), log)
    with pytest.raises(ResumeError, match="cannot begin again"):
        replay(once(), log, step=0)

    class Last(Aggregator[Any, Any]):
        def accumulate(self, item: Any) -> None:
            self.item = item

        def flush(self) -> Any:
            return self.item

    log = tmp_path / "last.jsonl"
    last = PipelineBuilder().add_source(range(4)).aggregate(Last()).add_sink()
    assert logged(last, log) == [3]
    with pytest.raises(ResumeError, match=r"Last of stage.*is_exact"):
        replay(last, log, step=0)

    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(range(3)), [Aggregate(2)], SinkConfig(2)) for _ in range(2)
    ]
    merged: PipelineConfig[Any] = PipelineConfig(Merge(subs), [], SinkConfig(2))
    log = tmp_path / "merged.jsonl"
    pipeline = build_pipeline(merged, provenance=log)
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 4
    with pytest.raises(ResumeError, match="before a merge"):
        replay(merged, log, step=0)


def test_an_op_that_depends_on_more_is_noticed(tmp_path: Path) -> None:
    """A call that fails, or drops an item that it had kept, is an error with the position."""
    log = tmp_path / "batches.jsonl"
    state: dict[str, Any] = {}

    def fickle(item: int) -> int | None:
        if state.get("fails"):
            raise ValueError("not today")
        return None if state.get("drops") else item

    builder = PipelineBuilder().add_source(range(4)).pipe(fickle).aggregate(2).add_sink()
    logged(builder, log)
    state["drops"] = True
    with pytest.raises(ResumeError, match=r"no output of .*position=0.*was dropped"):
        replay(builder, log, step=0)
    state["fails"] = True
    with pytest.raises(ResumeError, match="A call has failed") as caught:
        replay(builder, log, step=0)
    assert str(caught.value.__cause__) == "not today"


def test_custom_merges_are_refused_when_built(tmp_path: Path) -> None:
    """Behind a merge op of the user there is nothing to log."""

    async def op(info: Any, queues: Any, output: Any) -> None:
        raise AssertionError

    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(2))
    with pytest.raises(ValueError, match="merge op"):
        build_pipeline(PipelineConfig(Merge([sub, sub], op), [], SinkConfig(2)), provenance=tmp_path / "log")
