"""What readers are told of a process that has ended, does not answer, is somebody else's, or shows nothing."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdl._monitor import MonitorError, _client, make_folder, socket_of
from spdl._monitor._client import Connection, connect, living
from spdl._monitor._server import Server
from tests.support.timeouts import TIMEOUT

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="sockets are files of Unix")


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the sockets of this test, with a short path."""
    folder = tmp_path_factory.mktemp("run", numbered=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def dead_pid() -> int:
    """A process that has just ended."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    child.wait(TIMEOUT)
    return child.pid


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and the other end of it."""
    here, there = socket.socketpair()
    here.settimeout(TIMEOUT)
    with there, Connection(123, here) as connection:
        yield connection, there


def answering(there: socket.socket, *parts: bytes, closes: bool = False) -> threading.Thread:
    def serve() -> None:
        there.recv(100)
        for part in parts:
            there.sendall(part)
        if closes:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize("parts", [[b'{"a": 1}\n'], [b'{"a"', b": 1}", b"\n"]])
def test_an_answer_is_a_line(ends: tuple[Connection, socket.socket], parts: list[bytes]) -> None:
    """In one piece or in many."""
    connection, there = ends
    thread = answering(there, *parts)
    assert connection.ask("hello") == {"a": 1}
    thread.join()


def test_a_process_that_ends_while_it_is_asked(ends: tuple[Connection, socket.socket]) -> None:
    """Before it has answered, or in the middle."""
    connection, there = ends
    thread = answering(there, b'{"a"', closes=True)
    with pytest.raises(MonitorError, match="process 123 has ended, or takes no more readers"):
        connection.ask("hello")
    thread.join()
    with pytest.raises(MonitorError, match="process 123 has ended"):
        connection.ask("hello")


def test_a_process_that_does_not_answer() -> None:
    """It is stopped, or native code holds the GIL: the reader does not wait for ever."""
    here, there = socket.socketpair()
    here.settimeout(0.01)
    with (
        there,
        Connection(123, here) as connection,
        pytest.raises(MonitorError, match="process 123 did not answer within 10 s"),
    ):
        connection.ask("hello")


def test_an_error_of_the_process_is_told(ends: tuple[Connection, socket.socket]) -> None:
    """In its words."""
    connection, there = ends
    thread = answering(there, b'{"error": "no such view"}\n')
    with pytest.raises(MonitorError, match="process 123 cannot show that: no such view"):
        connection.ask("nothing")
    thread.join()


def test_processes_that_cannot_be_looked_at(dead_pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none; it has no monitor; it is another user's; its number is none."""
    with pytest.raises(MonitorError, match=f"there is no process {dead_pid}"):
        connect(dead_pid)
    with pytest.raises(MonitorError, match=rf"process {os.getpid()} has no monitor: .*SPDL_MONITOR=1"):
        connect(os.getpid())
    monkeypatch.setattr(_client, "_owner", lambda pid: os.geteuid() + 1)
    with pytest.raises(MonitorError, match="is not yours: it belongs to user"):
        connect(os.getpid())
    monkeypatch.setattr(_client, "_owner", lambda pid: None)
    with pytest.raises(MonitorError, match="has no monitor"):
        connect(1 << 70)


def test_a_socket_that_nobody_serves(runtime_folder: Path) -> None:
    """Its process is alive and has closed it."""
    path = socket_of(os.getpid(), make_folder())
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with pytest.raises(MonitorError, match="has no monitor any more"):
        connect(os.getpid())


def test_sockets_of_dead_processes_are_removed(dead_pid: int) -> None:
    """By whoever lists those that live."""
    path = Path(socket_of(dead_pid, make_folder()))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    server = Server({})
    try:
        assert living() == [os.getpid()]
        assert not path.exists()
    finally:
        server.close()


def test_a_server_of_another_user_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the folder says."""
    server = Server({})
    try:
        with monkeypatch.context() as patch:
            patch.setattr(_client, "is_same_user", lambda sock: False)
            with pytest.raises(MonitorError, match=r"the socket .* is not yours"):
                connect(os.getpid())
    finally:
        server.close()


def test_a_process_that_accepts_no_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue of readers is full, as it is stopped."""
    path = socket_of(os.getpid(), make_folder())
    monkeypatch.setattr(_client, "_TIMEOUT", 0.02)
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as waiting:
        listening.bind(path)
        listening.listen(0)
        waiting.connect(path)
        with pytest.raises(MonitorError, match=r"accepts no readers: it is stopped|has no monitor any more"):
            connect(os.getpid())
