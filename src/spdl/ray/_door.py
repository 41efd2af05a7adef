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
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from spdl._processes._transport import Link, link_pair
from spdl._processes._transport._passing import receive_end, send_end

__all__ = ["Door", "DoorAddress", "enter", "open_door"]

#: The key, the number of the actor, its generation, its pid.
_HELLO: Final = struct.Struct("<32sIII")
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group
#: Time limit in seconds for each step of a connection, which normally takes microseconds.
_TIMEOUT: Final = 5.0


class DoorAddress(NamedTuple):
    """The address of a door, and the key to it."""

    node: str
    name: str
    key: bytes


class Door:
    """Accepts connections of actors, in its own thread.

    Args:
        node: The Ray node of this process.
        admit: Called with the number of an actor, its generation, its pid, and the connection to it, which it owns.

    Raises:
        OSError: No socket can be created.
    """

    def __init__(self, node: str, admit: Callable[[int, int, int, Link], None]) -> None:
        self.address = DoorAddress(node, f"\0spdl-ray-{secrets.token_hex(16)}", secrets.token_bytes(32))
        self._admit = admit
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(self.address.name)  # abstract: it disappears with this process, however that ends
            self._socket.listen(64)
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._run, name="spdl-ray-door", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:  # closed
                return
            with visitor, suppress(OSError):  # for this actor: it uses Ray instead
                self._receive(visitor)

    def _receive(self, visitor: socket.socket) -> None:
        visitor.settimeout(_TIMEOUT)
        hello = visitor.recv(_HELLO.size, socket.MSG_WAITALL)
        if len(hello) < _HELLO.size:
            return
        key, index, generation, pid = _HELLO.unpack(hello)
        if not hmac.compare_digest(key, self.address.key):
            return
        link, end = link_pair(has_rings=True)
        try:
            send_end(visitor, end)
        except BaseException:
            link.close()
            raise
        finally:
            end.close()
        self._admit(index, generation, pid, link)

    def close(self) -> None:
        """Stop accepting connections. Idempotent."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join(2 * _TIMEOUT)
        self._socket.close()


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
            visitor.connect(address.name)
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
