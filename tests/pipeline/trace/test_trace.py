"""``Pipeline.trace``: what is in the file, when it is there, and what it leaves behind."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStateError, build_pipeline
from spdl.pipeline.defs import Aggregator, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.child import run_child


@pytest.fixture(autouse=True)
def all_steps_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are too short to be noted."""
    monkeypatch.setattr("spdl.pipeline._engine._traced._SHORT_STEP", 0.0)


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def slices(path: Path, stage: str) -> list[str]:
    """The names of the slices of a stage, in order of their begin."""
    found = [event for event in read(path) if event["ph"] == "X" and event["cat"] == stage]
    return [event["name"] for event in sorted(found, key=lambda event: event["ts"])]


def run(builder: PipelineBuilder[Any, Any], path: Path, **options: Any) -> Pipeline[Any]:
    pipeline = builder.add_sink().build(num_threads=3)
    with pipeline.trace(path, **options):
        for _ in pipeline:
            pass
    return pipeline


def source(number: int) -> PipelineBuilder[Any, Any]:
    return PipelineBuilder().add_source(range(number))


def same(item: Any) -> Any:
    return item


async def later(item: Any) -> Any:
    await asyncio.sleep(0)
    return item


def twice(item: Any) -> Iterator[Any]:
    yield item
    yield item


async def twice_later(item: Any) -> AsyncIterator[Any]:
    for _ in range(2):
        await asyncio.sleep(0)
        yield item


class Pairs(Aggregator[Any, Any]):
    def __init__(self) -> None:
        self.held: list[Any] = []

    def accumulate(self, item: Any) -> Any:
        self.held.append(item)
        return self.flush() if len(self.held) == 2 else None

    def flush(self) -> Any:
        held, self.held = self.held, []
        return held or None


ONCE = ["0", "1", "2", "3"]
STAGES: dict[str, tuple[Callable[[Any], Any], str, list[str]]] = {
    "function": (lambda b: b.pipe(same), "same", ONCE),
    "several calls": (lambda b: b.pipe(same, concurrency=3), "same", ONCE),
    "input order": (lambda b: b.pipe(same, concurrency=3, output_order="input"), "same", ONCE),
    "timeout": (lambda b: b.pipe(same, call_timeout=100), "same", ONCE),
    "retry": (lambda b: b.pipe(same, retry=2), "same", ONCE),
    "limit": (lambda b: b.pipe(same, max_failures=Fraction(1, 2)), "same", ONCE),
    "random numbers": (lambda b: b.pipe(lambda item, rng: item, rng=True, name="same"), "same", ONCE),
    "async function": (lambda b: b.pipe(later), "later", ONCE),
    "generator": (lambda b: b.pipe(twice), "twice", sorted(3 * ONCE)),  # two outputs, and the end
    "timed generator": (lambda b: b.pipe(twice, call_timeout=100), "twice", sorted(3 * ONCE)),
    "async generator": (lambda b: b.pipe(twice_later), "twice_later", sorted(2 * ONCE)),
    "after a generator": (lambda b: b.pipe(twice).pipe(same), "same", [f"{n}.{k}" for n in ONCE for k in "01"]),
    "aggregator": (lambda b: b.aggregate(Pairs()), "aggregate(op=Pairs, drop_last=False)", [*ONCE, "flush"]),
    "after an aggregate": (lambda b: b.aggregate(3).pipe(same), "same", ["0 and 2 more", "3"]),
    "disaggregate": (lambda b: b.aggregate(4).disaggregate(), "disaggregate", 5 * ["0 and 3 more"]),
    "router": (lambda b: b.path_variants(lambda item: 0, [[Pipe(same)]]), "path_variants", ONCE),
    "path": (lambda b: b.path_variants(lambda item: 0, [[Pipe(same)]]), "same", ONCE),
}


@pytest.mark.parametrize("kind", STAGES)
def test_each_call_is_a_slice_with_the_name_of_its_item(kind: str, tmp_path: Path) -> None:
    """Whatever the kind of the stage; nodes are what they were when the trace has ended."""
    add, stage, expected = STAGES[kind]
    path = tmp_path / "trace.json"
    builder = source(4)
    add(builder)
    pipeline = builder.add_sink().build(num_threads=3)
    before = [type(node) for node in pipeline._engine.nodes]
    with pipeline.trace(path):
        assert len(list(pipeline)) > 0
    assert sorted(slices(path, stage)) == sorted(expected)
    assert slices(path, "src") == ONCE
    assert [type(node) for node in pipeline._engine.nodes] == before


