"""``Frame``: a message in its wire format, and a received message. ``Rings``: shared memory for small frames.

There is a ring for each direction. The socket is still used: for large frames, if there is no room, to wake the
receiver, and to detect the end of the other side.
"""

from __future__ import annotations

import errno
import marshal
import os
import pickle
import struct
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._memory import FrameRing

from ._arena import lacks_memory
from ._pickling import Form, contained, decode

if TYPE_CHECKING:
    from ._connection import Receiver

#: Kind, form, flags; number of persistent buffers, or a count; number; bytes of the places; bytes of the head.
HEADER: Final = struct.Struct("<BBHIQQQ")
INLINE: Final = 1  # flag: the buffers follow the head
# Plain numbers, because enum members take longer to compare, and there are many small items.
RAW: Final = int(Form.RAW)
_PICKLE: Final = int(Form.PICKLE)
#: A byte between two frames that wakes the reader to look at the ring. No frame may have this kind.
BELL: Final = b"\xfe"


def dump_spans(spans: Any) -> bytes:
    try:
        return marshal.dumps(spans)  # half the size of a pickle of numbers, and sent with every batch
    except ValueError:
        return pickle.dumps(spans, 5)


def _load_spans(data: bytes) -> Any:
    return (pickle if data[:1] == pickle.PROTO else marshal).loads(data)


class Inbound:
    """What gives the buffers of received messages, called by one thread at a time."""

    __slots__ = ("_lock", "receiver")

    def __init__(self, receiver: Receiver | None) -> None:
        self.receiver = receiver
        self._lock = threading.Lock()

    def get(self, spans: Any) -> list[Any]:
        assert self.receiver is not None, "the sender has a store and this side no receiver"
        with self._lock:
            return self.receiver.get(spans)

    def drop(self, spans: Any) -> None:
        if self.receiver is not None:
            with self._lock:
                self.receiver.drop(spans)


class Frame:
    """A received message. ``load`` unpickles its payload, once; or ``discard`` frees it."""

    __slots__ = ("_form", "_head", "_inbound", "_num_deep", "_places", "kind", "number")

    def __init__(
        self, inbound: Inbound, kind: int, number: int, form: int, head: bytes, num_deep: int, places: Any
    ) -> None:
        self.kind = kind
        self.number = number
        self._inbound: Inbound | None = inbound
        self._form = form
        self._head = head
        self._num_deep = num_deep
        self._places = places  # a list of buffers, or spans for the receiver as bytes

    @property
    def count(self) -> int:
        """The count that was passed to ``Link.signal``."""
        return self._num_deep

    def load(self) -> Any:
        """Return the payload; ``NOTHING`` if the frame has none. Its large parts are views of shared memory.

        Raises:
            Exception: Any error of unpickling. An error that is not an ``Exception`` becomes the cause of a
                ``RuntimeError``, except for Ctrl-C.
        """
        inbound, self._inbound = self._inbound, None
        assert inbound is not None, "a frame is loaded or discarded once"
        places = self._places
        try:
            if places is None:
                form = self._form
                if form == RAW:
                    return self._head
                if form == _PICKLE:
                    return pickle.loads(self._head)
                buffers: list[Any] = []
            elif type(places) is bytes:
                buffers = inbound.get(_load_spans(places))
            else:
                buffers = places
            self._places = None
            as_views = inbound.receiver is not None and inbound.receiver.bytes_as_views
            return decode(Form(self._form), self._head, buffers, self._num_deep, bytes_as_views=as_views)
        except BaseException as exc:
            if (error := contained(exc, "unpickling")) is exc:
                raise
            raise error from exc

    def discard(self) -> None:
        """Free the payload's memory without loading it. Idempotent; does nothing after ``load``."""
        inbound, self._inbound = self._inbound, None
        places, self._places = self._places, None
        if inbound is not None and type(places) is bytes:
            inbound.drop(_load_spans(places))


def cut(inbound: Inbound, data: bytes, frames: list[Frame]) -> tuple[int, int]:
    """Cut ``data`` into frames. Return where the rest begins, and how many bytes it needs for the next frame."""
    position, end = 0, len(data)
    unpack, header_size = HEADER.unpack_from, HEADER.size
    needed = header_size
    while end - position >= header_size:
        if data[position] == BELL[0]:
            position += 1
            continue
        kind, form, flags, num_deep, number, num_places, num_head = unpack(data, position)
        at = position + header_size
        needed = header_size + num_places + num_head
        if end - position < needed:
            break
        if not num_places:
            frames.append(Frame(inbound, kind, number, form, data[at : at + num_head], num_deep, None))
            position += needed
            needed = header_size
            continue
        places: Any = data[at : at + num_places]
        at += num_places
        head = data[at : at + num_head]
        if flags & INLINE:
            sizes = struct.unpack(f"<{num_places // 8}Q", places)
            needed += sum(sizes)
            if end - position < needed:
                break
            at += num_head
            places = []
            with memoryview(data) as view:
                for size in sizes:
                    places.append(bytearray(view[at : at + size]))
                    at += size
        frames.append(Frame(inbound, kind, number, form, head, num_deep, places))
        position += needed
        needed = header_size
    return position, needed


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
