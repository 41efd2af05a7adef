"""What ``spdl stats`` and ``spdl dump`` show of actors."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

import spdl.debug
from spdl._cli import main
from spdl._processes._elsewhere import ELSEWHERE
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from tests.pipeline.regions import ops
from tests.support.running import TIMEOUT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="Ray keeps processes, threads and connections"),
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.usefixtures("ray"),
]


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only folder for sockets, so that other processes of this user are not found."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run", numbered=True)))


@pytest.fixture
def elsewhere(far: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors appear to be on other machines."""
    monkeypatch.setattr("spdl.ray._looking.pid_space", lambda: "another machine")


@contextmanager
def watched(num_actors: int = 1, **options: Any) -> Iterator[tuple[Pipeline[Any], set[int]]]:
    """Yield a monitored pipeline without end, and the pids of its actors."""
    builder: Any = PipelineBuilder().add_source(count()).to(RayActors(num_actors, num_cpus=0, **options))
    pipeline = builder.pipe(ops.with_pid).to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop(), pipeline.monitor():
        pids: set[int] = set()
        while len(pids) < num_actors:
            pids.add(pipeline.get_item(timeout=TIMEOUT)[1])
        yield pipeline, pids


def shown(capsys: pytest.CaptureFixture[str], command: str) -> str:
    assert main([command, str(os.getpid())]) == 0
    return capsys.readouterr().out


def test_stats_show_the_stages_in_each_actor(capsys: pytest.CaptureFixture[str]) -> None:
    """Under its pid, with the region that it works for; and nothing of it when the pipeline has ended."""
    with watched(2) as (pipeline, pids):
        text = shown(capsys, "stats")
        for pid in pids:
            assert f"process {pid}: actor " in text
        assert f" of {pipeline.stats().stages[1].info}, of process {os.getpid()}" in text
        assert text.count("with_pid ") >= 2
    assert ELSEWHERE.workers() == []


@pytest.mark.usefixtures("elsewhere")
def test_actors_on_other_machines_have_their_host(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the pid; what they show comes through Ray."""
    with watched() as (_, (pid,)):
        heading = f"process {pid} on {socket.gethostname()}"
        assert f"{heading}: actor 0 of " in shown(capsys, "stats")
        dump = shown(capsys, "dump")
        assert f"{heading}, actor 0 of " in dump  # its stacks
        assert f"{heading}: actor 0 of " in dump  # its own dump
        assert "thread spdl-region-actor" in dump


@pytest.mark.usefixtures("elsewhere")
def test_an_actor_that_stands_still_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """It is named all the same, and answers when it goes on."""
    with watched() as (_, (pid,)):
        heading = f"process {pid} on {socket.gethostname()}: actor 0 of "
        os.kill(pid, signal.SIGSTOP)
        try:
            assert "it does not answer" in shown(capsys, "stats").partition(heading)[2]
            assert ELSEWHERE.ask("stats")[0][1] is None
        finally:
            os.kill(pid, signal.SIGCONT)
        while (answer := ELSEWHERE.ask("stats")[0][1]) is None:
            pass
        assert answer["pid"] == pid


def test_a_dump_has_the_stacks_of_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine Ray is not asked for them: it may be what hangs."""
    with watched() as (_, (pid,)):
        monkeypatch.setattr(type(ELSEWHERE), "ask", None)
        text = spdl.debug.dump()
        assert f"process {pid}, actor 0 of " in text
        assert "serve_requests" in text


def test_an_actor_of_another_node_is_shown_until_it_is_replaced(cluster: Any) -> None:
    """Then the one that replaces it is."""
    node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20, resources={"far": 1})
    try:
        with watched(resources={"far": 0.5}, restart=True) as (pipeline, (pid,)):
            assert [worker.pid for worker in ELSEWHERE.workers()] == [pid]
            os.kill(pid, signal.SIGKILL)
            while (other := pipeline.get_item(timeout=TIMEOUT)[1]) == pid:
                pass
            ((worker, answer),) = ELSEWHERE.ask("stats")
            assert worker.pid == other
            assert worker.what.startswith("actor 0 of ")
            while answer is None:  # it takes its time on a busy machine
                ((_, answer),) = ELSEWHERE.ask("stats")
            assert answer["pid"] == other
    finally:
        cluster.remove_node(node)
        cluster.wait_for_nodes()
