"""The fast path between a pipeline and its actors on the same node: the same connection as for worker processes.

Ray always starts, places and ends the actors. An actor on the pipeline's node requests a connection at the pipeline's
*door*, a Unix socket. Messages then go through rings, and buffers through shared memory, instead of through Ray's calls
and its object store. If the actor cannot connect (another container, another user, no descriptors), it uses Ray like
actors on other nodes.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple

from spdl._monitor import is_same_user
from spdl._monitor._server import Acceptor
from spdl._processes._transport._connecting import link_pair, receive_end, send_end
from spdl._processes._transport._link import Link

#: The key, the number of the actor, its generation, its pid.
_HELLO: Final = struct.Struct("<32sIII")
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group
#: Time limit in seconds for each step of a connection, which normally takes microseconds.
_TIMEOUT: Final = 5.0
#: Seconds between two attempts to connect.
_PAUSE: Final = 0.01
#: Visitors that have not said who they are. For another one, the first of them is dropped.
_MOST_VISITORS: Final = 64


class DoorAddress(NamedTuple):
    """The address of a door, and the key to it."""

    node: str
    name: str
    key: bytes


class Door:
    """Accepts connections of actors, in its own thread.

    Visitors are served side by side, so one that does not say who it is keeps no other waiting. Those of other users
    are dropped before they are heard.

    Args:
        node: The Ray node of this process.
        admit: Called with the number of an actor, its generation, its pid, and the connection to it, which it owns.

    Raises:
        OSError: No socket can be created.
    """

    def __init__(self, node: str, admit: Callable[[int, int, int, Link], None]) -> None:
        self.address = DoorAddress(node, f"\0spdl-ray-{secrets.token_hex(16)}", secrets.token_bytes(32))
        self._admit = admit
        self._is_closed = False
        self._visitors: dict[socket.socket, _Visitor] = {}  # in the order of their arrival
        with ExitStack() as opened:
            self._selector = opened.enter_context(selectors.DefaultSelector())
            self._socket = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._wake, self._woken = (opened.enter_context(each) for each in socket.socketpair())
            self._socket.bind(self.address.name)  # abstract: it disappears with this process, however that ends
            self._socket.listen(64)
            self._acceptor = Acceptor(self._socket, self._selector)
            opened.callback(self._acceptor.close)
            self._selector.register(self._woken, selectors.EVENT_READ)
            served = opened.pop_all()
        self._thread = threading.Thread(target=self._run, args=(served,), name="spdl-ray-door", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as exc:
            served.close()
            raise OSError(f"cannot start the thread of the door: {exc}") from exc

    def _run(self, opened: ExitStack) -> None:
        with opened:
            while not self._is_closed:
                self._acceptor.resume()
                for key, _ in self._selector.select(self._timeout()):
                    if key.fileobj is self._socket:
                        self._greet()
                    elif (visitor := self._visitors.get(key.fileobj)) is not None:  # type: ignore[call-overload] # only sockets are registered
                        self._hear(visitor)
                self._drop_late()
            for visitor in list(self._visitors.values()):
                self._drop(visitor)

    def _timeout(self) -> float | None:
        found = [] if (pause := self._acceptor.timeout()) is None else [pause]
        if self._visitors:
            found.append(max(0.0, next(iter(self._visitors.values())).deadline - monotonic()))
        return min(found, default=None)

    def _greet(self) -> None:
        connection = self._acceptor.accept()
        if connection is None:
            return
        if not is_same_user(connection):
            connection.close()
            return
        if len(self._visitors) >= _MOST_VISITORS:
            self._drop(next(iter(self._visitors.values())))
        self._visitors[connection] = _Visitor(connection, monotonic() + _TIMEOUT)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, visitor: _Visitor) -> None:
        connection = visitor.connection
        try:
            data = connection.recv(_HELLO.size - len(visitor.hello))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        visitor.hello += data
        if data and len(visitor.hello) < _HELLO.size:
            return
        self._selector.unregister(connection)
        del self._visitors[connection]
        with connection, suppress(OSError):  # for this actor: it uses Ray instead
            if data:
                self._answer(connection, visitor.hello)

    def _answer(self, connection: socket.socket, hello: bytes) -> None:
        key, index, generation, pid = _HELLO.unpack(hello)
        if not hmac.compare_digest(key, self.address.key):
            return
        link, end = link_pair(has_rings=True)
        try:
            send_end(connection, end)  # a few bytes: the empty buffer of the socket takes them
        except BaseException:
            link.close()
            raise
        finally:
            end.close()
        self._admit(index, generation, pid, link)

    def _drop_late(self) -> None:
        now = monotonic()
        for visitor in [each for each in self._visitors.values() if each.deadline <= now]:
            self._drop(visitor)

    def _drop(self, visitor: _Visitor) -> None:
        self._selector.unregister(visitor.connection)
        del self._visitors[visitor.connection]
        visitor.connection.close()

    def close(self) -> None:
        """Stop accepting connections. Idempotent."""
        self._is_closed = True
        with suppress(OSError):
            self._wake.send(b"\0")
        self._thread.join(2 * _TIMEOUT)


@dataclass(eq=False, slots=True)
class _Visitor:
    """Who has come in and has not yet said all of its hello."""

    connection: socket.socket
    deadline: float
    hello: bytes = b""


def open_door(node: str, admit: Callable[[int, int, int, Link], None]) -> Door | None:
    """Open a door; ``None`` where that is not possible."""
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        return Door(node, admit)
    return None


def enter(address: DoorAddress, index: int, generation: int) -> Link | None:
    """In the actor: return a connection to the pipeline; ``None`` if there is none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
            visitor.settimeout(_TIMEOUT)
            _connect(visitor, address.name)
            credentials = visitor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
                return None
            visitor.sendall(_HELLO.pack(address.key, index, generation, os.getpid()))
            end = receive_end(visitor)
        try:
            return end.open()
        except BaseException:
            end.close()
            raise
    except OSError:
        return None


def _connect(visitor: socket.socket, name: str) -> None:
    deadline = monotonic() + _TIMEOUT
    while True:
        try:
            visitor.connect(name)
            return
        except BlockingIOError:  # as many as the queue takes are waiting to be accepted
            if monotonic() > deadline:
                raise
            threading.Event().wait(_PAUSE)
