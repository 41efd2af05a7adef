"""Rings in shared memory for small frames, one for each direction, before and after opening.

The socket is still used: for large frames, if there is no room, to wake the receiver, and to detect the end of the
other side.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, Final

from spdl._processes._memory import FrameRing

from ._arena import lacks_memory

#: Size of a ring: holds at least 256 small items. It takes memory only as it is used.
_CAPACITY: Final = 1 << 19


class Rings:
    """The rings of one end: ``outbound`` for sending, ``inbound`` for receiving."""

    __slots__ = ("inbound", "outbound")

    def __init__(self, outbound: FrameRing, inbound: FrameRing) -> None:
        self.outbound = outbound
        self.inbound = inbound
        inbound.close_file()
        inbound.open_reader()

    def close(self) -> None:
        """Stop receiving: the other end puts no more. The memory is freed with this object."""
        self.inbound.close_reader()
        self.outbound.close_file()


class RingEnds:
    """The rings of an unopened end. Picklable only as an argument of a process that is being started."""

    def __init__(self, outbound: int, inbound: int) -> None:
        self._descriptors = [outbound, inbound]  # which this object owns

    def open(self) -> Rings | None:
        """Open them once, in the process that uses them. ``None`` if it cannot map them."""
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
        """Release them. Idempotent."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __getstate__(self) -> Any:
        from multiprocessing import context, reduction

        context.assert_spawning(self)
        return [reduction.DupFd(each) for each in self._descriptors]

    def __setstate__(self, state: Sequence[Any]) -> None:
        self._descriptors = [each.detach() for each in state]


def make_rings() -> tuple[Rings, RingEnds] | None:
    """Make rings for both ends of a connection; ``None`` without enough memory or address space.

    Raises:
        OSError: There are no descriptors left.
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
