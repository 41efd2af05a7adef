"""``spdl top``, ``spdl stats`` and ``spdl dump`` on pipelines of this process."""

import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl import _monitor
from spdl._cli import _watch, main
from spdl._monitor import MonitorError
from spdl._processes._elsewhere import ELSEWHERE, WorkerElsewhere
from spdl.pipeline import Pipeline, PipelineBuilder
from tests.support.child import run_child
from tests.support.running import await_event


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder for sockets, so that other processes of this user are not found."""
    folder = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(_monitor, "folders", lambda: [str(folder / "spdl")])
    return folder


def fail_on_three(item: int) -> int:
    if item == 3:
        raise ValueError("not this one")
    return item


@pytest.fixture
def pipeline() -> Iterator[Pipeline[Any]]:
    """A monitored pipeline that has read 5 items, with a failure."""
    made = PipelineBuilder().add_source(range(10**9)).pipe(fail_on_three, name="decode").add_sink().build()
    with made.monitor(), made.auto_stop():
        for _ in range(5):
            made.get_item()
        yield made


def test_stats_shows_the_table_of_the_only_process(pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a PID too."""
    for arguments in (["stats"], ["stats", str(os.getpid())]):
        assert main(arguments) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"process {os.getpid()}: ")
        assert ":decode" in text
        assert "5 items" in text
        assert "last failure: decode failed on 3: ValueError: not this one" in text


