"""``build(quarantine=...)``: a line for each failed item, and sources that leave them out."""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
from spdl.pipeline._failed_items import read_quarantine
from spdl.pipeline.defs import MAIN_PROCESS, Retry, SourceConfig
from tests.support.child import run_child
from tests.support.region_kinds import RegionKind
from tests.support.running import TIMEOUT, await_event, build_of, run, running

FIELDS = ["v", "time", "run", "rank", "epoch", "position", "key", "stage", "item", "error", "message", "attempts"]
FIELDS += ["seconds", "worker", "outcome", "stack"]


def odd_fails(item: Any) -> Any:
    if int(item) % 2:
        raise ValueError(f"odd: {item}")
    return item


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_all_that_is_known(tmp_path: Path) -> None:
    """In the order of the documentation; the stack ends where the op raised."""
    path = tmp_path / "bad.jsonl"
    builder = build_of([f"{k}" for k in range(4)], lambda b: b.pipe(odd_fails, name="load", retry=Retry(2, delay=0)))
    assert run(builder, quarantine=path, num_threads=1) == ["0", "2"]
    lines = lines_of(path)
    assert [list(line) for line in lines] == [FIELDS] * 2
    first = lines[0]
    assert first["time"].endswith("+00:00")
    assert (first["v"], first["rank"], first["epoch"], first["position"], first["key"]) == (1, 0, 0, 1, "1")
    assert (first["stage"], first["item"], first["error"], first["message"]) == ("load", "'1'", "ValueError", "odd: 1")
    assert (first["attempts"], first["outcome"]) == (2, "dropped")
    assert first["seconds"] > 0
    assert f"pid {os.getpid()}" in first["worker"]
    assert first["stack"][-1].endswith(" in odd_fails")
    assert "test_quarantine.py" in first["stack"][-1]
    assert len({line["run"] for line in lines}) == 1
    assert [line["key"] for line in lines] == ["1", "3"]


def test_runs_append_and_have_their_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has a name of its own; nothing is opened while nothing fails."""
    path = tmp_path / "bad.jsonl"
    for rank in ("3", "5"):
        monkeypatch.setenv("RANK", rank)
        run(build_of(range(2), lambda b: b.pipe(odd_fails)), quarantine=str(path))
    lines = lines_of(path)
    assert [line["rank"] for line in lines] == [3, 5]
    assert lines[0]["run"] != lines[1]["run"]


@pytest.mark.parametrize(
    "key", ["a\nb", 'quote"', "ü\N{GRINNING FACE}", "\udcff", -5, 2**70, Path("dir/file"), np.int64(7)]
)
def test_keys_are_read_as_they_were(tmp_path: Path, key: Any) -> None:
    """So that what is excluded is the same item."""
    path = tmp_path / "bad.jsonl"

    def refuse(item: Any) -> Any:
        if item == key:
            raise ValueError(f"bad {item!r}")
        return item

    items = ["good", key]
    assert run(build_of(items, lambda b: b.pipe(refuse)), quarantine=path) == ["good"]
    (line,) = read_quarantine(path)
    expected: Any = str(key) if isinstance(key, Path) else int(key) if isinstance(key, np.int64) else key
    assert line.key == expected
    builder = PipelineBuilder().add_source(items, exclude=path).pipe(refuse, on_error="raise").add_sink()
    assert run(builder) == ["good"]


def test_a_batch_that_failed_has_all_of_its_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody knows which of them is bad: as ``exclude``, such a line leaves nothing out, and a warning says so."""
    path = tmp_path / "bad.jsonl"

    def collate(batch: list[str]) -> list[str]:
        if "c" in batch:
            raise ValueError
        return batch

    builder = build_of("abcd", lambda b: b.aggregate(2), lambda b: b.pipe(collate))
    assert run(builder, quarantine=path) == [["a", "b"]]
    (line,) = lines_of(path)
    assert (line["position"], line["key"]) == ([2, 3], ["c", "d"])
    caplog.clear()
    assert run(PipelineBuilder().add_source("abcd", exclude=path).add_sink()) == list("abcd")
    assert "1 of 1 lines" in caplog.text


