"""Small frames through shared memory: a ring for each direction, before and after it is opened.

The socket stays: for what is large or finds no room, to wake who waits, and to see the other side's end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, Final

from spdl._processes._memory import FrameRing

from ._arena import lacks_memory

__all__ = ["RingEnds", "Rings", "make_rings"]

#: Holds 256 small items and more. Memory is taken as it is used.
_CAPACITY: Final = 1 << 19


class Rings:
    """The rings of one end: ``outbound`` to put to, ``inbound`` to take from."""

    __slots__ = ("inbound", "outbound")

    def __init__(self, outbound: FrameRing, inbound: FrameRing) -> None:
        self.outbound = outbound
        self.inbound = inbound
        inbound.close_file()
        inbound.open_reader()

    def close(self) -> None:
        """The other end puts nothing any more. The memory goes with this object."""
        self.inbound.close_reader()
        self.outbound.close_file()


class RingEnds:
    """The rings of an end that is not open yet. Picklable only as an argument of a process that is being started."""

    def __init__(self, outbound: int, inbound: int) -> None:
        self._descriptors = [outbound, inbound]  # which this object owns

    def open(self) -> Rings | None:
        """In the process that uses them, once. ``None``: it may not map them; everything goes through the socket."""
        made: list[FrameRing] = []
        try:
            while self._descriptors:
                made.append(FrameRing.attach(self._descriptors.pop(0)))
        except OSError as exc:
            self.close()
            if not _lacks_memory(exc):
                raise
            return None
        return Rings(*made)

    def close(self) -> None:
        """Let go of them. Idempotent."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __getstate__(self) -> Any:
        from multiprocessing import context, reduction

        context.assert_spawning(self)
        return [reduction.DupFd(each) for each in self._descriptors]

    def __setstate__(self, state: Sequence[Any]) -> None:
        self._descriptors = [each.detach() for each in state]


def make_rings() -> tuple[Rings, RingEnds] | None:
    """Rings for both ends of a connection; ``None`` where there is no memory, or no address space, for them.

    Raises:
        OSError: There are no descriptors to be had.
    """
    taken: list[int] = []
    try:
        forth, back = FrameRing(_CAPACITY), FrameRing(_CAPACITY)
        for each in (back, forth):
            taken.append(os.dup(each.fd))
        return Rings(forth, back), RingEnds(*taken)
    except OSError as exc:
        for fd in taken:
            os.close(fd)
        if not _lacks_memory(exc):
            raise
        return None


def _lacks_memory(error: OSError) -> bool:
    return error.errno == errno.ENOSPC or lacks_memory(error)
