"""The child process that ``iterate_in_subprocess`` starts.

The main thread iterates, serializes each item at once (so a source may reuse its buffer), and reads commands between
items. A native thread writes, so that an item is sent even if the next one holds the GIL, and small items are sent by
the hundred.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._calls import Answer, Request, await_end, change_environment_by
from spdl._processes._remote_failure import RemoteFailure
from spdl._processes._transport._link import Link
from spdl._processes._transport._pickling import LARGE
from spdl._reports import log, name_of

if TYPE_CHECKING:
    from spdl._processes._transport._frame import Frame

#: Maximum time in seconds between two checks for commands while items are made. A check, which is a system call, costs
#: as much as an item.
_LOOK_INTERVAL: Final = 0.001


def run(link: Link, fn: Callable[[], Iterable[Any]], initializers: Sequence[Callable[[], object]]) -> None:
    """Body of the child: make the iterable, and iterate it on each request, until the parent is gone."""
    link.write_in_background()
    attempt = "Initializer failed"
    try:
        for initializer in initializers:
            initializer()
        attempt = "Failed to create the iterable"
        iterable = fn()
    except BaseException as exc:  # noqa: BLE001 - reported to the parent, which decides
        link.send(Answer.BROKEN, 0, (attempt, RemoteFailure.of(exc)))
        await_end(link)  # the parent reads the last message, then closes the link
        return
    link.send(Answer.READY)
    worker = _Worker(link, iterable)
    try:
        worker.serve()
    except EOFError:
        pass
    except BrokenPipeError:  # an item was being sent
        pass
    finally:
        _close(iterable)


class _Broken(Exception):
    """The iteration failed, and the parent has been informed."""


class _Worker:
    """The main thread's side: commands and iterations."""

    def __init__(self, link: Link, iterable: Iterable[Any]) -> None:
        self._link = link
        self._iterable = iterable
        self._wanted = 0  # number of the iteration requested last
        self._credits: float = 0  # how many more items of it may be sent
        # A resumable pipeline: see ``ResumableItems``.
        self._resumable: Any = iterable if getattr(iterable, "counts_reads", None) is True else None
        self._num_read = 0  # items of this iteration that were read, according to the parent
        self._holds = self._will_hold = (
            False  # in this iteration and in the next one: whether READ, not CREDIT, gives the number of items read
        )

    def serve(self) -> None:
        """Serve the parent's commands. Raises ``EOFError`` when the parent is gone."""
        done = 0
        while True:
            while self._wanted == done:
                self._take_command()
            done = self._wanted
            try:
                self._iterate(done)
            except _Broken:
                await_end(self._link)
                return

    def _iterate(self, number: int) -> None:
        reset = getattr(self._link.store, "reset", None)
        if reset is not None:  # an arena that is reset when the parent has received everything in it
            self._link.send(Answer.STARTED, number)
            while self._credits <= 0:
                self._take_command()
                if self._wanted != number:
                    return
            reset()
        iterator = self._try("Failed to create the iterator", iter, self._iterable)
        self._num_read = 0
        try:
            self._send_items(number, iterator)
        finally:
            if iterator is not self._iterable:  # the remaining items of a generator belong to the next iteration
                _close(iterator)

    def _send_items(self, number: int, iterator: Iterator[Any]) -> None:
        attempt = "Failed to fetch the next item"
        link = self._link
        looked = monotonic()
        while True:
            if self._credits <= 0 or monotonic() - looked > _LOOK_INTERVAL:
                frame = link.try_recv() if self._credits > 0 else link.recv()
                while frame is not None:
                    self._obey(frame)
                    if self._wanted != number:
                        return
                    frame = link.next_frame() if self._credits > 0 else link.recv()
                looked = monotonic()
            try:
                item = next(iterator)
            except StopIteration:
                link.send(Answer.END, number)
                return
            except BaseException as exc:
                if self._resumable is not None and isinstance(exc, TimeoutError):
                    continue  # there is no item yet
                raise self._tell(attempt, exc) from exc
            self._credits -= 1
            if type(item) is bytes and len(item) < LARGE and self._credits > 0:
                link.send_bytes_soon(Answer.RESULT, number, item)
                continue
            encoded = self._try(attempt, link.encode, item)
            # Without credit, the reader waits for these items, or will soon.
            link.send_soon(Answer.RESULT, number, encoded, urgent=self._credits <= 0)
            del item, encoded  # do not keep them while waiting for the next item

    def _try(self, attempt: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except BaseException as exc:
            raise self._tell(attempt, exc) from exc

    def _tell(self, attempt: str, exc: BaseException) -> _Broken:
        self._link.send(Answer.BROKEN, self._wanted, (attempt, RemoteFailure.of(exc)))
        return _Broken()

    def _take_command(self) -> None:
        """Wait for a command and carry it out. Raises ``EOFError`` when the parent is gone."""
        self._obey(self._link.recv())

    def _obey(self, frame: Frame) -> None:
        if frame.kind == Request.START:
            self._wanted = frame.number
            self._credits = frame.load()
            self._holds, self._will_hold = self._will_hold, False
        elif frame.kind == Request.CREDIT and frame.number == self._wanted:
            self._credits += frame.count or frame.load()
            if self._resumable is not None and frame.count and not self._holds:
                self._num_read += frame.count
                self._resumable.commit(self._num_read)
        elif frame.kind == Request.ENVIRONMENT:
            change_environment_by(frame)
        elif frame.kind == Request.HOLD:
            self._will_hold = True
        elif frame.kind == Request.READ and frame.number == self._wanted:
            self._resumable.commit(frame.count)
        elif frame.kind in (Request.STATE, Request.LOAD):
            self._link.send(Answer.STATE, frame.number, self._state(frame))

    def _state(self, frame: Frame) -> Any:
        """Return the requested state, or the failure."""
        try:
            payload = frame.load()
            if frame.kind == Request.LOAD:
                self._resumable.load_state_dict(payload)
            else:
                self._resumable.commit(payload)
            return self._resumable.state_dict()
        except BaseException as exc:  # noqa: BLE001 - reported to the parent
            return RemoteFailure.of(exc)


def _close(iterator: object) -> None:
    """Close a generator, or any other iterator that has ``close``."""
    close = getattr(iterator, "close", None)
    if not callable(close) or isinstance(iterator, type):
        return
    try:
        close()
    except BaseException:  # noqa: BLE001 - user code, and no caller handles its exceptions
        log(logging.getLogger("spdl.pipeline"), logging.WARNING, "closing %r failed", name_of(iterator), exc_info=True)