def test_calls_in_an_executor_are_slices(tmp_path: Path) -> None:
    """From their claim to their completion."""
    with ThreadPoolExecutor(2) as executor:
        run(source(4).pipe(same, executor=executor, concurrency=2), tmp_path / "t.json")
    assert sorted(slices(tmp_path / "t.json", "same")) == ONCE


def test_items_of_several_sources_are_told_apart(tmp_path: Path) -> None:
    """The number of the source is in front."""
    merged = Merge([PipelineConfig(SourceConfig(range(2)), [], SinkConfig(1)) for _ in range(2)])
    pipeline: Pipeline[Any] = build_pipeline(PipelineConfig(merged, [Pipe(same)], SinkConfig(1)))
    with pipeline.trace(tmp_path / "t.json"):
        assert len(list(pipeline)) == 4
    assert sorted(slices(tmp_path / "t.json", "same")) == ["0:0", "0:1", "1:0", "1:1"]


def test_slices_of_one_track_do_not_overlap(tmp_path: Path) -> None:
    """A stage has as many tracks as it had calls at the same time; the first has its name."""
    barrier = threading.Barrier(3, timeout=60)

    def meet(item: int) -> int:
        barrier.wait()
        return item

    run(source(6).pipe(meet, concurrency=3), tmp_path / "t.json")
    events = read(tmp_path / "t.json")
    by_track: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            by_track.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for track in by_track.values():
        track.sort()
        assert all(before[1] <= after[0] + 0.01 for before, after in pairwise(track))
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert set(by_track) == set(names)
    tracks = [name.partition(" ")[2] for name in names.values() if "meet" in name]
    assert tracks == ["meet", "meet #2", "meet #3"]


def test_flow_leads_from_source_to_consumer(tmp_path: Path) -> None:
    """The slices of an item have one number; it begins at the source and ends at the consumer."""
    run(source(2).pipe(same), tmp_path / "t.json")
    found = [event for event in read(tmp_path / "t.json") if event["ph"] == "X" and event["name"] == "1"]
    assert len({event["bind_id"] for event in found}) == 1
    ways = {event["cat"]: ("flow_in" in event, "flow_out" in event) for event in found}
    assert ways == {"src": (False, True), "same": (True, True), "sink": (True, False)}


def test_failed_calls_name_their_error(tmp_path: Path) -> None:
    """So that they can be found."""

    def refuse(item: int) -> int:
        raise ValueError(item)

    pipeline = source(2).pipe(refuse).add_sink().build()
    with suppress(ExceptionGroup), pipeline.trace(tmp_path / "t.json"):
        assert list(pipeline) == []
    found = [event for event in read(tmp_path / "t.json") if event.get("cat") == "refuse"]
    assert [event["args"]["error"] for event in found] == ["ValueError", "ValueError"]


def test_trace_begins_and_ends_while_the_pipeline_runs(tmp_path: Path) -> None:
    """What is before and behind is not in it; another trace can follow."""
    pipeline = source(9).pipe(same).add_sink(1).build(num_threads=1)
    found = [pipeline.get_item(), pipeline.get_item()]
    for name in ("a.json", "b.json"):
        with pipeline.trace(tmp_path / name):
            found += [pipeline.get_item(), pipeline.get_item()]
    found += list(pipeline)
    assert found == list(range(9))
    consumed = [[name for name in slices(tmp_path / file, "sink") if name != "wait"] for file in ("a.json", "b.json")]
    assert consumed == [["2", "3"], ["4", "5"]]
    assert pipeline._engine.tracer is None


def test_short_steps_of_a_source_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of the stages are not."""
    monkeypatch.setattr("spdl.pipeline._engine._traced._SHORT_STEP", 1e9)
    run(source(3).pipe(same), tmp_path / "t.json")
    assert slices(tmp_path / "t.json", "src") == []
    assert slices(tmp_path / "t.json", "same") == ["0", "1", "2"]


def test_names_of_stages_may_have_any_characters(tmp_path: Path) -> None:
    """Also those that mean something in JSON or in a format."""
    run(source(3).pipe(same, name='50 %d "\\ é'), tmp_path / "t.json")
    assert slices(tmp_path / "t.json", '50 %d "\\ é') == ["0", "1", "2"]


def test_two_traces_at_once_are_refused(tmp_path: Path) -> None:
    """The first goes on."""
    pipeline = source(2).add_sink().build()
    with pipeline.trace(tmp_path / "a.json"):
        with pytest.raises(PipelineStateError, match="traced already"), pipeline.trace(tmp_path / "b.json"):
            pass
        assert list(pipeline) == [0, 1]
    assert slices(tmp_path / "a.json", "src") == ["0", "1"]


def test_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    """It names the pipeline and the file; the pipeline is not traced."""
    pipeline = source(2).add_sink().build()
    with pytest.raises(FileNotFoundError, match="cannot write the trace of pipeline"):  # noqa: SIM117
        with pipeline.trace(tmp_path / "no" / "t.json"):
            pass
    assert list(pipeline) == [0, 1]


def test_what_is_no_path_is_refused_by_name() -> None:
    """A number would be the descriptor of another file."""
    with pytest.raises(TypeError, match="path must be the path of a file, got 1 of type int"):
        source(2).add_sink().build().trace(1)  # type: ignore[arg-type]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_full_disk_ends_the_trace_and_not_the_pipeline(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once."""
    pipeline = run(source(20).pipe(same), Path("/dev/full"))
    assert pipeline.stats().num_items == 20
    assert caplog.text.count("cannot write the trace: [Errno 28]") == 1


