"""``spdl top``, ``spdl stats`` and ``spdl dump`` on pipelines of this process."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdl._cli import _watch, main
from spdl._monitor import _places
from spdl.pipeline import Pipeline, PipelineBuilder
from tests.support.child import run_child


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder for sockets, so that other processes of this user are not found."""
    folder = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(_places, "folders", lambda: [str(folder / "spdl")])
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


def test_intervals_are_of_one_pipeline() -> None:
    """The first is the whole; a pipeline with the same number in another process has its own."""
    stage = {"id": "0", "name": "src", "concurrency": 2, "elapsed": 1.0, "num_calls": 10, "failures": []}
    whole = {"id": 0, "elapsed": 1.0, "state": "running", "num_threads": 1, "num_items": 10, "consumer_wait": 0.0}
    answer = {"pid": 1, "argv": ["train.py"], "pipelines": [{**whole, "verdict": None, "stages": [stage]}]}
    later = json.loads(json.dumps(answer))
    later["pipelines"][0].update(elapsed=3.0, num_items=14)
    later["pipelines"][0]["stages"][0].update(elapsed=3.0)
    before: dict[tuple[int, int], Any] = {}
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


@pytest.mark.slow
def test_a_pipeline_in_a_subprocess_is_part_of_the_picture(runtime_folder: Path) -> None:
    """The child opens its own socket, because it has the variable too."""
    run_child(f"""
import os, sys
os.environ["SPDL_MONITOR"] = "1"
os.environ["XDG_RUNTIME_DIR"] = {str(runtime_folder)!r}
from spdl._cli._watch import ask_all, screen
from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

if __name__ == "__main__":
    inner = run_pipeline_in_subprocess(PipelineBuilder().add_source(range(99)).pipe(str).add_sink(), mp_context="spawn")
    pipeline = PipelineBuilder().add_source(inner).pipe(int).add_sink().build()
    with pipeline.auto_stop():
        pipeline.get_item()
        found = ask_all(os.getpid(), "stats")
        print(len(found), [[stage["name"] for stage in each["pipelines"][0]["stages"]] for each in found])
        assert found[0]["children"][0]["pid"] == found[1]["pid"]
        blocks = screen(found, {{}})
        heading = blocks[1].splitlines()[0]
        assert heading == f"process {{found[1]['pid']}}: the worker subprocess, of process {{os.getpid()}}"
        dump = ask_all(os.getpid(), "dump")[0]["text"]
        assert f"process {{found[1]['pid']}}, The worker subprocess:" in dump
""").check("2 [['src', 'int', 'sink'], ['src', 'str', 'sink']]")
    assert not list((runtime_folder / "spdl").iterdir())
