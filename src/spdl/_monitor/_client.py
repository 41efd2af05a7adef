"""Reads the views of a monitored process for ``spdl top``, ``spdl stats`` and ``spdl dump``."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from . import MonitorError, is_same_user, pids

_TIMEOUT: Final = 10.0  # limit for an answer in seconds: a dump asks child processes
_PAUSE: Final = 0.01  # seconds between two attempts to connect
_HOW: Final = (
    "start it with SPDL_MONITOR=1 in its environment, or call pipeline.monitor() in it; its pipeline must have begun"
)


class Connection:
    """A connection to a monitored process. A context manager."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._socket = sock
        self._received = b""

    def ask(self, view: str) -> dict[str, Any]:
        """Return a view of the process. Raises ``MonitorError``: it has ended, does not answer, or cannot answer."""
        try:
            self._socket.sendall(f"{view}\n".encode())
            while b"\n" not in self._received:
                data = self._socket.recv(1 << 16)
                if not data:
                    raise MonitorError(f"process {self.pid} has ended, or takes no more readers")
                self._received += data
        except TimeoutError:
            raise MonitorError(
                f"process {self.pid} did not answer within {_TIMEOUT:g} s: it is stopped, or native code holds the GIL"
            ) from None
        except OSError as exc:
            raise MonitorError(f"process {self.pid} has ended ({exc.strerror})") from None
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise MonitorError(f"process {self.pid} cannot show that: {answer['error']}")
        return answer

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *args: object) -> None:
        self._socket.close()


def living() -> list[int]:
    """Return the pids of all processes of this user that can be monitored. Removes the sockets of dead ones."""
    found = []
    for pid, path in sorted(pids().items()):
        if _exists(pid):
            found.append(pid)
        else:
            with suppress(OSError):
                os.unlink(path)
    return found


def connect(pid: int) -> Connection:
    """Connect to a process. Raises ``MonitorError``, which says what to do."""
    path = pids().get(pid)
    if not _exists(pid):
        raise MonitorError(f"there is no process {pid}")
    owner = _owner(pid)
    if owner is not None and owner != os.geteuid():
        raise MonitorError(f"process {pid} is not yours: it belongs to user {owner}, and only that user can look at it")
    if path is None:
        raise MonitorError(f"process {pid} has no monitor: {_HOW}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_TIMEOUT)
        _connect(sock, path, pid)
        if not is_same_user(sock):
            raise MonitorError(f"the socket {path} is not yours")
    except BaseException as exc:
        sock.close()
        if isinstance(exc, OSError):
            raise MonitorError(f"process {pid} has no monitor any more: {_HOW}") from None
        raise
    return Connection(pid, sock)


def _connect(sock: socket.socket, path: str, pid: int) -> None:
    deadline = monotonic() + _TIMEOUT
    while True:
        try:
            sock.connect(path)
            return
        except BlockingIOError:  # others are waiting to be accepted
            if monotonic() > deadline:
                raise MonitorError(
                    f"process {pid} accepts no readers: it is stopped, or native code holds the GIL"
                ) from None
            threading.Event().wait(_PAUSE)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
