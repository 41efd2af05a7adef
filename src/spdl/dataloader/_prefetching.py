"""The thread that moves batches to a device ahead of the consumer, and the queue between the two.

An epoch has two threads: the prefetching thread (`_work`) and the consumer's (`PrefetchingIterator`). They share
`_Handover`, under its lock. The thread has no reference to the iterator, so the iterator can be collected while the
thread runs.

In the consumer's thread, a batch is handed over in two steps:

1. The consumer's current stream waits for the event recorded after the copies. The device does the waiting; the host
   continues at once.
2. Every tensor is recorded on that stream. Its memory belongs to the mover's stream and would be reused as soon as the
   tensor is dropped; once recorded, the allocator first waits for the work queued on the consumer's stream by then.
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
from spdl.io._devices._cuda import get_torch
from spdl.io._devices._staging import Moved, Mover, Staging, record_use

from ._holding import Holding, hold

_LOG = logging.getLogger("spdl.dataloader")

T = TypeVar("T")

#: Seconds to wait for the thread at the end, which may be in the loader's next().
_JOIN_TIMEOUT = 10.0
#: Number of tensors to keep alive among those that cannot be recorded on a stream, such as quantized ones.
_NUM_KEPT = 16


class Movers:
    """Pool of unused movers. They are kept between epochs because memory that torch caches belongs to their streams.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._free: deque[Mover] = deque()  # deques need no lock

    def take(self, device: Any) -> Mover:
        """Take a mover for this device, a new one if none is free."""
        for _ in range(len(self._free)):
            try:
                mover = self._free.popleft()
            except IndexError:  # another thread took the last one
                break
            if mover.device == device:
                return mover
            self._free.append(mover)
        torch = get_torch()
        return Mover(torch, device, deque([Staging(torch), Staging(torch)]))

    def give_back(self, mover: Mover) -> None:
        """Return a mover for another epoch."""
        self._free.append(mover)


