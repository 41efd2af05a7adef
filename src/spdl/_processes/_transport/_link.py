"""``Link``: one end of a two-way connection between two processes.

A message is a *frame*: a kind and a number, which are read without unpickling, and a payload. On the wire: a header,
the places of the payload's buffers, its head, and the buffers themselves if no store has taken them. One write sends
many frames, so a small item costs a fraction of a system call. With rings, small frames go through shared memory,
without a system call unless the other side must be woken (by a byte on the socket).

One thread may receive; any number may send. Nothing here waits for the other side, except that a write blocks while the
socket is full or the limit of pending background writes is reached. So each side must have a thread that always reads.
"""

from __future__ import annotations

import math
import os
import pickle
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from spdl._processes._memory import Writer

from ._connection import Receiver, Store, wait_readable
from ._custom import CustomStore
from ._frame import BELL, HEADER, INLINE, RAW, Frame, Inbound, Rings, cut, dump_spans
from ._pickling import NOTHING, Encoded, Encoder, Form

#: Below the size for which malloc maps memory anew each time: a receive of 128 KiB took 28 us where measured, one of 64
#: KiB took 5 us.
_RECEIVE_AT_ONCE: Final = 1 << 16
#: Results of ``FrameRing.put``.
_REFUSED: Final = 0
_WAKING: Final = 2
#: Gather writes take at most this many pieces (IOV_MAX is 1024 on Linux and macOS).
_MAX_PIECES: Final = 1000
#: Limit of pending background writes: one or two batches that found no room in shared memory.
_MAX_PENDING: Final = 1 << 26
#: Smaller frames are joined before they are written: a copy is cheaper than another piece.
_SMALL: Final = 1 << 14


#: All of this process, to be forgotten in forked children.
_links: weakref.WeakSet[Link] = weakref.WeakSet()


