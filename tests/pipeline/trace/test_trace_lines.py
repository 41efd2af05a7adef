"""The lines that native code makes of a trace are those that Python makes, number for number."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from spdl._processes._memory import TraceTrack
from spdl.pipeline import PipelineBuilder, _trace

OFFSET = 5_512_345_678_901.25  # microseconds: two months
RANDOM = random.Random(0)
TIMES = [
    (0, 0.0, 0.0),
    (1, 12.0, 12.0000004),
    (7, 12.000_000_001, 12.000_001_234),
    (2**40 - 1, 98_765.432_109_876, 98_999.9),
    (9, 5.0, 4.999_998_5),
    *((RANDOM.randrange(2**40), began := RANDOM.uniform(0, 1e6), began + RANDOM.expovariate(1e3)) for _ in range(200)),
]


@pytest.mark.parametrize("first_flow", [1, (65535 << 48) + 1])
def test_numbers_are_those_of_python(first_flow: int) -> None:
    """Times to the nanosecond, past the digits that are fast, short ones, and one that a clock set back."""
    track = TraceTrack('{"name":"', '","ts":', '"}', OFFSET, first_flow)
    for item, began, ended in TIMES:
        line = track.line(item, began, ended)
        assert json.loads(line)["bind_id"] == f"{first_flow + item:#x}"
        head, _, rest = line.partition(',"ts":')
        assert head == f'{{"name":"{item}"'
        begin, _, rest = rest.partition(',"dur":')
        duration, _, _ = rest.partition(",")
        for text, expected in ((begin, began * 1e6 + OFFSET), (duration, (ended - began) * 1e6)):
            assert text.rpartition(".")[2].isdecimal()
            assert len(text.rpartition(".")[2]) == 3
            assert abs(float(text) - expected) <= 0.001


def test_text_around_the_numbers_may_have_any_characters() -> None:
    """No character of a name of a stage is special."""
    line = TraceTrack('{"a%d":"\N{SNOWMAN}', '","%s":', '","z":"%%"}', 0.0, 1).line(3, 1.0, 2.0)
    assert json.loads(line) == {"a%d": "\N{SNOWMAN}3", "%s": 1e6, "dur": 1e6, "bind_id": "0x4", "z": "%%"}


def test_traces_are_whole_without_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a source tree that was not built, Python makes all lines, of the same form."""

    def shape(path: Path) -> list[tuple[Any, ...]]:
        events = [event for event in json.loads(path.read_text()) if event["ph"] == "X" and event["cat"] == "op"]
        return sorted((event["name"], event["bind_id"][-1:], *sorted(event)) for event in events)

    shapes = []
    for make_native in (_trace._native_tracks, lambda: None):
        monkeypatch.setattr(_trace, "_native_tracks", make_native)
        pipeline = PipelineBuilder().add_source(range(5)).pipe(abs, name="op").add_sink().build(num_threads=2)
        with pipeline.trace(path := tmp_path / "trace.json"):
            assert list(pipeline) == [0, 1, 2, 3, 4]
        shapes.append(shape(path))
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 5
