"""Path variants: a router sends each item, or each element of a batch, down one of several paths."""

from __future__ import annotations

import operator
from collections import deque
from typing import TYPE_CHECKING, Any

from spdl._errors import PipelineError
from spdl._reports import add_note
from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._core import Core, Node
from spdl.pipeline._engine._failures import short_repr
from spdl.pipeline._engine._origin import Branch, Origin, Part
from spdl.pipeline._engine._ticket import Ticket

from ._call import CallStage

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

#: Limit of items that routing buffers to look ahead past a full path (or, batched, of batches in flight).
_MAX_HELD = 32


class RouterStage(CallStage):
    """Calls the router on each item, one at a time, and puts the item in the channel of its path.

    Items for a full path wait in that path's channel beyond its capacity.
    """

    __slots__ = ("batches", "members")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.members = []  # all stages of all paths, including nested ones and their merges
        self.batches: BatchedPathMerge | None = None  # set when batched

    def num_held(self) -> int:
        if self.batches is not None:
            return len(self.batches.pending)
        return sum(channel.overflow for channel in self.outs)

    def ready(self) -> bool:
        items = self.inbox.items
        has_slot = self.running == 0 and not self.ended and self.num_held() < _MAX_HELD
        return bool(items) and items[0] is not MARK and has_slot

    def num_free(self) -> int:
        return 0

    def settle_error(self, ticket: Ticket, exc: BaseException) -> None:
        """Fail the stage when the router raises: an item without a path belongs to no stage that could count it."""
        if isinstance(exc, Exception):
            add_note(exc, f"in router stage {self.info}, item {short_repr(ticket.value)}, defined at {self.location}")
            ticket.fatal = exc
        else:
            super().settle_error(ticket, exc)

    def run(self, ticket: Ticket) -> None:
        super().run(ticket)
        self.check_result(ticket)

    async def run_async(self, ticket: Ticket) -> None:
        await super().run_async(ticket)
        self.check_result(ticket)

    def check_result(self, ticket: Ticket) -> None:
        """Turn the router's result into a path index, or into one sub-batch per path. Not under the lock."""
        if ticket.fatal is not None or ticket.error is not None or ticket.cancelled:
            return
        try:
            ticket.result = self.checked_index(ticket.result) if self.batches is None else self.split(ticket)
        except BaseException as exc:  # noqa: BLE001 - items, batches and indices are user objects
            self.settle_error(ticket, exc)

    def checked_index(self, index: Any) -> int:
        if type(index) is not int:
            try:
                index = operator.index(index)
            except TypeError:
                raise TypeError(
                    f"router of stage {self.info} returned {short_repr(index)}; it must return the index of a path"
                ) from None
        if not 0 <= index < len(self.outs):
            raise IndexError(
                f"router of stage {self.info} returned index {index}, but there are {len(self.outs)} paths "
                f"(valid range: [0, {len(self.outs)}))"
            )
        return int(index)

    def split(self, ticket: Ticket) -> list[list[Any]]:
        batch, indices = ticket.value, ticket.result
        if len(indices) != len(batch):
            raise ValueError(
                f"batched router of stage {self.info} returned {len(indices)} indices for a batch of "
                f"{len(batch)} items; it must return one per item"
            )
        parts: list[list[Any]] = [[] for _ in self.outs]
        for value, index in zip(batch, indices, strict=True):
            parts[self.checked_index(index)].append(value)
        return parts

    def finish(self, ticket: Ticket, now: float) -> None:
        self.running -= 1
        if self.cancelled:
            self.discard()
            return
        if self.account(ticket, now):
            self.counters.num_emitted += 1
            if self.batches is None:
                self.outs[ticket.result].put((ticket.value, ticket.origin), now)
            else:
                origins = self.batches.open_batch(ticket.origin)
                for channel, part, origin in zip(self.outs, ticket.result, origins, strict=True):
                    channel.put((part, origin), now)
        self.after_call(now)

    def on_room(self) -> None:
        if self.inbox.items:
            self.lane.offer(self)
        if self.inbox.num_marks or self.inbox.closed:
            self.engine.advance(self, self.engine.clock())

    def advance(self, now: float) -> None:
        """Send a mark down every path, when all of them have room."""
        inbox = self.inbox
        while not self.ended and self.is_idle():
            if inbox.items:
                if inbox.items[0] is not MARK or any(channel.overflow for channel in self.outs):
                    return
                if self.batches is not None:
                    self.batches.pending.append(None)
                self.pass_mark(now)
            elif inbox.closed:
                self.end(now)
            else:
                return


