"""Makes connections between processes: this one and a new one, two new ones, or two that run already."""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import threading
from collections.abc import Iterable
from multiprocessing import context, reduction
from typing import Any, Final

from ._arena import Arena, default_limit, lacks_memory
from ._frame import RingEnds, make_rings
from ._link import Link


class _Socket(socket.socket):
    """A socket that closes without a warning when it is collected.

    The owner of a dropped link closes it. In a reference cycle (an exception, its traceback, the frame with the loader)
    the collector calls the finalizers of owner and socket in any order; if the socket's ran first, it would warn of an
    unclosed socket.
    """

    __slots__ = ()

    @classmethod
    def taking(cls, sock: socket.socket) -> _Socket:
        """Take over the descriptor of another socket object."""
        return cls(sock.family, sock.type, sock.proto, sock.detach())

    def __del__(self) -> None:
        self.close()


class LinkEnd:
    """The other end, before it is opened. Picklable only as an argument of a process that is being started."""

    def __init__(self, sock: socket.socket, sending: Any, receiving: Any, rings: RingEnds | None = None) -> None:
        self._socket = sock
        self._sending = sending  # arenas, or None
        self._receiving = receiving
        self._rings = rings

    def open(self) -> Link:
        """Open it once, in the process that uses it."""
        store = _open_sender(self._sending)
        receiver = _open_receiver(self._receiving)
        rings = None if self._rings is None else self._rings.open()
        return Link(_Socket.taking(self._socket), store, receiver, rings)

    def close(self) -> None:
        """Close it in a process that does not use it. Idempotent."""
        self._socket.close()
        arenas, self._sending, self._receiving = (self._sending, self._receiving), None, None
        for arena in arenas:
            if isinstance(arena, Arena):
                arena.close()
        if self._rings is not None:
            self._rings.close()


def _open_sender(arena: Any) -> Any:
    """Open its sending side; ``None`` if there is no address space, and then everything goes through the socket."""
    try:
        return None if arena is None else arena.open_sender()
    except OSError as exc:
        if not isinstance(arena, Arena) or not lacks_memory(exc):
            raise
        return None


def _open_receiver(arena: Any) -> Any:
    """Open its receiving side; one that copies if there is no address space for an arena that the sender has."""
    try:
        return None if arena is None else arena.open_receiver()
    except OSError as exc:
        if not isinstance(arena, Arena) or not lacks_memory(exc):
            raise
        return arena.open_reader()


def _make_arena(limit: int, kind: type[Arena] = Arena) -> Arena | None:
    """Make an arena; ``None`` if there is not enough memory or address space."""
    try:
        return kind(limit) if limit else None
    except OSError as exc:
        if not lacks_memory(exc):
            raise
        return None


class _SharedArena(Arena):
    """An arena for both ends of a connection in one process: it closes with the second end."""

    _num_holders = 1  # after unpickling

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._num_holders = 2

    def close(self) -> None:
        self._num_holders -= 1
        if self._num_holders == 0:
            super().close()


def link_ends(limit: int | None = None) -> tuple[LinkEnd, LinkEnd]:
    """Make a connection between two other processes: one end for each.

    Args:
        limit: As for ``link_pair``.

    Returns:
        Both ends. Close each as soon as it is sent: a process forked later would hold a copy, and the other end would
        not see the end of the stream.
    """
    if limit is None:
        limit = default_limit()
    forth, back = _make_arena(limit, _SharedArena), _make_arena(limit, _SharedArena)
    one, other = socket.socketpair()
    return LinkEnd(one, forth, back), LinkEnd(other, back, forth)