class _Handover:
    """Queue of batches for the consumer. The lock of ``changed`` guards all fields. It is reentrant, because garbage
    collection may end an epoch at any moment, in any thread, even in one that holds the lock."""

    def __init__(self, num_prefetch: int) -> None:
        self.changed = threading.Condition()
        self.num_prefetch = num_prefetch
        #: Batches to return, exceptions to raise, ``None`` at the end; each with the token of the loader's iterator.
        self.ready: deque[tuple[Moved[Any] | BaseException | None, Any]] = deque()
        self.num_wanted = 0  # number of calls of take()
        self.num_put = 0
        self.is_stopped = False

    def await_room(self, *, after_failure: bool) -> bool:
        """Wait until another batch may be loaded. After a failure, wait until the consumer asks for another batch.

        Returns:
            False if the epoch was stopped.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self.is_stopped
                    or (self.num_wanted > self.num_put if after_failure else len(self.ready) < self.num_prefetch)
                )
            )
            return not self.is_stopped

    def put(self, what: "Moved[Any] | BaseException | None", token: Any) -> None:
        with self.changed:
            self.num_put += 1
            self.ready.append((what, token))
            self.changed.notify_all()

    def take(self) -> "tuple[Moved[Any] | BaseException | None, Any]":
        with self.changed:
            self.num_wanted += 1
            self.changed.notify_all()
            try:
                self.changed.wait_for(lambda: self.ready or self.is_stopped)
            except BaseException:  # Ctrl-C: this call does not take a batch
                self.num_wanted -= 1
                raise
            if self.is_stopped:
                return None, None
            taken = self.ready.popleft()
            self.changed.notify_all()
            return taken

    def stop(self) -> None:
        with self.changed:
            self.is_stopped = True
            self.ready.clear()
            self.changed.notify_all()


class PrefetchingIterator(Iterator[T]):
    """Iterator of one epoch that prefetches batches.

    Args:
        loader: Loader to iterate. ``iter()`` is called in the constructor.
        movers: Pool from which a mover is taken, and to which it is returned.
        device: ``torch.device`` of type ``"cuda"`` with an index.
        num_prefetch: Number of batches to prefetch.
    """

    def __init__(self, loader: Iterable[T], movers: Movers, device: Any, num_prefetch: int) -> None:
        self._handover = _Handover(num_prefetch)
        self._torch: Any = get_torch()
        self._device = device
        self._kept: deque[Any] = deque(maxlen=_NUM_KEPT)
        self._pid = os.getpid()
        batches = iter(loader)
        self._holding = hold(batches)
        self._thread = threading.Thread(
            target=_work,
            args=(batches, self._holding, self._handover, movers, device),
            name="spdl-prefetch",
            daemon=True,
        )
        # Also at interpreter exit: a thread that is inside torch then could crash the process.
        self._end = weakref.finalize(self, _end, self._handover, self._thread, self._pid)
        self._thread.start()

    def __next__(self) -> T:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this process was forked after the iterator was made, and its prefetching thread is in the parent; "
                "call iter() again"
            )
        if not self._end.alive:
            raise StopIteration
        what, token = self._handover.take()
        if token is not None and self._holding is not None:
            self._holding.commit(token)
        if what is None:
            self.close()
            raise StopIteration
        if isinstance(what, BaseException):
            try:
                raise what
            finally:
                del what  # otherwise the traceback and this frame would refer to each other
        return self._receive(what)

    def close(self) -> None:
        """End the epoch and wait for its thread."""
        self._end()

    def _receive(self, moved: Moved[T]) -> T:
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(moved.event)
        self._kept.extend(record_use(moved.tensors, stream))
        return moved.batch

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("an iterator over a loader cannot be pickled; pickle the loader")


def _work(batches: Iterator[Any], holding: Holding | None, handover: _Handover, movers: Movers, device: Any) -> None:
    """Run in the prefetching thread until the epoch ends."""
    mover: Mover | None = None
    has_failed = is_exhausted = False

    def token() -> Any:
        return None if holding is None else holding.token()

    try:
        while handover.await_room(after_failure=has_failed):
            has_failed = False
            try:
                batch = next(batches)
            except StopIteration:
                is_exhausted = True
                return
            except BaseException as exc:  # noqa: BLE001 - raised in the consumer
                has_failed = True
                handover.put(exc, token())
                continue
            try:
                if mover is None:
                    mover = movers.take(device)
                moved = mover.move(batch)
                if moved.is_borrowing:
                    moved.event.synchronize()
                handover.put(moved, token())
                del moved
            except BaseException as exc:  # noqa: BLE001 - raised in the consumer
                add_note(exc, f"while moving a batch to {device}")
                has_failed = True
                handover.put(_not_the_end(exc), token())
            del batch  # while this thread waits, only the consumer keeps the batch alive
    finally:
        if mover is not None:
            movers.give_back(mover)
        if not is_exhausted:
            _close(batches)
        handover.put(None, token() if is_exhausted else None)


def _not_the_end(exc: BaseException) -> BaseException:
    """Replace a ``StopIteration`` that was raised while copying a container; it would end the epoch silently."""
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
    except Exception as exc:  # noqa: BLE001 - there is no consumer left to raise it in
        log(_LOG, logging.ERROR, "closing the iterator of a loader failed", exc_info=exc)


def _end(handover: _Handover, thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:  # after a fork, the thread, and perhaps the lock's owner, exists only in the parent
        return
    handover.stop()
    if thread is threading.current_thread() or not thread.is_alive():
        return
    thread.join(_JOIN_TIMEOUT)
    if thread.is_alive() and not sys.is_finalizing():
        log(
            _LOG,
            logging.WARNING,
            "a loader has not returned from next() within %g s after its epoch was ended; its thread is abandoned",
            _JOIN_TIMEOUT,
        )
