"""Refilling: a position that fails or is dropped is replaced, so that every pass has its planned number of items.

Ranks that train together must make the same number of steps. The positions of a pass are followed by *spares*, one for
each lost position; the source chooses the item of a spare by its position. So spares are positions like all others, and
states, random numbers and logs need no special case for them.

A position is *settled* when an item of it has passed the gate, in front of the first aggregate or the sink, or when it
was lost. The pass ends when all positions are settled and every lost one has its spare; until then its iterator waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spdl._errors import PipelineError
from spdl._reports import name_of
from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._core import Core, Node
from spdl.pipeline._engine._origin import roots_of

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo


#: A pass may lose as many items as it has, and a small pass this many. More is treated as an error.
_MIN_LOST: Final = 100


class _Pending(set[int]):
    """The pending indices of a source. Reports each index that is issued or removed."""

    def __init__(self, refill: Refill) -> None:
        super().__init__()
        self._refill = refill

    def add(self, index: int) -> None:
        super().add(index)
        self._refill.num_unsettled += 1

    def discard(self, index: object) -> None:
        if index in self:
            super().discard(index)
            self._refill.leave(index)  # type: ignore[arg-type] # it is there, so it is one


class Refill:
    """Counts the lost positions of one source. Guarded by the engine's lock unless a method says otherwise."""

    __slots__ = (
        "_awaits",
        "_changed",
        "_epoch",
        "_is_stopped",
        "engine",
        "lost",
        "num_global",
        "num_unsettled",
        "passed",
        "pending",
        "planned",
    )

    def __init__(self, engine: Core, num_global: int) -> None:
        self.engine = engine
        self.pending = _Pending(self)
        self.passed: set[int] = set()  # indices that are pending, and have passed the gate
        self.num_unsettled = 0
        self.num_global = num_global  # positions of all ranks in a pass; the positions of spares follow
        self.planned = 0  # number of items of the current pass
        self.lost: dict[int, int] = {}  # by live epoch: number of lost positions
        self._epoch = 0
        self._changed = threading.Event()
        self._awaits = False
        self._is_stopped = False

    def begin(self, epoch: int, oldest: int, planned: int, num_lost: int) -> None:
        """Begin the pass of ``epoch``, of which ``num_lost`` positions were lost before a resume."""
        self.planned = planned
        self._epoch = epoch
        self.num_unsettled = 0
        self.lost = {number: lost for number, lost in self.lost.items() if number >= oldest}
        self.lost[epoch] = num_lost

    def pass_gate(self, index: int) -> None:
        """Record that an item of this index passes the gate: it will be aggregated, or read by the consumer."""
        if index in self.pending and index not in self.passed:
            self.passed.add(index)
            self._settle()

    def leave(self, index: int) -> None:
        """Record that an index is no longer pending."""
        if index in self.passed:
            self.passed.discard(index)
            return
        self.lost[self._epoch] += 1
        self._settle()

    def _settle(self) -> None:
        self.num_unsettled -= 1
        if self._awaits:
            self._changed.set()

    def stop(self) -> None:
        """End the pass: the source must give no more items."""
        self._is_stopped = True
        self._changed.set()

    def await_spare(self, num_issued: int) -> bool:
        """Wait until another spare must be issued. False: the pass has all its items, or must end. Not under the lock.

        ``num_issued``: number of positions of the pass that were issued, including spares.
        """
        while True:
            with self.engine.lock:
                self._awaits = False
                if self._is_stopped:
                    return False
                lost = self.lost[self._epoch]
                if num_issued < self.planned + lost:
                    if lost > max(self.planned, _MIN_LOST):
                        raise PipelineError(
                            f"cannot refill epoch {self._epoch}, which has {self.planned} items: {lost} items failed "
                            "or were dropped. See stats() for the failures; correct the op or the data"
                        )
                    return True
                if not self.num_unsettled:
                    return False
                self._awaits = True
                self._changed.clear()
            self._changed.wait()


def replacement_of(source: Any) -> Callable[[int], Any] | None:
    """Return the method of a source that gives the item of a spare; ``None``: the source does not refill."""
    if getattr(source, "refill", False) is not True:
        return None
    of = type(source)
    if not callable(getattr(source, "replacement", None)) or not all(
        hasattr(of, name) for name in ("__iter__", "__len__", "__getitem__")
    ):
        raise ValueError(
            f"source {name_of(source)} has refill=True, and cannot be refilled: it needs __iter__, __len__, "
            "__getitem__ and replacement(position), as spdl.source.DistributedKeyedSampler has them"
        )
    return source.replacement  # type: ignore[no-any-return]


class GateStage(Node):
    """Passes items and marks on, and reports the positions of the items."""

    __slots__ = ("refill",)

    def __init__(self, engine: Core, info: StageInfo, refill: Refill) -> None:
        super().__init__(engine, info)
        self.refill = refill

    def advance(self, now: float) -> None:
        if self.ended:
            return
        self.counters.end_starved(now)
        (inbox,), out = self.inboxes, self.out
        while inbox.items and len(out.items) <= out.capacity:
            entry = inbox.take()
            if entry is MARK:
                out.put_mark(now)
                continue
            self.counters.num_calls += 1
            self.counters.num_emitted += 1
            for root in roots_of(entry[1]):
                if isinstance(root, int):
                    self.refill.pass_gate(root)
            out.put(entry, now)
        if inbox.items:
            return
        if inbox.closed:
            self.end(now)
        else:
            self.counters.begin_starved(now)
