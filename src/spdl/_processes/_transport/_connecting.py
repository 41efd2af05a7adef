"""Making connections: between this process and another one, or between two others."""

from __future__ import annotations

import socket
from typing import Any

from ._arena import Arena, default_limit, lacks_memory
from ._link import Link
from ._rings import RingEnds, make_rings

__all__ = ["LinkEnd", "link_ends", "link_pair"]


class _Socket(socket.socket):
    """Closes in silence when it is collected.

    The owner of a link that is dropped closes it. In a reference cycle (an exception, its traceback, the frame with
    the loader) the collector calls the finalizers of owner and socket in an order of its own; where the socket's was
    first it warned of a socket that nobody had closed.
    """

    __slots__ = ()

    @classmethod
    def taking(cls, sock: socket.socket) -> _Socket:
        """Take over what another object has open."""
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
        """In the process that is to use it; once."""
        store = _open_sender(self._sending)
        receiver = _open_receiver(self._receiving)
        rings = None if self._rings is None else self._rings.open()
        return Link(_Socket.taking(self._socket), store, receiver, rings)

    def close(self) -> None:
        """Let go of it in a process that does not use it. Idempotent."""
        self._socket.close()
        arenas, self._sending, self._receiving = (self._sending, self._receiving), None, None
        for arena in arenas:
            if isinstance(arena, Arena):
                arena.close()
        if self._rings is not None:
            self._rings.close()


def _open_sender(arena: Any) -> Any:
    """Its sending side; ``None``, and all goes through the socket, where there is no address space for it."""
    try:
        return None if arena is None else arena.open_sender()
    except OSError as exc:
        if not isinstance(arena, Arena) or not lacks_memory(exc):
            raise
        return None


def _open_receiver(arena: Any) -> Any:
    """Its receiving side; one that copies, where there is no address space for the arena: the sender has it."""
    try:
        return None if arena is None else arena.open_receiver()
    except OSError as exc:
        if not isinstance(arena, Arena) or not lacks_memory(exc):
            raise
        return arena.open_reader()


def _make_arena(limit: int, kind: type[Arena] = Arena) -> Arena | None:
    """An arena; ``None`` where there is no memory, or no address space, for one."""
    try:
        return kind(limit) if limit else None
    except OSError as exc:
        if not lacks_memory(exc):
            raise
        return None


class _SharedArena(Arena):
    """An arena of both ends of a connection, as long as one process has both: it closes with the second of them."""

    _num_holders = 1  # where it arrives

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._num_holders = 2

    def close(self) -> None:
        self._num_holders -= 1
        if self._num_holders == 0:
            super().close()


def link_ends(limit: int | None = None) -> tuple[LinkEnd, LinkEnd]:
    """A connection between two other processes: an end for each.

    Args:
        limit: As for ``link_pair``.

    Returns:
        Both ends, to be sent and closed. Each is closed as soon as it was sent: a process that is forked later would
        hold a copy, and the other end not see the end of the stream.
    """
    if limit is None:
        limit = default_limit()
    forth, back = _make_arena(limit, _SharedArena), _make_arena(limit, _SharedArena)
    one, other = socket.socketpair()
    return LinkEnd(one, forth, back), LinkEnd(other, back, forth)


def link_pair(
    limit: int | None = None, *, inbound_only: bool = False, arena: Any = None, has_rings: bool = False
) -> tuple[Link, LinkEnd]:
    """Both ends of a new connection.

    Args:
        limit: Most bytes of shared memory in each direction; 0: none; ``None``: chosen from the machine's memory. Where
            there is no memory, or no address space, for it, everything goes through the socket.
        inbound_only: Only what the other end sends may use shared memory.
        arena: An explicit arena for what the other end sends, in place of the automatic one: an object with
            ``open_sender`` and ``open_receiver``. Its owner closes it.
        has_rings: Small frames go through shared memory, too, unless ``limit`` is 0. Whoever waits for the descriptor
            of such a link, and not in ``recv``, must take what ``try_recv`` gives: it also wakes for nothing.

    Returns:
        This process's end, and the one for the other process.

    Raises:
        OSError: There are no descriptors to be had.
    """
    if limit is None:
        limit = default_limit()
    inbound = arena if arena is not None else _make_arena(limit)
    outbound = None if inbound_only else _make_arena(limit)
    store = _open_sender(outbound)
    receiver = _open_receiver(inbound)
    rings, far_rings = (make_rings() if has_rings and limit else None) or (None, None)
    try:
        here, there = socket.socketpair()  # last: nothing that the user has a part in comes after it
    except BaseException:
        if far_rings is not None:
            far_rings.close()
        raise
    return Link(_Socket.taking(here), store, receiver, rings), LinkEnd(there, inbound, outbound, far_rings)