class Link:
    """Created by ``link_pair``, or by ``LinkEnd.open`` in the other process."""

    def __init__(
        self, sock: socket.socket, store: Store | None, receiver: Receiver | None, rings: Rings | None = None
    ) -> None:
        self._socket = sock
        self._rings = rings
        self.store = store
        self._inbound = Inbound(receiver)
        self._encoder = Encoder(thorough=isinstance(store, CustomStore))
        self._put_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._frames: deque[Frame] = deque()
        self._data = b""  # received, but not yet a whole frame
        self._chunks: list[bytes] = []  # the same, after _data
        self._num_received = 0  # bytes in _data and _chunks
        self._num_needed = HEADER.size  # bytes needed before it is worth checking again
        self._is_closed = False
        self._writer: Writer | None = None
        _links.add(self)

    @property
    def receiver(self) -> Receiver | None:
        """What returns the buffers of received messages."""
        return self._inbound.receiver

    @receiver.setter
    def receiver(self, receiver: Receiver | None) -> None:
        self._inbound.receiver = receiver

    @property
    def sender(self) -> Any:
        """The store, if it can provide memory in advance."""
        return self.store if hasattr(self.store, "slot") else None

    # -- sending

    def encode(self, payload: Any) -> Encoded:
        """Encode ``payload`` and put its buffers in the store. Pass the result to ``send_encoded`` or ``discard``.

        Raises:
            Exception: Any error of pickling, handled as in ``Frame.load``; or an error of the store (``BufferError``).
        """
        encoded = self._encoder.encode(payload)
        if encoded.buffers and self.store is not None:
            with self._put_lock:
                encoded.spans = self.store.put(encoded.buffers)
            if encoded.spans is not None:
                encoded.buffers = ()
        return encoded

    def discard(self, encoded: Encoded) -> None:
        """Free the memory of an encoded payload that will not be sent."""
        spans, encoded.spans, encoded.buffers = encoded.spans, None, ()
        if spans is not None and self.store is not None:
            with self._put_lock:
                self.store.take_back(spans)

    def send(self, kind: int, number: int = 0, payload: Any = NOTHING) -> None:
        """Send one frame.

        Raises:
            OSError: The other end is gone.
            Exception: Any error of pickling; then nothing was written.
        """
        self.send_encoded([(kind, number, self.encode(payload))])

    def write_in_background(self, max_bytes_pending: int | None = _MAX_PENDING) -> None:
        """Write in the background from now on: sending needs no GIL once begun, and rarely waits. See ``Writer``.

        Args:
            max_bytes_pending: While more bytes than this are unwritten, sending waits for the other end to read.
                ``None``: never wait, because the amount sent is limited in another way.
        """
        self._writer = Writer(self._socket.fileno(), max_bytes_pending)

    def drain(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until everything sent is written. Return whether it is."""
        return self._writer is None or self._writer.drain(timeout)

    def signal(self, kind: int, number: int, count: int) -> None:
        """Send a frame without payload that carries a count below 2**32: the cheapest message.

        Raises:
            OSError: The other end is gone.
        """
        self._put((HEADER.pack(kind, Form.NOTHING, 0, count, number, 0, 0),), 1, True)

    def send_bytes_soon(self, kind: int, number: int, payload: bytes) -> None:
        """Encode and send ``payload``, of less than ``LARGE`` bytes, in the background."""
        self._put((HEADER.pack(kind, RAW, 0, 0, number, 0, len(payload)), payload), 1, False)

    def send_soon(self, kind: int, number: int, encoded: Encoded, *, urgent: bool) -> None:
        """Send one frame in the background: a third of the cost of ``send_encoded`` if it is small."""
        head = encoded.head
        if self._writer is None or encoded.spans is not None or encoded.buffers:
            self.send_encoded([(kind, number, encoded)], urgent=urgent)
            return
        self._put((HEADER.pack(kind, encoded.form, 0, 0, number, 0, len(head)), head), 1, urgent)

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]], *, urgent: bool = True) -> None:
        """Send frames in few writes. Blocks while the socket is full, unless writing is in the background.

        Args:
            frames: Kind, number and payload of each.
            urgent: The receiver is waiting: if writing is in the background, do not gather more.

        Raises:
            OSError: The other end is gone. Unsent frames are lost.
        """
        pieces: list[Any] = []
        small: list[bytes] = []
        num_small = num_frames = 0
        for kind, number, encoded in frames:
            num_frames += 1
            head = encoded.head
            if encoded.spans is not None:
                places, flags = dump_spans(encoded.spans), 0
            elif encoded.buffers:
                raws = [pickle.PickleBuffer(each).raw() for each in encoded.buffers]
                places, flags = struct.pack(f"<{len(raws)}Q", *(raw.nbytes for raw in raws)), INLINE
            else:
                places, flags = b"", 0
            header = HEADER.pack(kind, encoded.form, flags, encoded.num_deep, number, len(places), len(head))
            small.append(header)
            if places:
                small.append(places)
            if len(head) <= _SMALL:
                small.append(head)
                num_small += len(head)
            else:
                pieces += [b"".join(small), head]
                small, num_small = [], 0
            if flags & INLINE:
                pieces += [b"".join(small), *raws]
                small, num_small = [], 0
            elif num_small > _SMALL:
                pieces.append(b"".join(small))
                small, num_small = [], 0
        if small:
            pieces.append(b"".join(small))
        self._put(pieces, num_frames, urgent)

    def _put(self, pieces: Sequence[Any], num_frames: int, urgent: bool) -> None:
        """Send whole frames: through the ring if they fit, else through the socket."""
        rings = self._rings
        if rings is None:
            self._put_in_socket(pieces, urgent)
        elif (outcome := rings.outbound.put(pieces)) == _REFUSED:
            try:
                self._put_in_socket(pieces, urgent)
            finally:  # if interrupted, it may be partly sent: the other side waits for it, or for the end of the stream
                rings.outbound.count_other(num_frames)
        elif outcome == _WAKING:
            self._ring_bell(urgent)
        elif urgent and self._writer is not None:
            self._writer.put((), True)  # flushes a wake-up byte that the writer holds back

    def _put_in_socket(self, pieces: Sequence[Any], urgent: bool) -> None:
        if self._writer is not None:
            self._writer.put(pieces, urgent)
            return
        with self._send_lock:
            self._write(pieces)

    def _ring_bell(self, urgent: bool) -> None:
        """Wake the other side, which waits or is about to."""
        if self._writer is not None:
            self._writer.put((BELL,), urgent)
            return
        with self._send_lock, suppress(BlockingIOError):  # the socket is full: its content wakes the reader
            self._socket.send(BELL, socket.MSG_DONTWAIT)

    def _write(self, pieces: Sequence[Any]) -> None:
        sock = self._socket
        if not pieces:
            return
        if len(pieces) == 1:
            sock.sendall(pieces[0])
            return
        if not hasattr(sock, "sendmsg"):  # Windows
            for piece in pieces:
                sock.sendall(piece)
            return
        first = 0
        while first < len(pieces):
            num_sent = sock.sendmsg(pieces[first : first + _MAX_PIECES])
            while first < len(pieces) and num_sent >= (size := memoryview(pieces[first]).nbytes):
                num_sent -= size
                first += 1
            if num_sent:
                pieces = [*pieces[:first], memoryview(pieces[first]).cast("B")[num_sent:], *pieces[first + 1 :]]

    # -- receiving

    def fileno(self) -> int:
        """The descriptor to wait for; -1 when closed. Wait only if ``has_frame`` is false."""
        return self._socket.fileno()

    def next_of(self, kind: int, number: int) -> Frame | None:
        """Return the next frame if it is already received and has this kind and number."""
        frames = self._frames
        if not frames and self._rings is not None:
            self._take()
        if frames:
            frame = frames[0]
            if frame.kind == kind and frame.number == number:
                return frames.popleft()
        return None

    def next_frame(self) -> Frame | None:
        """Return a frame that is already received, or ``None``."""
        if not self._frames and self._rings is not None:
            self._take()
        return self._frames.popleft() if self._frames else None

    def put_back(self, frames: Iterable[Frame]) -> None:
        """Put received frames back, to be returned next, in this order."""
        self._frames.extendleft(reversed(list(frames)))

    def has_frame(self) -> bool:
        """Whether a whole frame is available, so ``recv`` will not wait. If not, wait for the descriptor."""
        if self._frames:
            return True
        rings = self._rings
        return rings is not None and rings.inbound.has_message_or_announce()

    def has_received(self) -> bool:
        """The same, but only for frames already read. Cheaper; do not wait because it is false."""
        return bool(self._frames)

    def try_recv(self) -> Frame | None:
        """Return the next frame; ``None`` if no whole frame is available.

        Raises:
            EOFError: As ``recv``.
        """
        frame = self.next_frame()
        if frame is None:
            with suppress(BlockingIOError):
                self._receive(socket.MSG_DONTWAIT)
            frame = self.next_frame()
        return frame

    def spin(self) -> None:
        """Wait for a frame for some microseconds without a system call, if that is likely to help."""
        if self._rings is not None:
            self._rings.inbound.spin()

    def recv(self, timeout: float | None = None) -> Frame:
        """The next frame.

        Args:
            timeout: Seconds to wait; 0: do not wait; ``None``: no limit.

        Raises:
            EOFError: The other end is gone, or this end was closed.
            TimeoutError: No whole frame arrived in time; received bytes are kept.
        """
        if (frame := self.next_frame()) is not None:
            return frame
        deadline = None if timeout is None else monotonic() + timeout
        if timeout != 0:
            self.spin()
        while True:
            if (frame := self.next_frame()) is not None:
                return frame
            if self.has_frame():
                continue
            if deadline is not None and not self._wait(deadline - monotonic()):
                raise TimeoutError(f"no message within {timeout} s")
            self._receive()

    def _wait(self, seconds: float) -> bool:
        try:
            return bool(wait_readable([self._socket.fileno()], max(0.0, seconds)))
        except ValueError as exc:  # closed by another thread
            raise EOFError from exc

    def _receive(self, flags: int = 0) -> None:
        """Read the socket once. Raises ``EOFError``, and with ``MSG_DONTWAIT`` ``BlockingIOError``."""
        try:
            chunk = self._socket.recv(_RECEIVE_AT_ONCE, flags)
        except OSError as exc:
            if flags and isinstance(exc, BlockingIOError):
                raise
            if not self._take():
                raise EOFError from exc
            return
        if not chunk:
            if not self._take():  # frames that were put before the end
                raise EOFError
            return
        self._chunks.append(chunk)
        self._num_received += len(chunk)
        if self._num_received >= self._num_needed:
            data = b"".join([self._data, *self._chunks]) if self._data or len(self._chunks) > 1 else chunk
            self._chunks.clear()
            self._accept(data)

    def _accept(self, data: bytes) -> None:
        """Accept frames from the socket; keep the rest of ``data``."""
        frames: list[Frame] = []
        position, needed = cut(self._inbound, data, frames)
        self._data = data[position:]
        self._num_received = len(data) - position
        self._num_needed = needed if self._num_received >= HEADER.size else HEADER.size
        if self._rings is None:
            self._frames.extend(frames)
            return
        for frame in frames:
            self._take(math.inf)  # frames that were put into the ring before it
            self._frames.append(frame)
            self._rings.inbound.count_other(1)

    def _take(self, enough: float = _RECEIVE_AT_ONCE) -> bool:
        """Take frames from the ring: all, or until there are enough bytes. False if there was none."""
        rings = self._rings
        if rings is None:
            return False
        num_bytes = 0
        while num_bytes < enough and (data := rings.inbound.take(_RECEIVE_AT_ONCE)):
            frames: list[Frame] = []
            cut(self._inbound, data, frames)
            self._frames.extend(frames)
            num_bytes += len(data)
        return num_bytes > 0

    # -- the end

    def end_sending(self) -> None:
        """Stop sending: the other end sees the end of the stream, and may continue sending. Never blocks."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end. The other end sees the end of the stream, and a thread receiving here gets ``EOFError``.

        Idempotent, thread-safe. Received objects stay valid. Frames that were not loaded are discarded.
        """
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in it
        self._socket.close()
        rings, self._rings = self._rings, None
        if rings is not None:
            rings.close()
        while self._frames:
            with suppress(IndexError):
                self._frames.popleft().discard()
        for end in (self.store, self.receiver):
            if (close := getattr(end, "close", None)) is not None:
                close()  # its descriptor: an old traceback may keep this object

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# -- fork


def _close_all() -> None:
    """In a forked child: an end left open there would hide the death of its process."""
    for link in list(_links):
        link._is_closed = True
        link._frames.clear()
        link._writer = None  # it has a duplicate of the descriptor
        link._rings = None  # memory of the parent
        with suppress(OSError):
            link._socket.close()
    _links.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
