"""``Server``: answers readers on a Unix socket, in a daemon thread that sleeps until a request arrives.

A request is one word and a newline, the name of a view; the answer is one line of JSON. There are no other commands, so
a reader cannot change anything. The server never waits for a reader: one that does not read its answers is dropped, and
so is the reader that has asked nothing for the longest time if there are too many.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import selectors
import socket
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from spdl._reports import describe_exception, log

from . import MonitorError, is_same_user, make_folder, socket_of

_LOG = logging.getLogger("spdl.monitor")

_LONGEST_REQUEST: Final = 64  # bytes
_MOST_READERS: Final = 16
#: No new answer is started while this many bytes of earlier ones wait for the reader.
_MOST_PENDING: Final = 1 << 20

_servers: weakref.WeakSet[Server] = weakref.WeakSet()


class Server:
    """Listens as soon as it is created.

    Args:
        views: The views by name: functions without arguments that return JSON values. Called on the server's thread.
        is_allowed: Whether the process at the other end of a connection is allowed to read.

    Raises:
        MonitorError: There is no usable folder for the socket.
    """

    def __init__(
        self, views: Mapping[str, Callable[[], Any]], *, is_allowed: Callable[[socket.socket], bool] = is_same_user
    ) -> None:
        self._views = dict(views)
        self._is_allowed = is_allowed
        self.path, self._listener = _listen()
        self._pid = os.getpid()
        self._wake, self._woken = socket.socketpair()
        self._readers: dict[socket.socket, _Reader] = {}
        self._selector = selectors.DefaultSelector()
        self._acceptor = Acceptor(self._listener, self._selector)
        self._is_closed = False
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="spdl-monitor", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as exc:
            self.disown()
            os.unlink(self.path)
            raise MonitorError(f"cannot start the monitor's thread: {exc}") from exc
        _servers.add(self)

    def close(self) -> None:
        """Remove the socket, disconnect all readers, and wait for the thread. Idempotent. In a forked child: disown."""
        if self._is_closed:
            return
        self._is_closed = True
        _servers.discard(self)
        if self._pid != os.getpid():
            self.disown()
            return
        with suppress(OSError):
            os.unlink(self.path)
        with suppress(OSError):
            self._wake.send(b"\0")
        if self._thread is not threading.current_thread():
            self._thread.join()

    def disown(self) -> None:
        """In a forked child: close the descriptors. The file belongs to the parent."""
        self._is_closed = True
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for each in (*self._readers, self._listener, self._wake, self._woken):
            each.close()
        self._acceptor.close()
        self._selector.close()

    # -- the thread

    def _serve(self) -> None:
        try:
            while not self._is_closed:
                self._acceptor.resume()
                for key, events in self._selector.select(self._acceptor.timeout()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is not self._woken and (reader := self._readers.get(key.fileobj)):  # type: ignore[call-overload] # only sockets are registered
                        self._handle(reader, events)
        except Exception as exc:  # noqa: BLE001 - whatever happens here must not end the program
            log(_LOG, logging.ERROR, "the monitor has failed; the pipelines continue", exc_info=exc)
            with suppress(OSError):
                os.unlink(self.path)
        finally:
            self._close_descriptors()

    def _accept(self) -> None:
        connection = self._acceptor.accept()
        if connection is None:
            return
        if not self._is_allowed(connection):
            connection.close()
            return
        if len(self._readers) >= _MOST_READERS:  # the dictionary is in the order of their last requests
            idle = next((each for each in self._readers.values() if not each.pending), None)
            if idle is None:
                connection.close()
                return
            self._drop(idle)
        self._readers[connection] = _Reader(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _handle(self, reader: _Reader, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                for request in reader.receive():
                    self._answer(reader, request)
            reader.send()
        except OSError:  # it has disconnected, or violates the protocol
            self._drop(reader)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if reader.pending else 0)
        self._selector.modify(reader.connection, wanted)

    def _drop(self, reader: _Reader) -> None:
        self._selector.unregister(reader.connection)
        del self._readers[reader.connection]
        reader.connection.close()

    def _answer(self, reader: _Reader, request: str) -> None:
        self._readers[reader.connection] = self._readers.pop(reader.connection)  # the newest
        if len(reader.pending) > _MOST_PENDING:
            raise OSError("the reader asks and does not read")
        answer: Any = {"error": f"unknown view; the views are {', '.join(sorted(self._views))}"}
        if (view := self._views.get(request)) is not None:
            try:
                answer = view()
            except Exception as exc:  # noqa: BLE001 - reported to the reader
                answer = {"error": describe_exception(exc)}
        reader.pending += json.dumps(answer, default=str).encode() + b"\n"


class _Reader:
    """A connected process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.pending = bytearray()

    def receive(self) -> list[str]:
        """Return the complete requests. Raises ``OSError`` if it has disconnected, or sends anything else."""
        try:
            data = self.connection.recv(4096)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionResetError("the reader has left")
        *lines, self.received = (self.received + data).split(b"\n")
        if any(len(line) > _LONGEST_REQUEST for line in (*lines, self.received)):
            raise OSError("the reader sends no requests")
        return [line.decode("ascii", "replace").strip() for line in lines]

    def send(self) -> None:
        """Send as much as the socket accepts now."""
        while self.pending:
            try:
                sent = self.connection.send(self.pending)
            except BlockingIOError:
                return
            del self.pending[:sent]