class _Batch:
    """One batch in flight: the outputs of each path, and which paths are done."""

    __slots__ = ("done", "origin", "parts")

    def __init__(self, origin: Origin, num_paths: int) -> None:
        self.origin = origin
        self.parts: list[list[Any]] = [[] for _ in range(num_paths)]
        self.done = 0


class BatchedPathMerge(Node):
    """Joins the outputs of the paths for one batch, in path order. Batches are emitted in input order.

    A path is done with a batch when no item from its sub-batch is left in the path: each was returned, dropped or
    failed. So a dropped sub-batch loses only its own elements and does not shift other batches. The sub-batch's
    ``Branch`` detects this.
    """

    __slots__ = ("pending", "router")

    def __init__(self, engine: Core, info: StageInfo, router: RouterStage) -> None:
        super().__init__(engine, info)
        self.router = router
        router.batches = self
        self.pending: deque[_Batch | None] = deque()  # in input order; ``None`` is the end of an epoch

    def open_batch(self, origin: Origin) -> list[Part]:
        """Register a batch. Returns the origins of the sub-batches, one per path."""
        batch = _Batch(origin, len(self.inboxes))
        self.pending.append(batch)
        parts = []
        for path in range(len(self.inboxes)):
            branch = Branch(origin, self.path_done_callback(batch))
            branch.batch = batch
            branch.num_outputs = path  # so that the origin contains the path
            parts.append(branch.output())
            branch.open = False
        return parts

    def path_done_callback(self, batch: _Batch) -> Any:
        def path_done() -> None:
            batch.done += 1
            if self.pending and batch is self.pending[0]:
                self.engine.advance(self, self.engine.clock())

        return path_done

    def advance(self, now: float) -> None:
        inboxes, pending, out = self.inboxes, self.pending, self.out
        while not self.ended:
            self.collect()
            if pending and len(out.items) <= out.capacity:
                first = pending[0]
                if first is not None and first.done == len(inboxes):
                    self.emit(self.pending.popleft(), now)
                    continue
                if first is None and all(channel.items for channel in inboxes):  # outputs are collected; marks are left
                    pending.popleft()
                    for channel in inboxes:
                        channel.take()
                    out.put_mark(now)
                    continue
            if not all(channel.closed and not channel.items for channel in inboxes):
                break
            if pending and (pending[0] is None or pending[0].done == len(inboxes)):
                break  # waits for room
            pending.clear()  # only after a failure in a path: the items it held will not arrive
            self.end(now)
        if not self.ended:
            self.router.on_room()  # limited by the number of batches in flight

    def collect(self) -> None:
        for path, channel in enumerate(self.inboxes):
            while channel.items and channel.items[0] is not MARK:
                value, origin = channel.take()
                if isinstance(value, (list, tuple)):
                    _batch_of(origin).parts[path].extend(value)
                else:
                    error = PipelineError(
                        f"path {path} of batched path variants {self.info} returned {short_repr(value)}; "
                        "it must return a list"
                    )
                    self.engine.fail(self, error, self.engine.clock())
                    return
                self.counters.num_calls += 1
                self.engine.ledger.release(origin)

    def emit(self, batch: _Batch | None, now: float) -> None:
        assert batch is not None
        joined = [value for part in batch.parts for value in part]
        if joined:
            self.counters.num_emitted += 1
            self.out.put((joined, batch.origin), now)
        else:
            self.counters.num_dropped += 1
            self.engine.ledger.release(batch.origin)

    @property
    def num_in_flight(self) -> int:
        return len(self.pending)

    def drop_work(self) -> None:
        self.pending.clear()


def _batch_of(origin: Any) -> _Batch:
    """Return the batch that an item on a path came from; for an aggregate of several, the first."""
    while True:
        if isinstance(origin, Part):
            if isinstance(origin.branch.batch, _Batch):
                return origin.branch.batch
            origin = origin.branch.parent
        elif isinstance(origin, tuple) and origin:
            origin = origin[0]
        else:
            raise AssertionError(f"item without a batch: {origin!r}")