def test_stats_as_json(pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """One object with numbers that need no parsing."""
    assert main(["stats", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pid"] == os.getpid()
    assert told["processes"] == []
    (shown,) = told["pipelines"]
    assert (shown["id"], shown["num_items"], shown["state"]) == (pipeline._engine.pipeline_id, 5, "running")
    decode = shown["stages"][1]
    assert (decode["name"], decode["num_failures"]) == ("decode", 1)
    assert decode["failures"] == [{"item": "3", "error": "ValueError: not this one"}]
    assert set(shown["verdict"]) >= {"cause", "stage", "advice", "predicted_rate", "text"}


def test_dump_shows_the_graph_and_the_stacks(pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Of the main thread too, which has asked for it here."""
    assert main(["dump", str(os.getpid())]) == 0
    text = capsys.readouterr().out
    assert f"pipeline {pipeline._engine.pipeline_id}: running" in text
    assert "thread MainThread:" in text
    assert "test_watch.py" in text


def test_dump_names_the_calls_in_flight(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its stage, its item, its age and the thread, whose stack leads to the line that waits."""
    has_begun, may_end = threading.Event(), threading.Event()

    def read_from_a_dead_drive(item: str) -> str:
        has_begun.set()
        await_event(may_end)
        return item

    builder = PipelineBuilder().add_source(["cat.jpg"]).pipe(read_from_a_dead_drive, name="read")
    pipeline = builder.add_sink().build(num_threads=2)
    with pipeline.monitor(), pipeline.auto_stop():
        await_event(has_begun)
        assert main(["dump", str(os.getpid())]) == 0
        may_end.set()
        assert list(pipeline) == ["cat.jpg"]
    text = capsys.readouterr().out
    (call,) = re.findall(r"^  \d+:1:read: item (\S+), for [\d.]+ \S+, on (\S+)$", text, re.MULTILINE)
    assert call[0] in ("cat.jpg", "'cat.jpg'")
    head, _, stacks = text.partition(f"thread {call[1]}, runs ")
    assert stacks, head
    assert "in read_from_a_dead_drive" in stacks.partition("\n\n")[0]


def test_top_shows_intervals_until_it_is_left(
    pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first screen is about the whole run, the next ones about the time since the one before."""
    pytest.importorskip("rich")
    screens: list[str] = []

    def wait(seconds: float) -> None:
        screens.append(capsys.readouterr().out)
        if len(screens) == 2:
            raise KeyboardInterrupt
        pipeline.get_item()

    monkeypatch.setattr("spdl._cli._watch.time.sleep", wait)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["top", str(os.getpid())]) == 0
    assert ": 5 items, " in screens[0]
    assert ": 1 item, " in screens[1]


def test_top_refreshes_one_screen_of_a_terminal(
    pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With graph, fills, rates, verdict and failures, none of it cut off; Ctrl-C gives the terminal back as it was."""
    console = pytest.importorskip("rich.console")
    file = io.StringIO()
    made = partial(console.Console, file=file, force_terminal=True, width=100, height=40, color_system=None)
    monkeypatch.setattr(console, "Console", made)
    num_waits = 0

    def wait(seconds: float) -> None:
        nonlocal num_waits
        num_waits += 1
        if num_waits == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("spdl._cli._watch.time.sleep", wait)
    assert main(["top", str(os.getpid())]) == 0
    written = file.getvalue()
    assert written.count("\x1b[?1049h") == written.count("\x1b[?1049l") == 1  # the alternate screen
    screens = written.split(f"process {os.getpid()}")[1:]
    assert len(screens) >= 3
    for words in (":src", ":decode", ":sink", "queue", "items/s", "unsure: a verdict needs", "Do: ", "last failure: "):
        assert words in screens[0], words
    lines = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "\n", written).splitlines()
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if line.rstrip().endswith("\N{HORIZONTAL ELLIPSIS}")]


def test_sentences_are_wrapped() -> None:
    """A verdict is as wide as the table at most, and its advice is whole."""
    verdict = {"text": f"decode is GIL-bound: {'it waits ' * 20}.\nDo: {'and so on, ' * 12}"}
    whole = {"id": 0, "elapsed": 1.0, "state": "running", "num_threads": 1, "num_items": 1, "consumer_wait": 0.0}
    answer = {"pid": 1, "argv": ["train.py"], "pipelines": [{**whole, "verdict": verdict, "stages": []}]}
    (block,) = _watch.screen([answer], {})
    assert max(map(len, block.splitlines())) <= 100
    assert " ".join(block.split()).endswith(" ".join(verdict["text"].split()))


def test_screen_is_as_wide_as_the_terminal() -> None:
    """Columns that say least are left out, sentences are wrapped, and rates are always there."""
    counts = {"num_calls": 10, "num_failures": 1, "num_dropped": 2, "num_in_flight": 3, "wall_time": 1.0}
    stage = {"id": "1", "name": "decode_and_resize", "concurrency": 4, "elapsed": 9.0, "queue_len": 1, **counts}
    stage.update(queue_capacity=2, num_success=9, num_emitted=9, busy=1.0, failures=[])
    sink = {"id": "2", "name": "sink", "concurrency": 1, "elapsed": 9.0, "failures": []}
    verdict = {"text": f"decode is GIL-bound: {'it waits ' * 20}."}
    whole = {"elapsed": 9.0, "state": "running", "num_threads": 1, "num_items": 1234567, "consumer_wait": 8.0}
    pipelines = [{"id": 0, **whole, "verdict": verdict, "stages": [stage, sink]}]
    answer = {"pid": 1, "argv": ["train.py", "--data"], "pipelines": pipelines}
    for width in (72, 80, 100):
        (block,) = _watch.screen([answer], {}, width)
        assert max(map(len, block.splitlines())) <= width
        assert "items/s" in block
        assert "failed" in block
        assert "the consumer waited 89% of the time" in " ".join(block.split())
        assert ("mean" in block) == (width == 100)
        assert ("dropped" in block) == (width > 72)


@pytest.mark.parametrize(
    ("verdict", "marked"),
    [
        ({"cause": "gil", "stage": "decode"}, "0:2:decode"),
        ({"cause": "consumer", "stage": None}, "0:3:sink"),
        ({"cause": "unsure", "stage": "decode"}, "0:1:fetch"),
        (None, "0:1:fetch"),
    ],
)
def test_stage_that_the_verdict_blames_is_marked(verdict: dict[str, Any] | None, marked: str) -> None:
    """On the screen too, where the text of the verdict stands below."""
    shares = {"src": (0.0, 0.0), "fetch": (9.0, 0.0), "decode": (0.5, 9.0), "sink": (0.0, 9.0)}
    stages = [
        {"id": f"{k}", "name": name, "concurrency": 1, "elapsed": 9.0, "busy": busy, "starved": starved, "failures": []}
        for k, (name, (busy, starved)) in enumerate(shares.items())
    ]
    whole = {"id": 0, "elapsed": 9.0, "state": "running", "num_threads": 2, "num_items": 9, "consumer_wait": 8.0}
    told = None if verdict is None else {**verdict, "text": "It is so."}
    (block,) = _watch.screen([{"pid": 1, "argv": [], "pipelines": [{**whole, "verdict": told, "stages": stages}]}], {})
    assert [line.split()[1] for line in block.splitlines() if line.startswith("-> 0")] == [marked]
    assert block.endswith("It is so." if told else "-> limiting stage: 0:1:fetch")


def test_intervals_are_of_one_pipeline() -> None:
    """The first is the whole; a pipeline with the same number in another process has its own."""
    stage = {"id": "0", "name": "src", "concurrency": 2, "elapsed": 1.0, "num_calls": 10, "failures": []}
    whole = {"id": 0, "elapsed": 1.0, "state": "running", "num_threads": 1, "num_items": 10, "consumer_wait": 0.0}
    answer = {"pid": 1, "argv": ["train.py"], "pipelines": [{**whole, "verdict": None, "stages": [stage]}]}
    later = json.loads(json.dumps(answer))
    later["pipelines"][0].update(elapsed=3.0, num_items=14)
    later["pipelines"][0]["stages"][0].update(elapsed=3.0)
    before: dict[tuple[str | None, int, int], Any] = {}
    assert "10 items, 10.0/s" in _watch.screen([answer], before)[0]
    (block,) = _watch.screen([later], before)
    assert block.startswith("process 1: train.py\npipeline 0: running, 2.00 s" if "2.00" in block else "process 1")
    assert "4 items, 2/s" in block
    assert "14 items" in _watch.screen([{**later, "pid": 2}], before)[0]
    assert "no pipeline has been started" in _watch.screen([{**answer, "pipelines": []}], {})[0]


@pytest.mark.parametrize("command", ["stats", "dump"])
def test_processes_without_a_monitor_are_told_how(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is not there, one that has none, one of somebody else, and none at all."""
    assert main([command, "4194305"]) == 1
    assert capsys.readouterr().err == f"spdl {command}: there is no process 4194305\n"
    assert main([command, str(os.getpid())]) == 1
    assert f"process {os.getpid()} has no monitor: start it with SPDL_MONITOR=1" in capsys.readouterr().err
    assert main([command]) == 1
    assert f"spdl {command}: no process is monitored. The process must have been started" in capsys.readouterr().err
    assert main([command, "x"]) == 2
    assert "must be the number of a process" in capsys.readouterr().err


def test_a_process_of_somebody_else_is_not_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names its user."""
    from spdl._monitor import _client

    monkeypatch.setattr(_client, "_owner", lambda pid: os.geteuid() + 1)
    assert main(["stats", "1"]) == 1
    assert f"process 1 is not yours: it belongs to user {os.geteuid() + 1}" in capsys.readouterr().err


def test_several_processes_are_listed(
    pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their command lines."""
    monkeypatch.setattr(_watch, "living", lambda: [os.getpid(), os.getpid()])
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "3"])
    assert main(["stats"]) == 1
    error = capsys.readouterr().err
    assert "several processes are monitored; say which one:" in error
    assert f"{os.getpid()}  train.py --epochs 3" in error


def test_processes_that_do_not_answer_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than an empty list."""
    monkeypatch.setattr(_watch, "living", lambda: [4711, 4712])

    def refuse(pid: int) -> None:
        raise MonitorError(f"process {pid} does not answer")

    monkeypatch.setattr(_watch, "connect", refuse)
    assert main(["stats"]) == 1
    assert "none of the monitored processes answers: 4711, 4712" in capsys.readouterr().err


class Actors:
    """Two workers that are no children: one on this machine, which answers, and one on another, which does not."""

    def __init__(self, answer: dict[str, Any]) -> None:
        here, there = WorkerElsewhere(4711, None, "actor 0 of a"), WorkerElsewhere(4711, "node-7", "actor 1 of a")
        self.answers = [(here, answer), (there, None)]

    def workers(self) -> list[WorkerElsewhere]:
        return [worker for worker, _ in self.answers]

    def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
        return self.answers


def test_workers_that_are_no_children_are_part_of_the_picture(
    pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the host, if that is another one. They are not asked themselves: what they show comes from their owner."""
    actors = Actors({"pid": 4711, "argv": ["worker"], "children": [], "pipelines": [], "text": "nothing to do"})
    ELSEWHERE.add(actors)
    mine = f", of process {os.getpid()}"
    assert main(["stats"]) == 0
    _, *blocks = capsys.readouterr().out.strip().split("\n\n")
    assert blocks == [
        f"process 4711: actor 0 of a{mine}\nno pipeline has been started",
        f"process 4711 on node-7: actor 1 of a{mine}\nit does not answer",
    ]
    assert main(["stats", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["pid"], each["host"]) for each in told["processes"]] == [(4711, None), (4711, "node-7")]
    assert main(["dump"]) == 0
    text = capsys.readouterr().out
    assert "process 4711 on node-7, actor 1 of a:\n  (its stacks are not available)" in text
    assert text.endswith(f"{mine}\nnothing to do\n\nprocess 4711 on node-7: actor 1 of a{mine}\nit does not answer\n")


def test_a_role_is_that_of_a_process_on_the_same_host() -> None:
    """What children of a worker on another host do says nothing of a process here that has the pid of one."""
    local = {"pid": 7, "argv": ["train.py"], "children": [], "pipelines": []}
    far = {**local, "pid": 8, "host": "node-7", "children": [{"pid": 7, "what": "Worker of a"}]}
    blocks = _watch.screen([local, far, {**local, "host": "node-7"}], {})
    assert [block.splitlines()[0] for block in blocks] == [
        "process 7: train.py",
        "process 8 on node-7: train.py",
        "process 7 on node-7: worker of a, of process 8",
    ]


def test_the_owner_of_a_monitored_worker_is_the_one_to_look_at(
    pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers may have sockets of their own."""
    owner = Actors({"pid": 4711, "argv": ["worker"], "pipelines": []})
    ELSEWHERE.add(owner)
    monkeypatch.setattr(_watch, "living", lambda: [os.getpid(), 4711])
    assert main(["stats"]) == 0
    assert capsys.readouterr().out.startswith(f"process {os.getpid()}: ")


@pytest.mark.slow
def test_pipelines_in_other_processes_are_part_of_the_picture(runtime_folder: Path) -> None:
    """Subprocesses and workers of regions open their own sockets, because they have the variable too."""
    run_child(f"""
import os, sys
os.environ["SPDL_MONITOR"] = "1"
os.environ["XDG_RUNTIME_DIR"] = {str(runtime_folder)!r}
from spdl._cli._watch import ask_all, screen
from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if __name__ == "__main__":
    inner = run_pipeline_in_subprocess(PipelineBuilder().add_source(range(99)).pipe(str).add_sink(), mp_context="spawn")
    builder = PipelineBuilder().add_source(inner).to(ProcessPoolExecutorConfig(1)).pipe(int).to(MAIN_PROCESS)
    pipeline = builder.add_sink().build()
    with pipeline.auto_stop():
        pipeline.get_item()
        found = ask_all(os.getpid(), "stats")
        print(len(found), sorted([stage["name"] for stage in each["pipelines"][0]["stages"]] for each in found[1:]))
        assert [each["pid"] for each in found[0]["children"]] == [each["pid"] for each in found[1:]]
        headings = sorted(block.splitlines()[0].partition(": ")[2] for block in screen(found, {{}})[1:])
        mine = f", of process {{os.getpid()}}"
        region = found[0]["pipelines"][0]["stages"][1]["name"]
        assert headings[0] == "the worker subprocess" + mine, headings
        assert headings[1].startswith("worker 0 of ") and headings[1].endswith(region + mine), headings
        dumps = ask_all(os.getpid(), "dump")
        assert f"process {{found[1]['pid']}}, " in dumps[0]["text"]
        assert "The worker subprocess:" in dumps[0]["text"]
""").check("3 [['src', 'int', 'sink'], ['src', 'str', 'sink']]")
    assert not list((runtime_folder / "spdl").iterdir())


@pytest.mark.slow
def test_sources_of_workers_wait_for_input(runtime_folder: Path) -> None:
    """Of the process that deals the items: they are starved, not busy, and count the items that they got."""
    run_child(f"""
import os, sys, threading
os.environ["SPDL_MONITOR"] = "1"
os.environ["XDG_RUNTIME_DIR"] = {str(runtime_folder)!r}
from spdl._cli._watch import ask_all
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

gate = threading.Event()

def source():
    yield from range(6)
    gate.wait()

if __name__ == "__main__":
    builder = PipelineBuilder().add_source(source()).to(ProcessPoolExecutorConfig(max_workers=2))
    pipeline = builder.pipe(int).to(MAIN_PROCESS).add_sink().build()
    with pipeline.auto_stop():
        assert sorted(pipeline.get_item() for _ in range(6)) == list(range(6))
        while True:
            sources = [each["pipelines"][0]["stages"][0] for each in ask_all(os.getpid(), "stats")[1:]]
            if all(each["starved"] > 0.9 * each["elapsed"] for each in sources):
                break
        print(sum(each["num_calls"] for each in sources), [each["busy"] < each["starved"] for each in sources])
        gate.set()
""").check("6 [True, True]")