def test_epochs_are_told(tmp_path: Path) -> None:
    """Of a continuous source."""
    path = tmp_path / "bad.jsonl"
    builder: Any = PipelineBuilder().add_source(range(2), continuous=True).pipe(odd_fails).add_sink()
    with running(builder, quarantine=path) as pipeline:
        assert [list(pipeline), list(pipeline)] == [[0], [0]]
    assert [(line["epoch"], line["position"]) for line in lines_of(path)][:2] == [(0, 1), (1, 1)]


def test_a_file_that_cannot_be_opened_is_an_error_of_the_build(tmp_path: Path) -> None:
    """At once, and not at the first failure."""
    for path in (tmp_path, tmp_path / "missing" / "bad.jsonl"):
        with pytest.raises(OSError, match=f"cannot open the quarantine file: .*{path}"):
            build_of(range(3)).build(quarantine=path)


def test_writes_that_fail_are_logged_once_and_harm_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk; when there is room again, lines are written again, each on a line of its own."""
    path = tmp_path / "bad.jsonl"
    results = iter([OSError(28, "No space left on device"), 5, OSError(28, "No space left on device")])
    write = os.write

    def full(fd: int, data: bytes) -> int:
        result = next(results, None)
        if isinstance(result, OSError):
            raise result
        return write(fd, data if result is None else data[:5])

    # A pipeline works from when it is built on, so the first item waits until the disk is full.
    is_full = threading.Event()

    def odd_fails_on_a_full_disk(item: int) -> int:
        await_event(is_full)
        return cast(int, odd_fails(item))

    builder = build_of(range(12), lambda b: b.pipe(odd_fails_on_a_full_disk))
    with running(builder, quarantine=path, num_threads=1) as pipeline:
        monkeypatch.setattr(os, "write", full)
        is_full.set()
        assert list(pipeline) == [0, 2, 4, 6, 8, 10]
        monkeypatch.undo()
    assert len([r for r in caplog.records if "quarantine file" in r.getMessage()]) == 1
    assert [line.key for line in read_quarantine(path)] == [7, 9, 11]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_device_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The real thing."""
    assert run(build_of(range(6), lambda b: b.pipe(odd_fails)), quarantine="/dev/full") == [0, 2, 4]
    assert len([r for r in caplog.records if "quarantine file" in r.getMessage()]) == 1


@pytest.mark.slow
def test_a_storm_of_failures_is_written_whole(tmp_path: Path) -> None:
    """All but one of 400 items, on several threads: each has its line and its event, once."""
    path = tmp_path / "bad.jsonl"
    events: list[Any] = []

    def all_but_one_fail(item: int) -> int:
        if item != 200:
            raise ValueError(item)
        return item

    builder = build_of(range(400), lambda b: b.pipe(all_but_one_fail, concurrency=4))
    assert run(builder, quarantine=path, num_threads=4, on_failure=events.append) == [200]
    expected = [*range(200), *range(201, 400)]
    assert sorted(line["key"] for line in lines_of(path)) == expected
    assert sorted(event.item for event in events) == expected


def test_a_torn_line_costs_itself_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was killed in the middle of a write on a file system without atomic appends: the next line is whole."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"v":1,"time":"2026-')
    run(build_of(range(4), lambda b: b.pipe(odd_fails)), quarantine=path)
    caplog.clear()
    assert [line.key for line in read_quarantine(path)] == [1, 3]
    assert "skipped 1 lines" in caplog.text


def test_what_is_no_line_of_such_a_file_is_passed_over(tmp_path: Path) -> None:
    """Whatever it is."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'\n[]\n{"v":2}\n{"v":1,"key":{"a":1}}\n\xff\xfe\n' + b"[" * 100_000 + b"\nnull\n3\n")
    assert read_quarantine(path) == []


def test_lines_are_one_write_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that several processes may append to one file, and a kill tears no line."""
    path = tmp_path / "bad.jsonl"
    written: list[bytes] = []
    flags: list[int] = []
    write, open_ = os.write, os.open

    def noted(fd: int, data: bytes) -> int:
        written.append(bytes(data))
        return write(fd, data)

    def opened(name: Any, mode: int, *args: Any) -> int:
        if name == str(path):
            flags.append(mode)
        return open_(name, mode, *args)

    monkeypatch.setattr(os, "write", noted)
    monkeypatch.setattr(os, "open", opened)
    run(build_of(range(8), lambda b: b.pipe(odd_fails)), quarantine=path)
    monkeypatch.undo()
    lines = [each for each in written if each.startswith(b'{"v"')]
    assert b"".join(lines) == path.read_bytes()
    assert [line.count(b"\n") for line in lines] == [1] * 4
    assert all(mode & os.O_APPEND for mode in flags)


