"""The monitor: what readers of its socket get, and that nothing that they do changes anything."""

import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdl import _monitor
from spdl._monitor import MonitorError, _server
from spdl._monitor._client import connect, living
from spdl._monitor._server import Server
from spdl.pipeline import Pipeline, PipelineBuilder
from tests.support.child import run_child
from tests.support.timeouts import TIMEOUT

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="sockets are files of Unix")


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the sockets of this test, with a short path."""
    folder = tmp_path_factory.mktemp("run", numbered=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(
        {"hello": lambda: {"hello": "there"}, "large": lambda: {"data": "x" * (1 << 21)}, "bad": lambda: 1 / 0}
    )
    yield made
    made.close()


def reader_of(server: Server) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(server.path)  # waits if the queue is full
    sock.settimeout(TIMEOUT)
    return sock


def ask(server: Server, request: bytes) -> bytes:
    with reader_of(server) as sock, sock.makefile("rb") as file:
        sock.sendall(request)
        return file.readline()


def is_well(server: Server) -> bool:
    return ask(server, b"hello\n") == b'{"hello": "there"}\n'


def running(num_items: int = 10**6) -> Pipeline[Any]:
    return PipelineBuilder().add_source(range(num_items)).pipe(str, name="decode", concurrency=2).add_sink().build()


def test_only_its_user_can_reach_the_socket(server: Server) -> None:
    """The file has mode 0600, in a folder of mode 0700; both are removed or left as promised."""
    assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(server.path)).st_mode) == 0o700
    server.close()
    server.close()
    assert not os.path.exists(server.path)


def test_peers_are_known_by_their_user() -> None:
    """Both ends of a connection inside this process are this user's. A socket without a peer is nobody's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert _monitor.user_of(ours) == os.geteuid()
        assert _monitor.is_same_user(theirs)
    assert not _monitor.is_same_user(ours)


def test_other_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever the system names as another user is disconnected before it can ask."""
    made = Server({"hello": dict}, is_allowed=lambda connection: _monitor.user_of(connection) == os.geteuid() + 1)
    try:
        with reader_of(made) as sock:
            assert sock.recv(1) == b""
    finally:
        made.close()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
def test_another_user_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither through the folder, nor through a socket that was opened to it by mistake."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        made = Server({"hello": dict})
        try:
            os.chmod(made.path, 0o666)
            script = f"""
import os, socket
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as sock:
    try:
        sock.connect({made.path!r})
        sock.sendall(b"hello\\n")
        print("got", sock.recv(100))
    except OSError as exc:
        print(type(exc).__name__)
