"""The threads that all lanes use, and the locks of the engine.

On Python without the GIL, a thread that waits for a ``threading.Lock`` yields its core 40 times before it sleeps, so
with other load on the machine every wake-up waits for many time slices. There the engine uses its own locks, which
never yield: threads without work sleep at once, and those that wait for the scheduling state spin for 10 us first. With
the GIL, waiters of a ``threading.Lock`` sleep at once too, and it is faster.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from weakref import WeakMethod

if TYPE_CHECKING:
    from ._ticket import CallSource, Ticket


def end_fork() -> None:
    """End this process, in which user code has forked the training process and has returned: nothing else runs here.

    It would wait for ever for threads that do not exist, and keep the pipes of the program open. Exit hooks do not run:
    they are the parent's.
    """
    os._exit(0)


class Task(NamedTuple):
    """The task of a thread. ``body`` returns whether the thread sleeps until it gets another task."""

    on_death: Callable[[BaseException], None] | None  # called if ``body`` raises; ``None``: it never raises
    body: Callable[[EngineThread], bool | None]


class EngineThread(threading.Thread):
    """A thread of the engine: a daemon, so that an op stuck in a system call cannot keep the interpreter alive.

    A sleeping thread holds no reference to its engine: the waking thread passes it the task. So an unused engine can be
    collected, even if one of its ops is a method of the object that holds the pipeline.

    ``ticket`` is the call it runs, for the report about stuck ops, and ``stage`` what the call belongs to; written by
    the thread itself, read by ``stop`` and, as words of memory, by the sampler of threads: see ``_published.py``.
    """

    __slots__ = ("stage", "ticket")  # at fixed places, beside the attributes of ``Thread``

    def __init__(self, name: str, task: Task) -> None:
        super().__init__(name=name, daemon=True)
        self.ticket: Ticket | None = None
        self.stage: CallSource | None = None
        self.in_source = False  # inside the source's iterator
        #: For the thread of a source: returns a context manager that counts its time as waiting, for input or for the
        #: consumer. A weak reference, because a sleeping thread must not refer to its engine.
        self.pausing: WeakMethod[Callable[[bool], AbstractContextManager[None]]] | None = None
        self.task: Task | None = task
        self.wake_up = new_wake_up()

    def wake(self, task: Task) -> None:
        """Wake the thread. Once per sleep, after the thread has announced the sleep under the engine's lock."""
        self.task = task
        self.wake_up.release()

    def note_lost(self, number: int) -> None:
        """Count parts that the running call leaves out of its result without failing, such as images of a batch.

        For code outside of the pipeline package: it finds this method on the current thread.
        """
        ticket = self.ticket
        if ticket is not None:
            ticket.stage.note_lost(number)

    def waiting_for_consumer(self) -> AbstractContextManager[None]:
        """Return a context manager whose time does not count as work of the source, but as lack of room.

        For sources that continue when the consumer has taken an item. Code outside of the pipeline package finds this
        method on the current thread, like ``note_lost``.
        """
        return self._paused(False)

    def waiting_for_input(self) -> AbstractContextManager[None]:
        """Same, but the time counts as lack of input. For sources that continue when another process has sent data."""
        return self._paused(True)

    @contextmanager
    def _paused(self, is_starved: bool) -> Iterator[None]:
        pausing = None if self.pausing is None else self.pausing()
        with nullcontext() if pausing is None else pausing(is_starved):
            pausing = None
            yield

    def run(self) -> None:
        wake_up = self.wake_up
        try:
            while True:
                task, self.task = self.task, None
                assert task is not None
                try:
                    sleeps = task.body(self)
                except BaseException as exc:
                    if task.on_death is None:
                        raise
                    task.on_death(exc)
                    return
                if not sleeps:
                    return
                task = None  # drops the references before the sleep
                wake_up.acquire()
        finally:
            self.task = self.ticket = self.stage = None  # a thread object may outlive the engine


#: Whether a thread often finds the lock of the engine taken. With the GIL, only if its holder lost the GIL.
WAITS_ARE_COMMON: Final = "t" in sys.abiflags

new_lock: Callable[[], threading.Lock] = threading.Lock
_new_parking: Callable[[], threading.Lock] = threading.Lock
if sys.platform == "linux" and WAITS_ARE_COMMON:  # built without the GIL, also where it is enabled
    from spdl._processes._memory import ParkingLock, PostponingLock

    new_lock = cast("Callable[[], threading.Lock]", PostponingLock)
    _new_parking = cast("Callable[[], threading.Lock]", ParkingLock)


def new_wake_up() -> threading.Lock:
    """Return a lock that is taken. One thread sleeps in ``acquire`` until another calls ``release``."""
    lock = _new_parking()
    lock.acquire()
    return lock