KILLED = """
import itertools, logging, sys
from spdl.pipeline import PipelineBuilder
logging.disable(logging.CRITICAL)

def op(item):
    if item == 300:
        print("failing", flush=True)
    if item % 2:
        raise ValueError("x" * 500)
    return item

pipeline = PipelineBuilder().add_source(itertools.count()).pipe(op).add_sink().build(quarantine=sys.argv[1])
for _ in pipeline:
    pass
"""


@pytest.mark.slow
def test_a_kill_tears_no_line(tmp_path: Path) -> None:
    """Of two processes that append to one file; whatever they were doing."""
    import subprocess
    import sys

    path = tmp_path / "bad.jsonl"
    command = [sys.executable, "-c", KILLED, str(path)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == b"failing\n"
    for child in children:
        child.send_signal(signal.SIGKILL)
        child.wait(TIMEOUT)
        assert child.stdout is not None
        child.stdout.close()
    lines = lines_of(path)
    assert len({line["run"] for line in lines}) == 2
    assert len(lines) >= 300


# -- exclude


def test_excluded_items_are_consumed_and_counted() -> None:
    """They keep their positions."""
    builder = PipelineBuilder().add_source("abcdef", exclude=["b", "e"]).pipe(str).add_sink()
    with running(builder) as pipeline:
        assert list(pipeline) == ["a", "c", "d", "f"]
    source = pipeline.stats().stages[0]
    assert (source.num_calls, source.num_dropped, source.num_emitted) == (6, 2, 4)
    assert not pipeline._engine.ledger.pending
    pipeline = PipelineBuilder().add_source("abcdef", exclude=["b", "e"]).add_sink().build()
    assert [origin.positions for _, origin in pipeline.with_origins()] == [(0,), (2,), (3,), (5,)]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (lambda item: item % 3 == 0, [1, 2, 4, 5]),
        ({0, 5}, [1, 2, 3, 4]),
        (dict.fromkeys([1]), [0, 2, 3, 4, 5]),
        (range(6), []),
        (["1", 1], [0, 2, 3, 4, 5]),
    ],
)
def test_what_may_be_excluded(exclude: Any, left: list[int]) -> None:
    """Keys in any iterable, or what a function says."""
    given = [exclude] if callable(exclude) else [exclude, iter(exclude)]
    for each in given:
        assert run(PipelineBuilder().add_source(range(6), exclude=each).add_sink()) == left


def test_paths_are_compared_as_text() -> None:
    """A file of keys has text only."""
    builder = PipelineBuilder().add_source([Path("a"), Path("b")], exclude=[Path("a")]).add_sink()
    assert run(builder) == [Path("b")]
    assert run(PipelineBuilder().add_source(["a", "b"], exclude=[Path("a")]).add_sink()) == ["b"]


def test_async_sources_and_epochs_leave_them_out() -> None:
    """In each epoch."""

    class Source:
        async def __aiter__(self) -> Any:
            for item in range(4):
                yield item

    for source in (Source(), range(4)):
        builder: Any = PipelineBuilder().add_source(source, continuous=True, exclude=[1]).add_sink()
        with running(builder) as pipeline:
            assert [list(pipeline), list(pipeline)] == [[0, 2, 3], [0, 2, 3]]


@pytest.mark.filterwarnings("ignore:source Plain has neither:UserWarning")
@pytest.mark.parametrize("source", [list(range(8)), range(8), "iterable"])
def test_a_resumed_pipeline_goes_on_past_them(source: Any) -> None:
    """Positions are as they were, also if more is excluded than before."""

    class Plain:
        def __iter__(self) -> Iterator[int]:
            return iter(range(8))

    items = Plain() if source == "iterable" else source

    def build(exclude: list[int]) -> Any:
        return PipelineBuilder().add_source(items, exclude=exclude).pipe(int).add_sink(1).build(resumable=True)

    first = build([1, 2])
    with first.auto_stop():
        assert [first.get_item(timeout=TIMEOUT) for _ in range(2)] == [0, 3]
        state = first.state_dict()
    second = build([1, 2, 5])
    second.load_state_dict(state)
    assert list(second) == [4, 6, 7]