def link_pair(
    limit: int | None = None, *, inbound_only: bool = False, arena: Any = None, has_rings: bool = False
) -> tuple[Link, LinkEnd]:
    """Make a new connection.

    Args:
        limit: Most bytes of shared memory in each direction; 0: none; ``None``: chosen from the machine's memory.
            Without enough memory or address space, everything goes through the socket.
        inbound_only: Use shared memory only for what the other end sends.
        arena: An explicit arena for what the other end sends, instead of the automatic one: an object with
            ``open_sender`` and ``open_receiver``. Its owner closes it.
        has_rings: Send small frames through shared memory too, unless ``limit`` is 0. Code that waits for the
            descriptor of such a link instead of calling ``recv`` must use ``try_recv``, because there are spurious
            wake-ups.

    Returns:
        This process's end, and the end for the other process.

    Raises:
        OSError: There are no descriptors left.
    """
    if limit is None:
        limit = default_limit()
    inbound = arena if arena is not None else _make_arena(limit)
    outbound = None if inbound_only else _make_arena(limit)
    store = _open_sender(outbound)
    receiver = _open_receiver(inbound)
    rings, far_rings = (make_rings() if has_rings and limit else None) or (None, None)
    try:
        here, there = socket.socketpair()  # last: no user code runs after it
    except BaseException:
        if far_rings is not None:
            far_rings.close()
        raise
    return Link(_Socket.taking(here), store, receiver, rings), LinkEnd(there, inbound, outbound, far_rings)


# -- to a running process, over a Unix socket

#: Bytes of data, number of descriptors.
_HEADER: Final = struct.Struct("<IB")
#: An end has a socket, two arenas with a bell each, and two rings.
_MOST_DESCRIPTORS: Final = 16


class _Arrived(threading.local):
    """The descriptors that have come to this thread with a pickle."""

    descriptors: tuple[int, ...] = ()


_arrived = _Arrived()


class _Passed:
    """A descriptor in a pickle, instead of ``multiprocessing``'s ``DupFd``: its number among those that go with it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """Return the descriptor, which the caller owns."""
        return _arrived.descriptors[self._number]


class _Passing:
    """Collects descriptors while an object is pickled, as the ``Popen`` of a start method does."""

    DupFd = _Passed

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        self.descriptors.append(fd)
        return len(self.descriptors) - 1


def dump_passing(obj: Any) -> tuple[bytes, list[int]]:
    """Pickle what pickles only as an argument of a new process, for one that runs. Return the descriptors to send, too.

    Raises:
        Exception: What pickling raises.
    """
    passing, stream = _Passing(), io.BytesIO()
    context.set_spawning_popen(passing)  # type: ignore[arg-type]  # it has the needed interface
    try:
        reduction.dump(obj, stream)
    finally:
        context.set_spawning_popen(None)
    return stream.getvalue(), passing.descriptors


def load_passed(data: bytes, descriptors: Iterable[int]) -> Any:
    """Unpickle it in the thread that will use it: pickles inside of it may be loaded later."""
    _arrived.descriptors = tuple(descriptors)
    return pickle.loads(data)


def send_end(sock: socket.socket, end: LinkEnd) -> None:
    """Send ``end``, which stays open here.

    Raises:
        OSError: The other side is gone.
    """
    data, descriptors = dump_passing(end)
    socket.send_fds(sock, [_HEADER.pack(len(data), len(descriptors))], descriptors)
    sock.sendall(data)


def receive_end(sock: socket.socket) -> LinkEnd:
    """Receive an end. This unpickles data: use it only with a trusted process.

    Raises:
        OSError: It did not arrive completely, for example for lack of descriptors.
    """
    header, descriptors, _, _ = socket.recv_fds(sock, _HEADER.size, _MOST_DESCRIPTORS)
    try:
        for each in descriptors:
            os.set_inheritable(each, False)
        if len(header) < _HEADER.size:
            raise ConnectionAbortedError("the other side has closed the connection instead of passing an end")
        size, num_descriptors = _HEADER.unpack(header)
        if len(descriptors) != num_descriptors:
            raise OSError(f"{len(descriptors)} of {num_descriptors} descriptors arrived")
        data = b""
        while len(data) < size:
            part = sock.recv(size - len(data))
            if not part:
                raise ConnectionAbortedError("the other side has closed the connection while passing an end")
            data += part
        end: LinkEnd = load_passed(data, descriptors)
    except BaseException:
        for each in descriptors:
            os.close(each)
        raise
    return end
