"""Iterating in a child: what runs in the process that ``iterate_in_subprocess`` starts.

The main thread iterates, takes each item apart at once (so a source may reuse its buffer), and reads commands between
items. A second thread writes: all that has gathered since its last write goes in one, so small items cross by the
hundred and slow ones at once. An item that comes after a pause is written by the main thread itself, which spares it
the change of threads.
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
#: After a pause of so many seconds an item is written by the thread that made it.
_PAUSE: Final = 0.001
#: If it is small enough for the socket to take it at once.
_AT_ONCE: Final = 1 << 14


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
                while self._credits <= 0 or self._has_command():
                    self._take_command()
                    if self._wanted != number:
                        return
                looked = monotonic()
            try:
                item = next(iterator)
            except StopIteration:
                put(FromIterator.END, number, link.encode(NOTHING))
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
        return _Broken()

    def _has_command(self) -> bool:
        return self._link.has_frame() or (self._poll is not None and bool(self._poll.poll(0)))

    def _take_command(self) -> None:
        """Wait for one. Raises ``EOFError``."""
        frame = self._link.recv()
        if frame.kind == ToIterator.START:
            self._wanted = frame.number
            self._credits = frame.load() or float("inf")
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
    """Frames on their way to the parent, in order. Used by the main thread; its own thread writes what has gathered."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._written = 0.0  # when the main thread last put something
        self._changed = threading.Condition(threading.Lock())
        self._pending: list[tuple[int, int, Encoded]] = []  # under the lock
        self._is_writing = False  # under the lock: order would be lost if both wrote
        self._thread: threading.Thread | None = None  # made when it is needed

    def put(self, kind: int, number: int, encoded: Encoded) -> None:
        """Have a frame sent. Does not wait for the parent."""
        now = monotonic()
        is_prompt = now - self._written > _PAUSE
        self._written = now
        with self._changed:
            if not is_prompt or self._pending or self._is_writing or encoded.num_bytes > _AT_ONCE:
                self._pending.append((kind, number, encoded))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="spdl-sender", daemon=True)
                    self._thread.start()
                elif len(self._pending) == 1:
                    self._changed.notify()
                return
        self._link.send_encoded([(kind, number, encoded)])

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                while not self._pending:
                    self._changed.wait()
                frames, self._pending = self._pending, []
                self._is_writing = True
            try:
                self._link.send_encoded(frames)
            except OSError:  # the parent is gone, which the main thread will see too
                return
            del frames
