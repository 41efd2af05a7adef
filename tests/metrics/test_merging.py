"""``spdl.metrics.merge_traces``: several traces on one time line."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from spdl import metrics
from spdl.pipeline import PipelineBuilder

BASE = 1_790_857_026_000_000_000


def torch_trace(path: Path, *, base: int | None = BASE, begin: float = 0.0, packed: bool = False) -> Path:
    events = [
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}},
        {"ph": "X", "name": "forward", "pid": 7, "tid": 7, "ts": begin, "dur": 5.0},
    ]
    whole: dict[str, Any] = {"schemaVersion": 1, "traceEvents": events}
    if base is not None:
        whole["baseTimeNanoseconds"] = base
    data = json.dumps(whole).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def pipeline_trace(path: Path) -> Path:
    pipeline = PipelineBuilder().add_source(range(2)).add_sink().build()
    with pipeline.trace(path):
        assert list(pipeline) == [0, 1]
    return path


def times(path: Path, name: str) -> list[float]:
    return [event["ts"] for event in json.loads(path.read_text())["traceEvents"] if event["name"] == name]


def test_times_are_those_of_one_clock(tmp_path: Path) -> None:
    """Whatever zero each file has: that of the first is kept."""
    first = torch_trace(tmp_path / "a.json", begin=10.0)
    second = torch_trace(tmp_path / "b.json", base=BASE + 3_000, begin=10.0, packed=True)
    third = torch_trace(tmp_path / "c.json", base=None, begin=BASE / 1e3 + 64)
    assert metrics.merge_traces([first, second, third], tmp_path / "m.json") == 4
    assert times(tmp_path / "m.json", "forward") == [10.0, 13.0, 64.0]
    merged = json.loads((tmp_path / "m.json").read_text())
    assert (merged["schemaVersion"], merged["baseTimeNanoseconds"]) == (1, BASE)


def test_trace_of_a_pipeline_says_when_its_time_begins(tmp_path: Path) -> None:
    """Its items are where they were in Unix time."""
    before = time.time_ns()
    ours = pipeline_trace(tmp_path / "p.json")
    after = time.time_ns()
    metrics.merge_traces([torch_trace(tmp_path / "t.json", base=before), ours], tmp_path / "m.json")
    slack = 1e6  # us: the system's clock may be corrected meanwhile
    assert all(-slack <= at <= (after - before) / 1e3 + slack for at in times(tmp_path / "m.json", "0"))


def test_trace_without_end_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """As a killed process leaves it."""
    whole = pipeline_trace(tmp_path / "p.json").read_bytes()
    (tmp_path / "cut.json").write_bytes(whole[: whole.index(b'"spdl_end"')])
    assert metrics.merge_traces([tmp_path / "cut.json"], tmp_path / "m.json") == whole.count(b'"ph"') - 1


@pytest.mark.parametrize("text", ["", "3", "{}", "hello"])
def test_what_is_no_trace_is_an_error(text: str, tmp_path: Path) -> None:
    """It names the file."""
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.json is not a trace"):
        metrics.merge_traces([tmp_path / "x.json"], tmp_path / "m.json")


def test_no_trace_is_an_error(tmp_path: Path) -> None:
    """There is nothing to write."""
    with pytest.raises(ValueError, match="at least one trace"):
        metrics.merge_traces([], tmp_path / "m.json")


@pytest.mark.slow
def test_clock_is_that_of_the_profiler_of_torch(tmp_path: Path) -> None:
    """A call is inside of what torch records around the pipeline."""
    torch = pytest.importorskip("torch")

    activities = [torch.profiler.ProfilerActivity.CPU]
    pipeline = PipelineBuilder().add_source(range(1)).pipe(str, name="work").add_sink().build()
    outside = torch.profiler.record_function("outside")
    with torch.profiler.profile(activities=activities) as profile, outside, pipeline.trace(tmp_path / "p.json"):
        assert list(pipeline) == ["0"]
    profile.export_chrome_trace(str(tmp_path / "t.json"))
    metrics.merge_traces([tmp_path / "t.json", tmp_path / "p.json"], tmp_path / "m.json")
    events = json.loads((tmp_path / "m.json").read_text())["traceEvents"]
    [around] = [event for event in events if event["name"] == "outside" and event["ph"] == "X"]
    [call] = [event for event in events if event.get("cat") == "work"]
    slack = 50_000  # us: the two read the clock of the system in different ways
    assert around["ts"] - slack <= call["ts"] <= around["ts"] + around["dur"] + slack
