"""The thread that moves batches ahead of the consumer, and how they are handed over.

Two threads touch an epoch: the mover's (`_work`) and the consumer's (`Ahead`). What passes between them is in
`_Handover`, under its lock. The thread does not know the iterator, so the iterator can be collected while it works.

The hand-over of a batch, in the consumer's thread:

1. The consumer's current stream waits for the event that follows the copies. That is work for the device: the host goes
   on at once.
2. Every tensor is recorded on that stream. Its memory belongs to the mover's stream, and would be written again as
   soon as the tensor is dropped; so, the allocator waits for what the consumer's stream had been given by then.
"""

import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from spdl._reports import add_note, log
from spdl.io._cuda import get_torch
from spdl.io._staging import Moved, Mover, Staging, record_use

__all__ = ["Ahead", "Movers"]

_LOG = logging.getLogger("spdl.dataloader")

T = TypeVar("T")

#: Seconds to wait for the thread at the end: for a loader that is asked for a batch just then.
_JOIN_TIMEOUT = 10.0
#: How many tensors are kept alive of those whose use on a stream torch cannot be told, such as quantized ones.
_NUM_KEPT = 16


class Movers:
    """Movers that are not in use. They are kept between epochs: memory that torch has cached belongs to their stream.

    From any thread.
    """

    def __init__(self) -> None:
        self._free: deque[Mover] = deque()  # deques need no lock

    def take(self, device: Any) -> Mover:
        """One for this device."""
        for _ in range(len(self._free)):
            try:
                mover = self._free.popleft()
            except IndexError:  # somebody else was quicker
                break
            if mover.device == device:
                return mover
            self._free.append(mover)
        torch = get_torch()
        return Mover(torch, device, deque([Staging(torch), Staging(torch)]))

    def give_back(self, mover: Mover) -> None:
        """Let another epoch have it."""
        self._free.append(mover)


class _Handover:
    """What is ready for the consumer. All fields are under ``changed``'s lock, which is reentrant: a collection may end
    an epoch at any moment, in any thread, also in one that holds it."""

    def __init__(self, num_prefetch: int) -> None:
        self.changed = threading.Condition()
        self.num_prefetch = num_prefetch
        self.ready: deque[Moved[Any] | BaseException | None] = deque()  # None: the end
        self.num_wanted = 0  # how often the consumer has asked
        self.num_put = 0
        self.is_stopped = False

    def await_room(self, *, after_failure: bool) -> bool:
        """Wait until another batch may be loaded. After a failure, until the consumer wants it in spite of that.

        Returns:
            False if nobody wants any more.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self.is_stopped
                    or (self.num_wanted > self.num_put if after_failure else len(self.ready) < self.num_prefetch)
                )
            )
            return not self.is_stopped

    def put(self, what: "Moved[Any] | BaseException | None") -> None:
        with self.changed:
            self.num_put += 1
            self.ready.append(what)
            self.changed.notify_all()

    def take(self) -> "Moved[Any] | BaseException | None":
        with self.changed:
            self.num_wanted += 1
            self.changed.notify_all()
            try:
                self.changed.wait_for(lambda: self.ready or self.is_stopped)
            except BaseException:  # Ctrl-C: this call gets nothing
                self.num_wanted -= 1
                raise
            if self.is_stopped:
                return None
            what = self.ready.popleft()
            self.changed.notify_all()
            return what

    def stop(self) -> None:
        with self.changed:
            self.is_stopped = True
            self.ready.clear()
            self.changed.notify_all()


class Ahead(Iterator[T]):
    """One epoch, a few batches ahead.

    Args:
        loader: What to read. ``iter()`` is called here and now.
        movers: Where a mover is from, and given back to.
        device: A ``torch.device`` of type ``"cuda"``, with its index.
        num_prefetch: How many batches to be ahead.
    """

    def __init__(self, loader: Iterable[T], movers: Movers, device: Any, num_prefetch: int) -> None:
        self._handover = _Handover(num_prefetch)
        self._torch: Any = get_torch()
        self._device = device
        self._kept: deque[Any] = deque(maxlen=_NUM_KEPT)
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=_work, args=(iter(loader), self._handover, movers, device), name="spdl-prefetch", daemon=True
        )
        # At the interpreter's exit too: a thread that is inside of torch then would end the process badly.
        self._end = weakref.finalize(self, _end, self._handover, self._thread, self._pid)
        self._thread.start()

    def __next__(self) -> T:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this iterator's thread is in the parent of this process, which was forked since; iterate anew"
            )
        if not self._end.alive:
            raise StopIteration
        what = self._handover.take()
        if what is None:
            self.close()
            raise StopIteration
        if isinstance(what, BaseException):
            try:
                raise what
            finally:
                del what  # or its traceback would hold this frame, and the frame it
        return self._receive(what)

    def close(self) -> None:
        """End the epoch, and wait for its thread."""
        self._end()

    def _receive(self, moved: Moved[T]) -> T:
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(moved.event)
        self._kept.extend(record_use(moved.tensors, stream))
        return moved.batch

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("an iterator over a loader cannot be pickled; pickle the loader")


def _work(batches: Iterator[Any], handover: _Handover, movers: Movers, device: Any) -> None:
    """Body of the thread."""
    mover: Mover | None = None
    has_failed = is_exhausted = False
    try:
        while handover.await_room(after_failure=has_failed):
            has_failed = False
            try:
                batch = next(batches)
            except StopIteration:
                is_exhausted = True
                return
            except BaseException as exc:  # noqa: BLE001 - the consumer gets it
                has_failed = True
                handover.put(exc)
                continue
            try:
                if mover is None:
                    mover = movers.take(device)
                moved = mover.move(batch)
                if moved.is_borrowing:
                    moved.event.synchronize()
                handover.put(moved)
                del moved
            except BaseException as exc:  # noqa: BLE001 - likewise
                add_note(exc, f"while moving a batch to {device}")
                has_failed = True
                handover.put(_not_the_end(exc))
            del batch  # while this waits, the consumer alone decides how long it lives
    finally:
        if mover is not None:
            movers.give_back(mover)
        if not is_exhausted:
            _close(batches)
        handover.put(None)


def _not_the_end(exc: BaseException) -> BaseException:
    """Raised by the iterator, a ``StopIteration`` out of a container that was copied would end the epoch unseen."""
    if not isinstance(exc, StopIteration):
        return exc
    error = RuntimeError("a batch could not be moved: copying a container of it raised StopIteration")
    error.__cause__ = exc
    return error


def _close(batches: Iterator[Any]) -> None:
    close = getattr(batches, "close", None)
    if not callable(close):
        return
    try:
        close()
    except Exception as exc:  # noqa: BLE001 - nobody is there to get it
        log(_LOG, logging.ERROR, "closing the iterator of a loader failed", exc_info=exc)


def _end(handover: _Handover, thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:  # a fork: neither the thread nor, perhaps, the lock's owner is here
        return
    handover.stop()
    if thread is threading.current_thread() or not thread.is_alive():
        return
    thread.join(_JOIN_TIMEOUT)
    if thread.is_alive() and not sys.is_finalizing():
        log(
            _LOG,
            logging.WARNING,
            "a loader has not returned from next() within %g s after its epoch was ended; its thread is left behind",
            _JOIN_TIMEOUT,
        )
