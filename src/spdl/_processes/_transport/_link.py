"""``Link``: one end of a two-way connection between two processes.

A message is a *frame*: a kind and a number, which both sides read without unpickling anything, and a payload. On the
wire: a header, the places of the payload's buffers, its head, and the buffers themselves if no store has taken them.
Many frames go in one write, so that small items cost a fraction of a system call.

One thread may receive; any number may send. Nothing here waits for a condition of the other side, except that a write
blocks while the socket is full, or as much as is allowed waits to be written in the background: each side has somebody
who always reads.
"""

from __future__ import annotations

import marshal
import os
import pickle
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from spdl._processes._memory import Writer

from ._custom import CustomStore
from ._pickling import NOTHING, Encoded, Encoder, Form, contained, decode
from ._stores import Receiver, Store
from ._waiting import wait_readable

__all__ = ["Frame", "Link"]

#: Kind, form, flags; number of persistent buffers, or a count; number; bytes of the places; bytes of the head.
_HEADER: Final = struct.Struct("<BBHIQQQ")
_INLINE: Final = 1  # flag: the buffers follow the head
# As plain numbers: small items are many, and members of an enum take longer to compare.
_RAW: Final = int(Form.RAW)
_PICKLE: Final = int(Form.PICKLE)
#: Below what malloc maps anew for each: a receive of 128 KiB took 28 us where measured, one of 64 KiB 5.
_RECEIVE_AT_ONCE: Final = 1 << 16
#: Gather writes take at most so many pieces (IOV_MAX is 1024 on Linux and macOS).
_MAX_PIECES: Final = 1000
#: What may wait to be written in the background: a batch or two that found no room in shared memory.
_MAX_PENDING: Final = 1 << 26
#: Frames smaller than this are joined before they are written: a copy is cheaper than a piece.
_SMALL: Final = 1 << 14


def _dump_spans(spans: Any) -> bytes:
    try:
        return marshal.dumps(spans)  # half of what pickle takes for numbers, and these go with every batch
    except ValueError:
        return pickle.dumps(spans, 5)


def _load_spans(data: bytes) -> Any:
    return (pickle if data[:1] == pickle.PROTO else marshal).loads(data)


class Frame:
    """A message that has arrived. Its payload is put together by ``load``, once, or given back by ``discard``."""

    __slots__ = ("_form", "_head", "_link", "_num_deep", "_places", "kind", "number")

    def __init__(self, link: Link, kind: int, number: int, form: int, head: bytes, num_deep: int, places: Any) -> None:
        self.kind = kind
        self.number = number
        self._link: Link | None = link
        self._form = form
        self._head = head
        self._num_deep = num_deep
        self._places = places  # a list of buffers, or spans for the receiver as bytes

    @property
    def count(self) -> int:
        """What ``Link.signal`` was given."""
        return self._num_deep

    def load(self) -> Any:
        """The payload; ``NOTHING`` if the frame has none. What is large in it is a view of shared memory.

        Raises:
            Exception: What unpickling raises; what is no ``Exception`` as the cause of a ``RuntimeError``, except for
                Ctrl-C.
        """
        link, self._link = self._link, None
        assert link is not None, "a frame is loaded or discarded once"
        places = self._places
        try:
            if places is None:
                form = self._form
                if form == _RAW:
                    return self._head
                if form == _PICKLE:
                    return pickle.loads(self._head)
                buffers: list[Any] = []
            elif type(places) is bytes:
                buffers = link._get(_load_spans(places))
            else:
                buffers = places
            self._places = None
            as_views = link.receiver is not None and link.receiver.bytes_as_views
            return decode(Form(self._form), self._head, buffers, self._num_deep, bytes_as_views=as_views)
        except BaseException as exc:
            error = contained(exc, "unpickling")
            if error is exc:
                raise
            raise error from exc

    def discard(self) -> None:
        """Give the payload's memory back unseen. Idempotent; nothing after ``load``."""
        link, self._link = self._link, None
        places, self._places = self._places, None
        if link is not None and type(places) is bytes:
            link._drop(_load_spans(places))