"""
            run_child(script).check("PermissionError")
            os.chmod(folder, 0o755)
            os.chmod(os.path.dirname(made.path), 0o755)
            found = run_child(script)
            assert found.stdout.strip() in ("got b''", "ConnectionResetError", "BrokenPipeError"), found
        finally:
            made.close()


@pytest.mark.parametrize("request_", [b"close\n", b"hello there\n", b"\n", b'{"view": "hello"}\n', b"\x80\x04.\n"])
def test_there_are_no_commands(server: Server, request_: bytes) -> None:
    """Only the names of views are understood, and nothing is unpickled."""
    assert b"unknown view" in ask(server, request_)
    assert is_well(server)


def test_a_reader_that_sends_anything_else_is_dropped(server: Server) -> None:
    """A request without an end does not fill the memory."""
    with reader_of(server) as sock:
        sock.sendall(b"x" * 4000)
        assert sock.recv(1) == b""
    assert is_well(server)


def test_a_view_that_fails_is_told(server: Server) -> None:
    """The server goes on."""
    assert b"ZeroDivisionError" in ask(server, b"bad\n")
    assert is_well(server)


def test_a_reader_that_stops_reading_holds_up_nobody(server: Server) -> None:
    """It is dropped when it asks for more and more; others are answered meanwhile."""
    with reader_of(server) as lazy:
        lazy.sendall(b"large\n")
        assert is_well(server)
        with pytest.raises(OSError):  # noqa: PT012 - as soon as the server has seen enough
            while True:
                lazy.sendall(b"large\n")
                assert is_well(server)


def test_a_reader_that_leaves_in_the_middle_is_forgotten(server: Server) -> None:
    """Before it asks, after, and before it has read all."""
    for sent in (b"", b"hel", b"hello\n", b"large\n"):
        with reader_of(server) as sock:
            sock.sendall(sent)
    assert is_well(server)


def test_idle_readers_lock_nobody_out(server: Server) -> None:
    """For another one, the reader that has asked nothing for the longest time is disconnected; the others stay."""
    readers = [reader_of(server) for _ in range(_server._MOST_READERS)]
    try:
        for sock in (*readers, readers[0]):  # the first has asked last
            sock.sendall(b"hello\n")
            assert sock.recv(100)
        assert is_well(server)
        assert readers[1].recv(1) == b""
        for sock in (readers[0], *readers[2:]):
            sock.sendall(b"hello\n")
            assert sock.recv(100)
    finally:
        for sock in readers:
            sock.close()


def test_readers_that_never_ask_lock_nobody_out(server: Server) -> None:
    """Many times more than there is room for."""
    idle = [reader_of(server) for _ in range(3 * _server._MOST_READERS)]
    try:
        assert is_well(server)
    finally:
        for sock in idle:
            sock.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts descriptors")
def test_no_descriptor_is_left() -> None:
    """New readers are disconnected at once, others are served, and there is no loop that uses a CPU."""
    run_child(
        """
        import os, resource, socket
        from spdl._monitor._server import Server

        server = Server({"hello": lambda: "there"})

        def connected():
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(server.path)
            return sock

        def ask(sock):
            sock.sendall(b"hello\\n")
            return sock.recv(100)

        first = connected()
        assert ask(first) == b'"there"\\n'
        more = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        for sock in more:
            sock.connect(server.path)
            assert sock.recv(1) == b""
        assert ask(first) == b'"there"\\n'
        # The reserve is gone too: the socket is left alone, and taken up again when the pause is over.
        server._acceptor.close()
        os.dup(0)
        num_tries = []
        accept = server._acceptor.accept
        server._acceptor.accept = lambda: num_tries.append(1) or accept()
        waiting = more[0]
        waiting.close()
        waiting = socket.socket(socket.AF_UNIX)
        waiting.connect(server.path)
        for _ in range(100):
            assert ask(first) == b'"there"\\n'
        assert len(num_tries) <= 2, num_tries
        for each in taken:
            os.close(each)
        waiting.settimeout(10)
        assert ask(waiting) == b'"there"\\n'
        server.close()
        print("done")
        """
    ).check("done")


def test_a_runtime_folder_with_a_long_path(
    runtime_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A socket's path has 107 bytes at most: another folder takes it, and readers find it there."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    made = Server({"hello": lambda: {"a": 1}})
    try:
        assert made.path == f"/tmp/spdl-{os.getuid()}/{os.getpid()}.sock"
        assert stat.S_IMODE(os.stat(os.path.dirname(made.path)).st_mode) == 0o700
        assert os.getpid() in living()
        with connect(os.getpid()) as connection:
            assert connection.ask("hello") == {"a": 1}
    finally:
        made.close()
    assert not list(long.iterdir())


@pytest.mark.parametrize("length", [106, 107, 108])
def test_the_longest_path_of_a_socket(length: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To the byte, as the system takes it."""
    rest = length - len(os.fsencode(tmp_path / "spdl" / f"{os.getpid()}.sock"))
    if rest < 2:
        pytest.skip("the folder for tests has a long path")
    folder = tmp_path / ("x" * (rest - 1))
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    made = Server({"hello": dict})
    made.close()
    assert made.path.startswith(str(folder)) == (length <= _monitor._LONGEST)


def test_no_folder_has_a_short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so of each."""
    monkeypatch.setattr(_monitor, "_LONGEST", 3)
    with pytest.raises(MonitorError, match="its path is too long for a socket"):
        Server({"hello": dict})


@pytest.mark.soak
def test_readers_come_and_go(server: Server) -> None:
    """Each time, the descriptors are the same."""
    assert is_well(server)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(100):
        assert is_well(server)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1  # the last one may be closed a moment later


def test_a_socket_left_by_a_dead_process_is_replaced(runtime_folder: Path) -> None:
    """One with the same number, and those of others that ``spdl top`` finds."""
    folder = runtime_folder / "spdl"
    folder.mkdir(mode=0o700)
    for name in (f"{os.getpid()}.sock", "4194305.sock"):  # no process has a number that large
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(folder / name))
    with running().monitor():
        assert living() == [os.getpid()]
        with connect(os.getpid()) as connection:
            assert connection.ask("stats")["pid"] == os.getpid()
    assert not list(folder.iterdir())


def test_a_folder_that_others_can_enter_is_not_used(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a link to one: the next place is taken, and if there is none, the error says why."""
    (runtime_folder / "spdl").mkdir(mode=0o755)
    (runtime_folder / "spdl").chmod(0o755)
    other = runtime_folder / "other"
    other.mkdir()
    monkeypatch.setattr("spdl._monitor.tempfile.gettempdir", lambda: str(other))
    assert _monitor.make_folder() == str(other / f"spdl-{os.getuid()}")
    (other / f"spdl-{os.getuid()}").rmdir()
    (other / f"spdl-{os.getuid()}").symlink_to("/")
    with pytest.raises(MonitorError, match="must be a folder of this user with mode 0700"):
        running().monitor()


