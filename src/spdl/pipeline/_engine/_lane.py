"""The interface of lanes: to the engine, to the stages whose calls they run, and to stages that use the event loop.

The engine starts, stops and joins the lanes in ``Core.lanes``, and never asks what kind a lane is. A stage keeps a
reference to the lane that runs its calls, so no call looks for its lane.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ._ending import Joining, RunningCall
from ._failures import short_repr

if TYPE_CHECKING:
    import asyncio

    from spdl.pipeline._records import Place

    from ._ticket import CallSource, Ticket


class Rank(IntEnum):
    """When a lane is started. Lanes of lower rank start first and are joined last."""

    LOOP = 0  # stage hooks are entered before anything runs
    THREADS = 1
    EXECUTOR = 2
    REGION = 3
    SOURCE = 4
    DEADLINES = 5


class OpenCall(NamedTuple):
    """A call that has not returned.

    ``thread_id``: of the thread that it runs on, if known. ``stack``: returns the stack of a coroutine. ``is_busy``:
    whether it runs code of the user, so that its time counts.
    """

    ticket: Ticket
    thread_id: int | None = None
    stack: Callable[[], str] | None = None
    is_busy: bool = True


class Lane:
    """Base class of lanes, which run calls or feed them. Each method does nothing; a lane overrides what it needs.

    The engine calls, in this order: ``prepare``, ``start`` and ``wait_started``; ``request_stop`` if the pipeline is
    stopped; ``stop`` when all nodes have ended; ``join``, any number of times; ``forget``.
    """

    rank: ClassVar[Rank] = Rank.THREADS
    #: Whether the lane has child processes that ``multiprocessing`` terminates at interpreter exit.
    has_child_processes: ClassVar[bool] = False

    def prepare(self) -> None:
        """Called before any lane is started: no thread of the pipeline is running."""

    def start(self) -> None:
        """Start the threads. A stop may have been requested before."""

    def wait_started(self, timeout: float | None) -> bool:
        """Wait until lanes of higher rank may start. Returns False if it takes longer than ``timeout`` seconds."""
        return True

    def request_stop(self) -> None:
        """Under the lock: all nodes have been cancelled, and no more calls will be claimed. Never blocks."""

    def stop(self) -> None:
        """Under the lock: all nodes have ended, so the threads may end. Idempotent. Never blocks."""

    def join(self, joining: Joining) -> None:
        """Wait for the threads and the calls. Reports those that do not finish in time to ``joining``."""

    def open_calls(self) -> Iterable[OpenCall]:
        """The calls that have not returned. With or without the lock."""
        return ()

    def running(self) -> Sequence[RunningCall]:
        """Return the open calls for reports, with their items and stacks. Not under the lock: runs ``repr``."""
        found = []
        for ticket, thread_id, stack_of, _ in self.open_calls():
            stack = "" if stack_of is None else stack_of()
            found.append(
                RunningCall(str(ticket.stage.info), short_repr(ticket.value), ticket.started, thread_id, stack)
            )
        return found

    def reading(self) -> Sequence[RunningCall]:
        """Return the calls of the source's iterator that have not returned: a join does not wait for them."""
        return ()

    def open_times(self, now: float) -> list[tuple[object, float]]:
        """Return the stage of each open call, and how long it has run, in seconds. Under the lock."""
        return [
            (ticket.stage, max(0.0, now - ticket.started)) for ticket, _, _, is_busy in self.open_calls() if is_busy
        ]

    def forget(self) -> None:
        """Drop the references to objects of the user. Called when all threads have ended."""


class CallLane(Lane):
    """A lane that runs the calls of stages and jobs. The methods are called under the engine's lock and never block."""

    #: Where the calls run.
    runs_on: Place = "pool"
    #: Number of threads or processes of its own for these calls; 0: it has none, or they are not known.
    num_workers: int = 0
    #: A thread of this lane holds the lock and will claim before releasing it, so no wake-up is needed. Guarded by the
    #: lock.
    is_claiming = False
    #: No more calls are accepted.
    stopping = False

    def add(self, source: CallSource) -> None:
        """Take calls from ``source`` too. Called while the graph is built, in the order of the pipeline."""
        raise NotImplementedError

    def offer(self, source: CallSource) -> None:
        """``source`` may have become ready: wake a thread or slot that can take a ticket, unless one is awake."""
        raise NotImplementedError

    def cancel_calls(self, source: CallSource) -> None:
        """Cancel the running calls of ``source`` where possible, and mark their tickets."""
        raise NotImplementedError

    def lose_call(self, ticket: Ticket) -> bool:
        """Forget a call that was given up. If True, the caller must call ``start_worker``, without the lock."""
        raise NotImplementedError

    def start_worker(self) -> None:
        """Not under the lock: start the thread that replaces a lost one."""
        raise NotImplementedError


class AsyncLane(CallLane):
    """The lane of the event loop. Methods are called under the engine's lock unless they say otherwise.

    ``owner`` is the node that a task belongs to; it is compared by identity.
    """

    def notify(self, future: asyncio.Future[None]) -> None:
        """Resolve ``future`` on the loop."""
        raise NotImplementedError

    def cancel_task(self, owner: object) -> None:
        """Cancel the task of an async source or of a merge op."""
        raise NotImplementedError

    def watch_task(self, owner: object) -> None:
        """On the loop, not under the lock: the current task belongs to ``owner`` and may be cancelled with it."""
        raise NotImplementedError

    def spare_task(self, owner: object) -> None:
        """On the loop, not under the lock: the task of ``owner`` is closing and must no longer be cancelled."""
        raise NotImplementedError

    def leave_hooks(self, owner: object) -> None:
        """Exit the stage hooks of a node."""
        raise NotImplementedError

    def run_in_background(self, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Before the start, not under the lock: run a coroutine that is cancelled when all nodes have ended."""
        raise NotImplementedError
