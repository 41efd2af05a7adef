"""Iterating in a child: what runs in the process that ``iterate_in_subprocess`` starts.

The main thread iterates, takes each item apart at once (so a source may reuse its buffer), and reads commands between
items. Items that come one by one are written at once; in a rush they gather, so small items cross by the hundred.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any, Final

from spdl.pipeline._transport import NOTHING, Encoded, Link

from ._protocol import FromIterator, ToIterator
from ._remote_errors import RemoteFailure

__all__ = ["run"]

#: Commands are looked for so often at least, in seconds, while items are made: a system call costs as much as an item.
_LOOK_INTERVAL: Final = 0.001
#: After a pause of so many seconds a rush is over.
_PAUSE: Final = 0.001
#: So many items without a pause make one. Fewer gain nothing from gathering.
_RUSH: Final = 32
#: In a rush an item waits for others so many seconds at most.
_GATHER: Final = 0.002
#: Bytes that a socket takes without waiting for the other side, if it can be written to at all.
_AT_ONCE: Final = 1 << 16


def run(link: Link, fn: Callable[[], Iterable[Any]], initializers: Sequence[Callable[[], object]]) -> None:
    """Body of the child: make the iterable, and iterate it as often as is asked, until the parent is gone."""
    sender = _Sender(link)
    attempt = "Initializer failed"
    try:
        for initializer in initializers:
            initializer()
        attempt = "Failed to create the iterable"
        iterable = fn()
    except BaseException as exc:  # noqa: BLE001 - told to the parent, which decides
        sender.put(FromIterator.BROKEN, 0, link.encode((attempt, RemoteFailure.of(exc))))
        _wait_for_end(link)
        return
    sender.put(FromIterator.READY, 0, link.encode(NOTHING))
    worker = _Worker(link, sender, iterable)
    try:
        worker.serve()
    except EOFError:
        pass
    except BrokenPipeError:  # an item was on its way
        pass
    finally:
        _close(iterable)


def _wait_for_end(link: Link) -> None:
    """Until the parent, having read the last message, lets go of this process."""
    try:
        while True:
            link.recv().discard()
    except EOFError:
        pass


class _Broken(Exception):
    """The iteration failed, and the parent has been told."""


class _Worker:
    """The main thread's side: commands and iterations."""

    def __init__(self, link: Link, sender: _Sender, iterable: Iterable[Any]) -> None:
        self._link = link
        self._sender = sender
        self._iterable = iterable
        self._wanted = 0  # number of the iteration asked for last
        self._credits: float = 0  # how many more items of it may be sent
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(link.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Raises ``EOFError`` when the parent is gone."""
        done = 0
        while True:
            while self._wanted == done:
                self._take_command()
            done = self._wanted
            try:
                self._iterate(done)
            except _Broken:
                _wait_for_end(self._link)
                return

    def _iterate(self, number: int) -> None:
        reset = getattr(self._link.store, "reset", None)
        if reset is not None:  # an arena that begins anew, when the parent has seen the last of what is in it
            self._sender.put(FromIterator.STARTED, number, self._link.encode(NOTHING))
            self._sender.flush()
            while self._credits <= 0:
                self._take_command()
                if self._wanted != number:
                    return
            reset()
        iterator = self._try("Failed to create the iterator", iter, self._iterable)
        try:
            self._send_items(number, iterator)
        finally:
            if iterator is not self._iterable:  # a generator's rest belongs to the next iteration
                _close(iterator)

    def _send_items(self, number: int, iterator: Iterator[Any]) -> None:
        attempt = "Failed to fetch the next item"
        link, put = self._link, self._sender.put
        looked = monotonic()
        while True:
            if self._credits <= 0 or monotonic() - looked > _LOOK_INTERVAL:
                self._sender.flush()
                while self._credits <= 0 or self._has_command():
                    self._take_command()
                    if self._wanted != number:
                        return
                looked = monotonic()
            try:
                item = next(iterator)
            except StopIteration:
                put(FromIterator.END, number, link.encode(NOTHING))
                self._sender.flush()
                return
            except BaseException as exc:
                raise self._tell(attempt, exc) from exc
            encoded = self._try(attempt, _take_apart, link, item)
            del item  # not while waiting for the next one
            put(FromIterator.ITEM, number, encoded)
            self._credits -= 1

    def _try(self, attempt: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except BaseException as exc:
            raise self._tell(attempt, exc) from exc

    def _tell(self, attempt: str, exc: BaseException) -> _Broken:
        payload = attempt, RemoteFailure.of(exc)
        self._sender.put(FromIterator.BROKEN, self._wanted, self._link.encode(payload))
        self._sender.flush()
        return _Broken()

    def _has_command(self) -> bool:
        return self._link.has_frame() or (self._poll is not None and bool(self._poll.poll(0)))

    def _take_command(self) -> None:
        """Wait for one. Raises ``EOFError``."""
        frame = self._link.recv()
        if frame.kind == ToIterator.START:
            self._wanted = frame.number
            self._credits = frame.load()
        elif frame.kind == ToIterator.CREDIT and frame.number == self._wanted:
            self._credits += frame.load()


def _take_apart(link: Link, item: Any) -> Encoded:
    """Encode ``item`` such that it may change afterwards."""
    encoded = link.encode(item)
    if encoded.buffers:  # not in shared memory: they refer to the item's own
        encoded.buffers = [each if type(each) is bytes else _copy(each) for each in encoded.buffers]
    return encoded


def _copy(buffer: Any) -> bytes:
    with memoryview(buffer) as view:
        return view.tobytes("A")  # in the order of memory, be it C or Fortran


def _close(iterator: object) -> None:
    """End a generator, or whatever else can be closed."""
    close = getattr(iterator, "close", None)
    if not callable(close) or isinstance(iterator, type):
        return
    try:
        close()
    except Exception:
        logging.getLogger("spdl.pipeline").warning("closing %r failed", type(iterator).__name__, exc_info=True)


class _Sender:
    """Frames on their way to the parent, in order.

    The main thread puts them and, as long as they come one by one, writes each before user code runs again: what was
    made before a process dies arrives. In a rush of items they gather, and are written when the main thread has to
    wait, or by a second thread after ``_GATHER`` seconds. That thread also writes what the socket may not take at once.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._last = 0.0  # when the main thread last put something
        self._num_quick = 0  # puts since the last pause
        self._writable = select.poll() if hasattr(select, "poll") else None
        if self._writable is not None:
            self._writable.register(link.fileno(), select.POLLOUT)
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None  # made when it is needed
        # Under the lock:
        self._pending: list[tuple[int, int, Encoded]] = []
        self._num_bytes = 0  # in them
        self._is_urgent = False  # the thread is to write now
        self._is_waiting = False  # the thread waits for something to do
        self._is_writing = False  # the thread writes: order would be lost if both did

    def put(self, kind: int, number: int, encoded: Encoded) -> None:
        """Have a frame sent, soon."""
        now = monotonic()
        self._num_quick = self._num_quick + 1 if now - self._last < _PAUSE else 0
        self._last = now
        with self._changed:
            self._pending.append((kind, number, encoded))
            self._num_bytes += encoded.num_bytes if encoded.buffers else len(encoded.head)
            if self._num_quick > _RUSH:
                self._wake(urgently=self._num_bytes > _AT_ONCE)
                return
        self.flush()

    def flush(self) -> None:
        """Have all frames sent now. Does not wait for the parent."""
        with self._changed:
            if self._is_writing or not self._pending:
                return
            if self._num_bytes > _AT_ONCE or (self._writable is not None and not self._writable.poll(0)):
                self._wake(urgently=True)
                return
            frames, self._pending, self._num_bytes = self._pending, [], 0
        # Only this thread puts, so the other one finds nothing to write meanwhile.
        self._link.send_encoded(frames)

    def _wake(self, *, urgently: bool) -> None:
        """Have the second thread look at what is pending."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="spdl-sender", daemon=True)
            self._thread.start()
        if self._is_waiting or (urgently and not self._is_urgent):
            self._is_waiting = False
            self._is_urgent = urgently
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                while not self._pending:
                    self._is_urgent, self._is_waiting = False, True
                    self._changed.wait()
                if not self._is_urgent:
                    self._changed.wait(_GATHER)
                frames, self._pending, self._num_bytes = self._pending, [], 0
                self._is_urgent, self._is_writing = False, True
            try:
                self._link.send_encoded(frames)
            except OSError:  # the parent is gone, which the main thread will see too
                return
            del frames