def test_all_pipelines_of_the_process_are_shown() -> None:
    """With counts, failures, the calls in flight and their items, while they run."""
    gate = threading.Event()

    def wait(item: int) -> int:
        if item == 1:
            raise ValueError("not this one")
        gate.wait(TIMEOUT)
        return item

    blocked = PipelineBuilder().add_source(range(9)).pipe(wait, name="load").add_sink().build(num_threads=1)
    other = running()
    try:
        with other.monitor() as opened, blocked.auto_stop(), other.auto_stop(), connect(os.getpid()) as connection:
            assert "open" in repr(opened)
            next(iter(other))
            while not blocked.stats().stages[1].num_in_flight:
                pass
            stats = {each["id"]: each for each in connection.ask("stats")["pipelines"]}
            assert stats[other._engine.pipeline_id]["num_items"] == 1
            assert stats[other._engine.pipeline_id]["stages"][1]["name"] == "decode"
            dump = connection.ask("dump")
            calls = [call for each in dump["pipelines"] for call in each["calls"] if call["stage"].endswith(":load")]
            assert [(call["item"], call["age"] >= 0) for call in calls] == [("0", True)]
            stacks = [thread["stack"] for thread in dump["threads"] if thread["stage"] == calls[0]["stage"]]
            assert "gate.wait(TIMEOUT)" in stacks[0]
            gate.set()
            assert next(iter(blocked)) == 0
            while not (failed := connection.ask("stats")["pipelines"][0]["stages"][1]["failures"]):
                pass
            assert failed[0]["error"] == "ValueError: not this one"
    finally:
        gate.set()


def test_the_monitor_stays_until_all_who_opened_it_have_left() -> None:
    """Two pipelines share one server, and closing twice is as good as once."""
    first, second = running().monitor(), running().monitor()
    assert first.path == second.path
    first.close()
    first.close()
    assert os.path.exists(second.path)
    second.close()
    assert not os.path.exists(second.path)


def test_a_monitor_of_the_parent_is_none_of_a_forked_child(runtime_folder: Path) -> None:
    """Closing it there takes nothing from those who open the child's own."""
    run_child(f"""
import os, warnings
os.environ["XDG_RUNTIME_DIR"] = {str(runtime_folder)!r}
from spdl.pipeline import PipelineBuilder

pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
inherited = pipeline.monitor()
warnings.simplefilter("ignore")  # of forks while there are threads
if not (pid := os.fork()):
    inherited.close()
    other = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
    first, second = other.monitor(), other.monitor()
    first.close()
    assert os.path.exists(second.path)
    second.close()
    assert not os.path.exists(second.path)
else:
    assert os.waitpid(pid, 0)[1] == 0
    assert os.path.exists(inherited.path)
    inherited.close()
    print("well")
""").check("well")


def test_nothing_is_opened_unless_asked() -> None:
    """Neither a socket nor a thread."""
    pipeline = running()
    with pipeline.auto_stop():
        assert not any(thread.name == "spdl-monitor" for thread in threading.enumerate())
    assert not living()


def test_the_variable_opens_the_monitor_and_the_exit_removes_the_socket(runtime_folder: Path) -> None:
    """When the first pipeline is started, and not before."""
    run_child(f"""
import os
os.environ["SPDL_MONITOR"] = "1"
os.environ["XDG_RUNTIME_DIR"] = {str(runtime_folder)!r}
from spdl.pipeline import PipelineBuilder
from spdl._monitor._client import connect, living

pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
assert not living()
assert list(pipeline)
assert living() == [os.getpid()]
with connect(os.getpid()) as connection:
    print(connection.ask("stats")["pipelines"][0]["state"])
""").check("ended")
    assert not list((runtime_folder / "spdl").iterdir())


def test_a_forked_child_has_none_of_its_parents(runtime_folder: Path) -> None:
    """The parent's socket stays the parent's. The child gets its own with its first pipeline."""
    run_child(f"""
import os, warnings
os.environ["SPDL_MONITOR"] = "1"
os.environ["XDG_RUNTIME_DIR"] = {str(runtime_folder)!r}
from spdl.pipeline import PipelineBuilder
from spdl._monitor._client import connect, living

def run():
    return list(PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build())

run()
warnings.simplefilter("ignore")  # of forks while there are threads
parent = os.getpid()
if not (pid := os.fork()):
    assert living() == [parent]
    run()
    assert living() == sorted([parent, os.getpid()])
    with connect(os.getpid()) as connection:
        assert connection.ask("stats")["pid"] == os.getpid()
else:
    assert os.waitpid(pid, 0)[1] == 0
    assert living() == [parent]
    with connect(parent) as connection:
        assert connection.ask("stats")["pid"] == parent
    print("well")
""").check("well")
    assert not list((runtime_folder / "spdl").iterdir())


def test_a_monitor_that_cannot_be_opened_stops_no_pipeline(
    runtime_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the variable, the log says why; ``monitor()`` raises. Nothing is left."""

    class Refusing(threading.Thread):
        def start(self) -> None:
            if self.name == "spdl-monitor":
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr("spdl._monitor._server.threading.Thread", Refusing)
    monkeypatch.setenv("SPDL_MONITOR", "1")
    assert sorted(running(3)) == ["0", "1", "2"]
    assert "SPDL_MONITOR is set, and cannot start the monitor's thread" in caplog.text
    with pytest.raises(MonitorError, match="can't start new thread"):
        running().monitor()
    assert not list((runtime_folder / "spdl").iterdir())