#: What ``accept`` reports if the system lacks something. All other errors are about one connection, which is gone.
_LACKING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Belongs to the thread that serves ``selector``, where it registers the listening socket. Never blocks.

    Closes neither.
    """

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        self.listener = listener
        self._selector = selector
        self._reserve: int | None = None
        self._paused_until: float | None = None
        self._fill_reserve()
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)

    def timeout(self) -> float | None:
        """Return for how long ``select`` may sleep before ``resume`` must be called; ``None``: for ever."""
        return None if self._paused_until is None else max(0.0, self._paused_until - monotonic())

    def resume(self) -> None:
        """Take connections again if the pause is over."""
        if self._paused_until is not None and monotonic() >= self._paused_until:
            self._paused_until = None
            self._fill_reserve()
            self._selector.register(self.listener, selectors.EVENT_READ)

    def accept(self) -> socket.socket | None:
        """Return the next connection, which does not block, if there is one."""
        try:
            connection, _ = self.listener.accept()
        except OSError as exc:
            if exc.errno in _LACKING:
                self._turn_away()
            return None  # otherwise, it has already disconnected
        connection.setblocking(False)
        return connection

    def close(self) -> None:
        """Give the reserve back. Idempotent."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _fill_reserve(self) -> None:
        if self._reserve is None:
            with suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def _turn_away(self) -> None:
        """Take a connection with the reserve, and close it: its process is told at once. Otherwise, pause."""
        has_reserve = self._reserve is not None
        self.close()
        try:
            if has_reserve:
                self.listener.accept()[0].close()
        except OSError:  # another thread has taken the descriptor
            has_reserve = False
        self._fill_reserve()
        if not has_reserve:
            self._selector.unregister(self.listener)
            self._paused_until = monotonic() + PAUSE


def _listen() -> tuple[str, socket.socket]:
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        raise MonitorError("a monitor needs Unix sockets, which this system does not have")
    path = socket_of(os.getpid(), make_folder())
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)  # left by a killed process with the same pid
        listener.bind(path)  # no other user can enter the folder
        os.chmod(path, 0o600)
        listener.listen(128)
    except OSError as exc:
        listener.close()
        raise MonitorError(f"cannot open the monitor's socket {path}: {exc.strerror or exc}") from exc
    return path, listener


def _disown_all() -> None:
    for server in list(_servers):
        server.disown()
    _servers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


#: Seconds for which the socket is left alone if there is nothing to take a connection with.
PAUSE: Final = 1.0
