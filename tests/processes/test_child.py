"""A process with a connection: how it answers, how its end is told, and how it ends with its owner."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl._processes._calls import wait_any
from spdl._processes._child import Child, living_children, wait_deaths
from spdl._processes._stacks import stacks_of
from spdl._processes._transport._link import Link
from spdl.pipeline import PipelineStateError, WorkerDiedError, WorkerError
from tests.processes import bodies
from tests.processes.bodies import TIMEOUT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")


def start(*args: Any, body: Callable[..., None] = bodies.answer, **options: Any) -> Child:
    return Child.start(body, *args, name="spdl-test", what="worker 3 of a test", **options)


@pytest.fixture
def child() -> Iterator[Child]:
    child = start()
    yield child
    child.stop()


def _ask(child: Child, kind: int, payload: Any) -> Any:
    child.link.send(kind, 0, payload)
    return child.recv(TIMEOUT)


@pytest.mark.filterwarnings("ignore:.*can deadlock:RuntimeWarning", "ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["forkserver", "fork", "spawn"])
def test_a_child_answers(method: str) -> None:
    """Started by any method, with its arguments, until it is stopped; that is an ordinary end."""
    child = start("one", 2, mp_context=method)
    child.link.send(1, 7, "three")
    frame = child.recv(TIMEOUT)
    assert (frame.kind, frame.number, frame.load()) == (1, 7, ("one", 2, "three"))
    assert child.is_alive()
    assert child.exit_code() is None
    child.stop()
    assert not child.is_alive()
    assert child.exit_code() == 0
    child.stop()


def test_a_child_ignores_interrupts(child: Child) -> None:
    """Ctrl-C goes to all processes of a terminal; the parent decides what it means."""
    _ask(child, 1, "it runs")
    os.kill(child.pid, signal.SIGINT)
    assert _ask(child, 1, "still").load() == ("still",)


@pytest.mark.parametrize(("how", "told"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-11, "SIGSEGV")])
def test_a_death_is_told(child: Child, how: int, told: str) -> None:
    """What it had sent comes first; then what, its id, its exit code or the name of its signal, as often as asked."""
    assert _ask(child, 2, how).kind == 9
    for _ in range(2):
        with pytest.raises(WorkerDiedError, match=rf"worker 3 of a test .*{child.pid}.*{told}") as caught:
            child.recv()
        assert caught.value.exit_code == how
    child.stop()
    assert child.exit_code() == how


def test_returning_without_a_word_is_a_death() -> None:
    """Whoever waits for a message gets none."""
    child = start(body=bodies.silent)
    with pytest.raises(WorkerDiedError, match="exit code 0"):
        child.recv()
    child.stop()


@pytest.mark.parametrize("error", [ValueError("so it goes"), SystemExit("so it goes"), bodies.Refuses()])
def test_an_exception_comes_as_text(child: Child, error: BaseException) -> None:
    """With its type and its traceback there, whatever it is."""
    child.link.send(3, 0, error)
    with pytest.raises(WorkerError, match=rf"worker 3 of a test failed: .*\({type(error).__name__}\)") as caught:
        child.recv(TIMEOUT)
    assert "in fail" in str(caught.value.remote_traceback)
    assert not isinstance(caught.value, WorkerDiedError)
    with pytest.raises(WorkerDiedError, match="exit code 1"):
        child.recv(TIMEOUT)


def test_a_process_that_holds_the_connection_does_not_hide_a_death(child: Child) -> None:
    """One that the child has started, and that survives it."""
    other = _ask(child, 5, TIMEOUT).number
    try:
        with pytest.raises(WorkerDiedError, match="exit code 5"):
            child.recv(TIMEOUT)
    finally:
        os.kill(other, signal.SIGKILL)


def test_recv_takes_so_long_at_most(child: Child) -> None:
    """TimeoutError; nothing is lost by it."""
    with pytest.raises(TimeoutError):
        child.recv(0)
    assert _ask(child, 1, "now").load() == ("now",)


def test_wait_any_names_those_with_a_message_and_the_dead() -> None:
    """And is empty if there is none in time."""
    children = [start() for _ in range(3)]
    assert wait_any(children, 0) == []
    children[1].link.send(1, 0, 0)
    assert wait_any(children, TIMEOUT) == [children[1]]
    children[1].recv(TIMEOUT)
    children[2].kill()
    assert wait_any(children, TIMEOUT) == [children[2]]
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        children[2].recv(TIMEOUT)
    for child in children:
        child.stop()


def test_wait_deaths_names_the_dead_only() -> None:
    """A message, even of the dead, is no death and hides none."""
    children = [start() for _ in range(3)]
    children[0].link.send(1, 0, 0)
    assert wait_any(children, TIMEOUT) == [children[0]]
    assert wait_deaths(children, 0) == []
    children[2].kill()
    assert wait_deaths(children, TIMEOUT) == [children[2]]
    for child in children:
        child.stop()


# -- the end


@pytest.mark.slow
@pytest.mark.parametrize("how", ["busy", "stopped", "deaf"])
def test_stop_ends_a_child_that_does_not_listen(how: str) -> None:
    """In a call that does not return; stopped by a signal; deaf to SIGTERM."""
    child = start()
    child.link.send(4, 0, how)
    child.stop(0.1)
    assert not child.is_alive()
    assert child.exit_code() is not None


def test_recv_wakes_when_the_child_is_stopped(child: Child) -> None:
    """By another thread; then the child cannot be used."""
    waiting = threading.Event()

    def stop() -> None:
        waiting.wait()
        child.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    waiting.set()
    with pytest.raises(PipelineStateError, match="stopped"):
        child.recv(TIMEOUT)
    thread.join()
    with pytest.raises(PipelineStateError, match="stopped"):
        child.recv(TIMEOUT)


def test_collection_ends_a_child() -> None:
    """Its process, and the descriptors here."""
    child = start()
    pid = child.pid
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    del child
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    if before:
        assert set(os.listdir("/proc/self/fd")) < before


def test_a_forked_copy_has_no_child(child: Child) -> None:
    """It may be used where it was started only, and goes on there."""
    pid = os.fork()
    if pid == 0:  # nothing of pytest's may run here
        try:
            child.stop()
            child.recv(0)
        except PipelineStateError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert _ask(child, 1, "here").load() == ("here",)


# -- what goes along


def _nested() -> Callable[[], int]:
    return lambda: 1


def test_what_does_not_pickle_is_named() -> None:
    """Among the arguments; and nothing is left."""
    with pytest.raises(TypeError, match=r"cannot send <function _nested.*lambda.*> to worker 3 of a test"):
        start(1, _nested(), mp_context="forkserver")
    with pytest.raises(TypeError, match="worker 3 of a test"):
        start(body=lambda link: None, mp_context="spawn")


class _BreaksThere:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_what_does_not_unpickle_there_is_told() -> None:
    """Not by a traceback on stderr, but where the child is read."""
    child = start(_BreaksThere())
    with pytest.raises(WorkerError, match=r"worker 3 of a test could not unpickle .*no number.*\(ValueError\)"):
        child.recv(TIMEOUT)
    child.stop()


def test_large_messages_go_both_ways(child: Child) -> None:
    """In shared memory, or without any."""
    data = os.urandom(1 << 20)
    assert _ask(child, 1, data).load() == (data,)
    other = start(link_limit=0)
    assert _ask(other, 1, data).load() == (data,)
    other.stop()


def _send_many(link: Link, num_frames: int) -> None:
    for number in range(num_frames):
        link.send(1, number, "x" * 1000)


def test_messages_of_a_child_that_has_ended_are_all_read() -> None:
    """As far as the socket took them: its end waits for the rest."""
    child = start(100, body=_send_many)
    assert [child.recv(TIMEOUT).number for _ in range(100)] == list(range(100))
    with pytest.raises(WorkerDiedError, match="exit code 0"):
        child.recv(TIMEOUT)
    child.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="other processes have no /proc there")
def test_stacks_of_children_can_be_read() -> None:
    """Of those that are stuck too, and by anybody who knows the number of the process."""
    child = start()
    try:
        child.link.send(1, 0, "there")
        child.recv(TIMEOUT).discard()
        child.link.send(4, 0, "deaf")
        found: str | None = None
        while found is None or "in hang" not in found:
            found = stacks_of(child.pid)
        assert (child.pid, "worker 3 of a test") in living_children()
        assert "Extension modules" not in found
    finally:
        child.kill()
        child.stop()
    assert stacks_of(child.pid) is None


def test_a_process_that_offers_no_stacks_gets_no_signal() -> None:
    """It would end by it."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert stacks_of(process.pid) is None
        process.communicate(b"\n", TIMEOUT)
    assert process.returncode == 0
