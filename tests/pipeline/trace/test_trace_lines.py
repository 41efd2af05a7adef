"""The lines that native code makes of a trace are those that Python makes, number for number."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from spdl._processes._memory import TraceLines, TraceTrack
from spdl.pipeline import PipelineBuilder, _trace
from spdl.pipeline._engine._origin import SourcePosition

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


NODE = object()
HEAD, MIDDLE, TAIL = '{"name":"', '","ts":', ',"z":0'


def made_of(
    *notes: tuple[Any, ...],
    offset: float = 0.0,
    first_flow: int = 1,
    track: tuple[str, str, str] = (HEAD, MIDDLE, TAIL),
) -> list[str]:
    """The lines of notes of one stage whose calls have one track, or several of the same form."""

    def begin(stage: int) -> tuple[str, TraceTrack]:
        return "track\n", TraceTrack(*track, offset, first_flow)

    def other(note: tuple[Any, ...], stage: int, track: int) -> str:
        return f"other {note[3]!r} {note[4]} {stage} {track}\n"

    lines = TraceLines([object(), NODE]).make([(NODE, *note) for note in notes], begin, other)
    return lines.decode().splitlines()


@pytest.mark.parametrize("first_flow", [1, (65535 << 48) + 1])
def test_numbers_are_those_of_python(first_flow: int) -> None:
    """Times to the nanosecond, past the digits that are fast, short ones, and one that a clock set back."""
    for item, began, ended in TIMES:
        _, line = made_of((began, ended, item, None), offset=OFFSET, first_flow=first_flow)
        assert json.loads(line.removesuffix(","))["bind_id"] == f"{first_flow + item:#x}"
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
    track = ('{"a%d":"\N{SNOWMAN}', '","%s":', ',"z":"%%"')
    _, line = made_of((1.0, 2.0, 3, None), track=track)
    expected = {"a%d": "\N{SNOWMAN}3", "%s": 1e6, "dur": 1e6, "bind_id": "0x4", "z": "%%"}
    assert json.loads(line.removesuffix(",")) == expected


def test_batches_are_named_after_their_first_item() -> None:
    """Their flow is that of this item; one of a single item has its name."""
    lines = made_of((0.0, 1.0, (16, 4, 9), None), (1.0, 2.0, (7,), None))
    found = [json.loads(line.removesuffix(",")) for line in lines[1:]]
    assert [(each["name"], each["bind_id"]) for each in found] == [("16 and 2 more", "0x11"), ("7", "0x8")]


def test_waits_have_no_flow() -> None:
    """Nothing came out of them yet."""
    _, line = made_of((0.5, 1.0, None, None))
    assert json.loads(line.removesuffix(",")) == {"name": "wait", "ts": 5e5, "dur": 5e5}


@pytest.mark.parametrize(
    ("item", "error"), [(3, "ValueError"), ((), None), ((SourcePosition(1, 2), 3), None), (2**70, None), ("a", None)]
)
def test_what_is_rare_is_left_to_python(item: Any, error: str | None) -> None:
    """With the numbers of the stage and of the track."""
    assert made_of((0.0, 1.0, item, error)) == ["track", f"other {item!r} {error} 1 0"]


def test_native_code_chooses_the_tracks_that_python_does() -> None:
    """Slices in the order of their ends; another track begins where they overlap."""
    began = [RANDOM.uniform(0, 100) for _ in range(300)]
    times = sorted(((start, start + RANDOM.expovariate(0.2)) for start in began), key=lambda each: each[1])
    pipeline = PipelineBuilder().add_source(range(1)).add_sink().build()
    tracks = _trace._Tracks(pipeline._engine.nodes[0], 0)
    expected = [tracks.track_for(*each) for each in times]
    lines = made_of(*((*each, "rare", None) for each in times))
    assert [int(line.split()[-1]) for line in lines if line != "track"] == expected
    assert lines.count("track") == len(tracks.ends) > 3


def test_stage_that_is_not_known_is_an_error() -> None:
    """It would be a fault of the tracer."""
    with pytest.raises(IndexError):
        TraceLines([]).make([(NODE, 0.0, 1.0, 2, None)], print, print)  # type: ignore[arg-type] # neither is called


def test_traces_are_whole_without_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a source tree that was not built, Python makes all lines, of the same form."""

    def shape(path: Path) -> list[tuple[Any, ...]]:
        events = [event for event in json.loads(path.read_text()) if event["ph"] == "X" and event["cat"] == "op"]
        return sorted((event["name"], event["bind_id"][-1:], *sorted(event)) for event in events)

    shapes = []
    for native_lines in (_trace._native_lines, lambda nodes: None):
        monkeypatch.setattr(_trace, "_native_lines", native_lines)
        pipeline = PipelineBuilder().add_source(range(5)).pipe(abs, name="op").add_sink().build(num_threads=2)
        with pipeline.trace(path := tmp_path / "trace.json"):
            assert list(pipeline) == [0, 1, 2, 3, 4]
        shapes.append(shape(path))
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 5