class Link:
    """Made by ``link_pair``, or by ``LinkEnd.open`` in the other process.

    Args:
        sock: This end.
        store: Takes the buffers of what is sent; ``None``: they go through the socket.
        receiver: Gives the buffers of what is received.
    """

    def __init__(self, sock: socket.socket, store: Store | None, receiver: Receiver | None) -> None:
        self._socket = sock
        self.store = store
        self.receiver = receiver
        self._encoder = Encoder(thorough=isinstance(store, CustomStore))
        self._put_lock = threading.Lock()
        self._get_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._frames: deque[Frame] = deque()
        self._data = b""  # received, and not yet a whole frame
        self._chunks: list[bytes] = []  # the same, after _data
        self._num_received = 0  # bytes in _data and _chunks
        self._num_needed = _HEADER.size  # so many must be there before it is worth looking again
        self._is_closed = False
        self._writer: Writer | None = None
        _forget_in_forked_children(self)

    @property
    def sender(self) -> Any:
        """The store, if it is one in which memory can be had before it is sent."""
        return self.store if hasattr(self.store, "slot") else None

    # -- sending

    def encode(self, payload: Any) -> Encoded:
        """Take ``payload`` apart and put its buffers in the store. Give it to ``send_encoded``, or to ``discard``.

        Raises:
            Exception: What pickling raises, as ``Frame.load`` does; what the store raises (``BufferError``).
        """
        try:
            encoded = self._encoder.encode(payload)
        except BaseException as exc:
            error = contained(exc, "pickling")
            if error is exc:
                raise
            raise error from exc
        if encoded.buffers and self.store is not None:
            with self._put_lock:
                encoded.spans = self.store.put(encoded.buffers)
            if encoded.spans is not None:
                encoded.buffers = ()
        return encoded

    def discard(self, encoded: Encoded) -> None:
        """Give back the memory of what will not be sent."""
        spans, encoded.spans, encoded.buffers = encoded.spans, None, ()
        if spans is not None and self.store is not None:
            with self._put_lock:
                self.store.take_back(spans)

    def send(self, kind: int, number: int = 0, payload: Any = NOTHING) -> None:
        """Send one frame.

        Raises:
            OSError: The other end is gone.
            Exception: What pickling raises; then nothing was written.
        """
        self.send_encoded([(kind, number, self.encode(payload))])

    def write_in_background(self, max_bytes_pending: int | None = _MAX_PENDING) -> None:
        """From now on, sending does not wait for the GIL once begun, and hardly for the other end: see ``Writer``.

        Args:
            max_bytes_pending: While more than that is not written yet, sending waits for the other end to read.
                ``None``: it never does, as what is sent is limited otherwise.
        """
        self._writer = Writer(self._socket.fileno(), max_bytes_pending)

    def drain(self, timeout: float) -> bool:
        """Wait, at most ``timeout`` seconds, until all that was sent has been written. True if it has."""
        return self._writer is None or self._writer.drain(timeout)

    def signal(self, kind: int, number: int, count: int) -> None:
        """Send a frame without payload that carries a count, below 2**32: the cheapest message there is.

        Raises:
            OSError: The other end is gone.
        """
        data = _HEADER.pack(kind, Form.NOTHING, 0, count, number, 0, 0)
        if self._writer is not None:
            self._writer.put((data,), True)
            return
        with self._send_lock:
            self._socket.sendall(data)

    def send_bytes_soon(self, kind: int, number: int, payload: bytes) -> None:
        """The same as encoding and sending ``payload``, less than ``LARGE`` bytes, written in the background."""
        assert self._writer is not None
        self._writer.put((_HEADER.pack(kind, _RAW, 0, 0, number, 0, len(payload)), payload))

    def send_soon(self, kind: int, number: int, encoded: Encoded, *, urgent: bool) -> None:
        """``send_encoded`` of one frame, written in the background: at a third of the cost if it is small."""
        head = encoded.head
        if self._writer is None or encoded.spans is not None or encoded.buffers:
            self.send_encoded([(kind, number, encoded)], urgent=urgent)
            return
        self._writer.put((_HEADER.pack(kind, encoded.form, 0, 0, number, 0, len(head)), head), urgent)

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]], *, urgent: bool = True) -> None:
        """Send frames, as few writes as possible. Blocks while the socket is full, unless written in the background.

        Args:
            frames: Kind, number and payload of each.
            urgent: Somebody waits for them: do not gather more, where writing is in the background.

        Raises:
            OSError: The other end is gone. What had not been sent is lost with it.
        """
        pieces: list[Any] = []
        small: list[bytes] = []
        num_small = 0
        for kind, number, encoded in frames:
            head = encoded.head
            if encoded.spans is not None:
                places, flags = _dump_spans(encoded.spans), 0
            elif encoded.buffers:
                raws = [pickle.PickleBuffer(each).raw() for each in encoded.buffers]
                places, flags = struct.pack(f"<{len(raws)}Q", *(raw.nbytes for raw in raws)), _INLINE
            else:
                places, flags = b"", 0
            header = _HEADER.pack(kind, encoded.form, flags, encoded.num_deep, number, len(places), len(head))
            small.append(header)
            if places:
                small.append(places)
            if len(head) <= _SMALL:
                small.append(head)
                num_small += len(head)
            else:
                pieces += [b"".join(small), head]
                small, num_small = [], 0
            if flags & _INLINE:
                pieces += [b"".join(small), *raws]
                small, num_small = [], 0
            elif num_small > _SMALL:
                pieces.append(b"".join(small))
                small, num_small = [], 0
        if small:
            pieces.append(b"".join(small))
        if self._writer is not None:
            self._writer.put(pieces, urgent)
            return
        with self._send_lock:
            self._write(pieces)

    def _write(self, pieces: list[Any]) -> None:
        sock = self._socket
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
                pieces[first] = memoryview(pieces[first]).cast("B")[num_sent:]

    # -- receiving

    def fileno(self) -> int:
        """The descriptor to wait for; -1 when closed. Only if ``has_frame`` says no."""
        return self._socket.fileno()

    def next_of(self, kind: int, number: int) -> Frame | None:
        """The next frame, if it is already here, and of this kind and number."""
        frames = self._frames
        if frames:
            frame = frames[0]
            if frame.kind == kind and frame.number == number:
                return frames.popleft()
        return None

    def next_frame(self) -> Frame | None:
        """A frame that is already here, or ``None``."""
        return self._frames.popleft() if self._frames else None

    def put_back(self, frames: Iterable[Frame]) -> None:
        """Let these frames, which were received, be the next ones, in this order."""
        self._frames.extendleft(reversed(list(frames)))

    def has_frame(self) -> bool:
        """A whole frame is here: ``recv`` will not wait."""
        return bool(self._frames)

    def recv(self, timeout: float | None = None) -> Frame:
        """The next frame.

        Args:
            timeout: Seconds to wait; 0: take what is there; ``None``: for ever.

        Raises:
            EOFError: The other end is gone, or this one was closed.
            TimeoutError: No whole frame came in time; what came is kept.
        """
        if self._frames:
            return self._frames.popleft()
        deadline = None if timeout is None else monotonic() + timeout
        while not self._frames:
            if deadline is not None and not self._wait(deadline - monotonic()):
                raise TimeoutError(f"no message within {timeout} s")
            self._receive()
        return self._frames.popleft()

    def _wait(self, seconds: float) -> bool:
        try:
            return bool(wait_readable([self._socket.fileno()], max(0.0, seconds)))
        except ValueError as exc:  # closed by another thread
            raise EOFError from exc

    def _receive(self) -> None:
        try:
            chunk = self._socket.recv(_RECEIVE_AT_ONCE)
        except OSError as exc:
            raise EOFError from exc
        if not chunk:
            raise EOFError
        self._chunks.append(chunk)
        self._num_received += len(chunk)
        if self._num_received >= self._num_needed:
            data = b"".join([self._data, *self._chunks]) if self._data or len(self._chunks) > 1 else chunk
            self._chunks.clear()
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Cut ``data`` into frames; keep the rest."""
        position, end = 0, len(data)
        unpack, header_size = _HEADER.unpack_from, _HEADER.size
        needed = header_size
        while end - position >= header_size:
            kind, form, flags, num_deep, number, num_places, num_head = unpack(data, position)
            at = position + header_size
            needed = header_size + num_places + num_head
            if end - position < needed:
                break
            if not num_places:
                self._frames.append(Frame(self, kind, number, form, data[at : at + num_head], num_deep, None))
                position += needed
                continue
            places: Any = data[at : at + num_places]
            at += num_places
            head = data[at : at + num_head]
            if flags & _INLINE:
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
            self._frames.append(Frame(self, kind, number, form, head, num_deep, places))
            position += needed
            needed = header_size
        self._data = data[position:]
        self._num_received = end - position
        self._num_needed = needed if self._num_received >= header_size else header_size

    def _get(self, spans: Any) -> list[Any]:
        assert self.receiver is not None, "the sender has a store and this side no receiver"
        with self._get_lock:
            return self.receiver.get(spans)

    def _drop(self, spans: Any) -> None:
        if self.receiver is not None:
            with self._get_lock:
                self.receiver.drop(spans)

    # -- the end

    def end_sending(self) -> None:
        """Nothing more is sent: the other end comes to the end of the stream, and may go on sending. Cannot block."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end. The other one sees the end of the stream, and whoever receives here gets ``EOFError``.

        Idempotent, from any thread. Objects that were received stay valid. Frames that were not loaded are discarded.
        """
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in it
        self._socket.close()
        while self._frames:
            with suppress(IndexError):
                self._frames.popleft().discard()
        for end in (self.store, self.receiver):
            if (close := getattr(end, "close", None)) is not None:
                close()  # its descriptor: what keeps this object may be an old traceback

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# -- fork

_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _close_all() -> None:
    """In a forked child: an end that stays open there would hide that its process has died."""
    for link in list(_links):
        link._is_closed = True
        link._frames.clear()
        link._writer = None  # it has a duplicate of the descriptor
        with suppress(OSError):
            link._socket.close()
    _links.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


def _forget_in_forked_children(link: Link) -> None:
    _links.add(link)