def test_sample_of_the_items_can_be_traced(tmp_path: Path) -> None:
    """Those whose position is a multiple, with all their outputs; batches are always there."""
    run(source(8).pipe(twice).pipe(same).aggregate(4).pipe(same, name="batch"), tmp_path / "t.json", every=5)
    assert slices(tmp_path / "t.json", "src") == ["0", "5"]
    assert slices(tmp_path / "t.json", "same") == ["0.0", "0.1", "5.0", "5.1"]
    assert len(slices(tmp_path / "t.json", "batch")) == 4


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written in time is dropped, and the file says how much."""
    monkeypatch.setattr("spdl.pipeline._engine._traced._MOST_NOTES", 3)
    monkeypatch.setattr("spdl.pipeline._trace._INTERVAL", 1000)
    run(source(8), tmp_path / "t.json")
    events = read(tmp_path / "t.json")
    assert len([event for event in events if event["ph"] == "X"]) == 3
    [lost] = [event["name"] for event in events if event["ph"] == "i"]
    assert lost.endswith("are missing: the trace was written too slowly")


def test_every_must_be_positive(tmp_path: Path) -> None:
    """No item is a multiple of nothing."""
    with pytest.raises(ValueError, match="every must be >= 1"):
        source(1).add_sink().build().trace(tmp_path / "t.json", every=0)


def test_number_of_waiting_items_is_a_counter(tmp_path: Path) -> None:
    """Of each channel; written when it changes."""
    pipeline = source(9).pipe(same).add_sink(2).build()
    with pipeline.trace(tmp_path / "t.json"):
        assert pipeline.get_item() == 0
    counters = {event["name"].partition(" ")[2] for event in read(tmp_path / "t.json") if event["ph"] == "C"}
    assert counters == {"src: output", "same: output"}
    pipeline.stop()


def test_killed_process_leaves_what_was_written() -> None:
    """The array lacks its end, which readers accept; only the last line can be torn."""
    run_child(
        """
        import json, os, signal, tempfile, time
        from pathlib import Path
        from spdl.pipeline import PipelineBuilder
        path = Path(tempfile.mkdtemp()) / "t.json"
        child = os.fork()
        if not child:
            pipeline = PipelineBuilder().add_source(iter(int, 1)).pipe(str).add_sink().build()
            with pipeline.trace(path):
                for _ in pipeline:
                    if path.stat().st_size > 20_000:
                        os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        lines = path.read_text().splitlines()
        events = [json.loads(line.rstrip(",")) for line in lines[1:-1]]
        assert lines[0] == "[" and len(events) > 50
        print("done")
        """
    ).check("done")


def test_child_of_a_fork_does_not_write_to_the_file() -> None:
    """It leaves the ``with`` as its parent does."""
    run_child(
        """
        import json, os, tempfile, warnings
        from pathlib import Path
        from spdl.pipeline import PipelineBuilder
        path = Path(tempfile.mkdtemp()) / "t.json"
        warnings.simplefilter("ignore")
        pipeline = PipelineBuilder().add_source(range(5)).pipe(str).add_sink().build()
        with pipeline.trace(path):
            assert next(iter(pipeline)) == "0"
            child = os.fork()
            if child:
                assert os.waitpid(child, 0)[1] == 0
                assert len(list(pipeline)) == 4
        if not child:
            os._exit(0)
        events = json.loads(path.read_text())
        assert [event["name"] for event in events].count("spdl_end") == 1
        assert sorted(e["name"] for e in events if e.get("cat") == "str") == ["0", "1", "2", "3", "4"]
        print("done")
        """
    ).check("done")