@pytest.mark.parametrize("pattern", ["bad.jsonl", "bad*.jsonl"])
def test_the_file_of_this_run_may_be_missing(pattern: str, tmp_path: Path) -> None:
    """Nothing has failed yet: the same file may be ``quarantine`` and ``exclude`` from the first run on."""
    path = tmp_path / "bad.jsonl"
    for expected in ([0, 2], [0, 2]):
        builder = PipelineBuilder().add_source(range(4), exclude=tmp_path / pattern).pipe(odd_fails).add_sink()
        assert run(builder, quarantine=path) == expected
    assert len(lines_of(path)) == 2


def test_another_file_is_refused(tmp_path: Path) -> None:
    """It would exclude nothing, silently."""
    path = tmp_path / "keys.txt"
    path.write_text("a.jpg\nb.jpg\n")
    with pytest.raises(ValueError, match=r"keys\.txt is not a quarantine file.*splitlines"):
        PipelineBuilder().add_source(["a.jpg"], exclude=path).add_sink().build()


def test_a_predicate_that_raises_fails_the_source() -> None:
    """As a source that raises."""
    from spdl.pipeline import PipelineFailure

    with pytest.raises(PipelineFailure) as caught:
        run(PipelineBuilder().add_source(["a"], exclude=lambda item: item % 2).add_sink())
    assert type(caught.value.exceptions[0]) is TypeError


@pytest.mark.parametrize("given", [3, 1.5, object()])
def test_what_cannot_exclude_is_refused(given: Any) -> None:
    """By the call, or by the build if it is in an iterable."""
    with pytest.raises(TypeError, match="exclude must be"):
        PipelineBuilder().add_source(range(3), exclude=given)
    with pytest.raises(TypeError, match="exclude must hold numbers, texts or paths"):
        PipelineBuilder().add_source(range(3), exclude=cast("Any", [object()])).add_sink().build()
    assert "exclude=" in repr(SourceConfig(range(3), exclude=[1]))


# -- other processes


@pytest.mark.slow
def test_regions_write_to_the_file(kind: RegionKind, tmp_path: Path) -> None:
    """With the keys of this process's source, and the stack of the worker."""
    path = tmp_path / "bad.jsonl"
    builder = PipelineBuilder().add_source("0123").to(kind.workers(2))
    builder.pipe(odd_fails).to(MAIN_PROCESS).add_sink()
    assert sorted(run(builder, quarantine=path)) == ["0", "2"]
    lines = lines_of(path)
    assert sorted(line["key"] for line in lines) == ["1", "3"]
    assert {line["stage"] for line in lines} == {"odd_fails"}
    assert {line["error"] for line in lines} == {"ValueError"}
    assert any("odd_fails" in frame for frame in lines[0]["stack"])


@pytest.mark.slow
def test_subprocesses_write_to_the_file(tmp_path: Path) -> None:
    """They append to what is there, with the keys of their source."""
    path = tmp_path / "bad.jsonl"
    run(build_of("0123", lambda b: b.pipe(odd_fails)), quarantine=path)
    builder = PipelineBuilder().add_source("4567", exclude=path).pipe(odd_fails).add_sink()
    assert list(run_pipeline_in_subprocess(builder, quarantine=path, timeout=TIMEOUT)) == ["4", "6"]
    assert sorted(line["key"] for line in lines_of(path)) == ["1", "3", "5", "7"]


@pytest.mark.slow
def test_importing_the_pipeline_does_not_import_this() -> None:
    """What is not asked for costs nothing."""
    ended = run_child(
        "import sys\nfrom spdl.pipeline import PipelineBuilder\n"
        "list(PipelineBuilder().add_source([1]).add_sink().build())\n"
        "print([name for name in sys.modules if '_quarantine' in name])"
    )
    assert ended.stdout.strip() == "[]"


def test_several_threads_write_whole_lines(tmp_path: Path) -> None:
    """Failures of concurrent calls."""
    path = tmp_path / "bad.jsonl"
    barrier = threading.Barrier(4)

    def refuse(item: int) -> int:
        barrier.wait(TIMEOUT)
        raise ValueError("x" * 1000)

    logging.disable(logging.ERROR)
    try:
        run(build_of(range(40), lambda b: b.pipe(refuse, concurrency=4, max_failures=-1)), quarantine=path)
    finally:
        logging.disable(logging.NOTSET)
    assert sorted(line["key"] for line in lines_of(path)) == list(range(40))
