"""Aggregates: many inputs, one output, or several with ``Outputs``. Plain lists are in ``_source.py``.

``AggregateStage`` runs a user's ``Aggregator`` on the pool, one item at a time, and its ``flush`` as a separate call.

The origin of an output is the tuple of the origins of all items accumulated since the previous output. So an item that
the aggregator keeps for a later output counts as part of the earlier one, and several outputs of one call share their
origins, as those of a generator do. ``Outputs.inputs`` overrides this with the items of each output; an item in several
outputs is a ``Branch`` with a part in each. In a resumable pipeline, the newest item of an aggregator that does not
declare ``is_exact`` counts as part of the next output too: it may have been kept.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import spdl.pipeline._asyncio as asyncio
from spdl._errors import PipelineError
from spdl._reports import name_of, shown
from spdl.pipeline._engine._channel import MARK, Channel, Entry
from spdl.pipeline._engine._failures import as_stage_failure, short_repr
from spdl.pipeline._engine._origin import Branch, Origin, path_of
from spdl.pipeline._engine._ticket import Ticket
from spdl.pipeline.defs import Aggregator, Outputs

from ._call import CallStage
from ._policies import CallOnThread, HookLog, hooked, to_its_end

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._deadlines import Deadlines, FlushTime
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline._info import StageInfo


class Flush(Enum):
    """The value of a ticket that flushes, instead of an item."""

    END = "at the end of the stream or of an epoch"
    DUE = "its deadline has passed"


class Rest(NamedTuple):
    """The value of a ticket for an item of which some parts were consumed before the pipeline was resumed."""

    item: Any
    done: frozenset[int]


#: The result of a call that a hook kept from reaching the aggregator.
_KEPT_OUT: Final[Outputs[Any]] = Outputs(dropped=True)


class AggregateStage(CallStage):
    """Runs ``accumulate`` for every item and ``flush`` at the ends; an exception in either fails the stage.

    Outputs without room wait in ``parked`` and keep the slot of their call.
    """

    __slots__ = (
        "aggregator",
        "call_on_thread",
        "drop_last",
        "flushed",
        "held",
        "hook_log",
        "hooks",
        "kept",
        "may_keep_newest",
        "must_be_exact",
        "num_given",
        "parked",
        "pumping",
        "splits",
    )

    def __init__(
        self, engine: Core, info: StageInfo, aggregator: Aggregator[Any, Any], *, drop_last: bool, lane: CallLane
    ) -> None:
        super().__init__(
            engine,
            info,
            aggregator.accumulate,
            limit=1,
            lane=lane,
            location=f"{type(aggregator).__qualname__}.accumulate",
        )
        self.aggregator = aggregator
        self.drop_last = drop_last
        self.flushed = False  # since the last item
        self.num_given = 0
        self.held: dict[int, Origin] = {}  # origins of the accumulated items that were not emitted, by item number
        self.splits: dict[int, Branch] = {}  # held items that are in outputs in part, by item number
        self.may_keep_newest = False
        self.kept: int | None = None  # number of the item that is in an output and may be in the next one too
        self.must_be_exact = False
        self.parked: deque[Entry] = deque()
        self.pumping = False
        self.hooks: list[Any] = []
        self.hook_log = HookLog(info)
        self.call_on_thread: CallOnThread | None = None

    def set_hooks(self, hooks: list[Any], call_on_thread: CallOnThread) -> None:
        """Set the task hooks: calls then run on the loop between the hooks, and the aggregator on a worker thread."""
        self.hooks = hooks
        self.call_on_thread = call_on_thread

    def flush_due(self) -> bool:
        if self.flushed or self.ended:
            return False
        inbox = self.inbox
        if inbox.items:
            return inbox.items[0] is MARK
        return inbox.closed and not self.drop_last

    def ready(self) -> bool:
        return self.num_free() > 0 and (
            self.flush_due() or (bool(self.inbox.items) and self.inbox.items[0] is not MARK)
        )

    def take(self, now: float) -> Ticket:
        if self.flush_due():
            self.running += 1
            return self.new_ticket(Flush.END, (), now)
        ticket = super().take(now)
        rest = self.engine.ledger.rest
        if rest and (key := path_of(ticket.origin)) is not None and key in rest:
            ticket.value = Rest(ticket.value, frozenset(chain.from_iterable(rest[key])))
        return ticket

    def run(self, ticket: Ticket) -> None:
        try:
            ticket.result = self.call(ticket.value)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code
            self.settle_error(ticket, exc)

    def call(self, value: Any) -> Any:
        if type(value) is Flush:
            return self.aggregator.flush()
        if type(value) is Rest:
            return self.aggregator.accumulate_rest(value.item, value.done)
        return self.op(value)

    async def run_async(self, ticket: Ticket) -> None:
        value, call_on_thread = ticket.value, self.call_on_thread
        assert call_on_thread is not None
        hooks = [] if value is Flush.END and self.drop_last else self.hooks
        item = None if type(value) is Flush else value.item if type(value) is Rest else value
        was_called = False

        async def call(_: Any) -> Any:
            nonlocal was_called
            was_called = True
            return await to_its_end(call_on_thread(self.call, value, value))

        try:
            ticket.result = await hooked(self.hook_log, hooks, call, item)
            if not was_called:
                ticket.result = _KEPT_OUT
        except asyncio.CancelledError as exc:
            if ticket.cancelled or self.cancelled:
                raise
            what = f"a call of aggregate stage {self.info} was cancelled from inside, by a hook or by the aggregator"
            self.settle_error(ticket, RuntimeError(f"{what}: {shown(exc)}"))
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code
            self.settle_error(ticket, exc)

    def settle_error(self, ticket: Ticket, exc: BaseException) -> None:
        """Fail the stage: the items already inside the aggregator cannot be told apart."""
        value = ticket.value
        item = value.item if type(value) is Rest else value
        what = "flush" if type(value) is Flush else f"item {short_repr(item)}"
        aggregator = name_of(self.aggregator)
        ticket.fatal = as_stage_failure(exc, f"aggregate stage {self.info}, {what}, aggregator {aggregator}")

    def finish(self, ticket: Ticket, now: float) -> None:
        self.running -= 1
        if self.cancelled:
            self.discard()
            return
        if self.must_be_exact and type(ticket.result) is Outputs and _is_vague(ticket.result):
            ticket.fatal = PipelineError(
                f"aggregator {type(self.aggregator).__qualname__} of stage {self.info} declares is_exact, but returned "
                f"{ticket.result} without inputs: a resumable pipeline must know which items are in each output"
            )
        if self.account(ticket, now):
            value, result = ticket.value, ticket.result
            is_flush = type(value) is Flush
            if not is_flush:
                self.flushed = False
                self.held[self.num_given] = ticket.origin
                self.num_given += 1
            elif value is Flush.END:
                self.flushed = True
                if self.drop_last:
                    self.counters.num_calls -= 1  # only a reset, not a call of the pipeline
                    result = None
            if type(result) is Outputs:
                if result.dropped and not is_flush:
                    self.counters.num_dropped += 1
                    self.engine.ledger.release(self.held.pop(self.num_given - 1))
                    if result is _KEPT_OUT:
                        self.num_given -= 1
                if result.values:
                    self.emit_all(result, now, is_flush=is_flush)
            elif result is not None:
                self.counters.num_emitted += 1
                self.out.put((result, self.take_held(is_flush=is_flush)), now)
            if is_flush:
                self.drop_rest()
        self.after_call(now)

    def take_held(self, *, is_flush: bool) -> tuple[Origin, ...]:
        """Return the origins of all items since the previous output."""
        held = self.held
        newest = self.num_given - 1
        if not self.may_keep_newest or is_flush or newest not in held:
            origins = tuple(held.values())
            held.clear()
            return origins
        branch = Branch(held.pop(newest))
        origins = (*held.values(), branch.output())
        held.clear()
        held[newest] = branch.output()
        branch.open = False
        self.kept = newest
        return origins

    def emit_all(self, outputs: Outputs[Any], now: float, *, is_flush: bool) -> None:
        if outputs.inputs is None:
            branch = Branch(self.take_held(is_flush=is_flush))
            self.parked.extend([(value, branch.output()) for value in outputs.values])
            self.engine.ledger.end_branch(branch)
        else:
            self.park(outputs.values, outputs.inputs, outputs.unfinished)
        self.pump(now)

    def park(self, values: Sequence[Any], inputs: Sequence[Sequence[int]], unfinished: Sequence[int]) -> None:
        """Add outputs with the origins of the items in each.

        Items not found here are from an earlier run, or already in another output.
        """
        held, splits = self.held, self.splits
        last = self.num_given - 1
        ages = [age for each in inputs for age in set(each)]
        if not unfinished and not splits and len(set(ages)) == len(ages):
            for value, each in zip(values, inputs, strict=True):
                self.parked.append((value, tuple([held.pop(last - age) for age in each if last - age in held])))
            return
        named = {last - age for age in ages if last - age in held}
        later = {last - age for age in unfinished}
        for number in named:
            if number not in splits and (number in later or ages.count(last - number) > 1):
                splits[number] = self.engine.ledger.branch(held[number])
        for value, each in zip(values, inputs, strict=True):
            origins: list[Origin] = []
            for number in dict.fromkeys(last - age for age in each):
                if number in splits:
                    branch = splits[number]
                    while branch.done and branch.skip_if_done():
                        pass
                    origins.append(branch.output())
                elif number in held:
                    origins.append(held.pop(number))
            self.parked.append((value, tuple(origins)))
        for number in named - later:
            if number in splits:
                del held[number]
                self.engine.ledger.end_branch(splits.pop(number))

    def pump(self, now: float) -> None:
        """Move outputs while there is room. Guarded against re-entry: putting may make room at once."""
        if self.pumping:
            return
        self.pumping = True
        out = self.out
        while self.parked and len(out.items) <= out.capacity:
            self.counters.num_emitted += 1
            out.put(self.parked.popleft(), now)
        self.pumping = False

    def drop_rest(self) -> None:
        """Count accumulated items that will not be emitted as dropped, and release them."""
        self.counters.num_dropped += len(self.held) - (self.kept in self.held)
        for number, origin in self.held.items():
            if number in self.splits:
                self.engine.ledger.end_branch(self.splits.pop(number))
            else:
                self.engine.ledger.release(origin)
        self.held.clear()

    def advance(self, now: float) -> None:
        inbox = self.inbox
        while not self.ended and self.is_idle():
            if self.flush_due():
                self.lane.offer(self)
                return
            if inbox.items:
                if inbox.items[0] is not MARK or self.out.overflow:
                    return
                self.flushed = False
                self.pass_mark(now)
            elif inbox.closed:
                if self.drop_last:
                    self.drop_rest()
                self.end(now)
            else:
                return

    def forget(self) -> None:
        super().forget()
        del self.aggregator

    def on_room(self) -> None:
        if self.parked:
            now = self.engine.clock()
            self.pump(now)
            if self.inbox.closed:
                self.engine.advance(self, now)
        if self.inbox.items or self.flush_due():
            self.lane.offer(self)
            if self.inbox.num_marks:
                self.engine.advance(self, self.engine.clock())

    def is_idle(self) -> bool:
        return self.running == 0 and not self.parked

    @property
    def num_in_flight(self) -> int:
        return 1 if self.parked else self.running

    def drop_work(self) -> None:
        super().drop_work()
        self.held.clear()
        self.splits.clear()
        self.parked.clear()


def _is_vague(outputs: Outputs[Any]) -> bool:
    """Return whether it is not known which items are in each output."""
    return outputs.inputs is None and len(outputs.values) > 1


class DueAggregateStage(AggregateStage):
    """``AggregateStage`` for an aggregator that has a ``deadline``."""

    __slots__ = ("asked", "deadline", "flush_times", "is_due")

    flush_times: Deadlines

    def set_deadlines(self, deadlines: Deadlines) -> None:
        """Called once by the graph: ``deadlines`` calls ``on_deadline``."""
        self.flush_times = deadlines
        call_when_moved = getattr(self.aggregator.clock, "call_when_moved", None)
        if call_when_moved is not None:
            call_when_moved(deadlines.look_again)

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.asked: FlushTime | None = (
            None  # the newest return value; written by the thread that runs the call, before it is done
        )
        self.deadline: float | None = None  # the deadline in effect, on the aggregator's clock
        self.is_due = False

    # -- not under the lock

    def call(self, value: Any) -> Any:
        result = super().call(value)
        if type(value) is not Flush:  # after a flush there is nothing to wait for
            self.asked = self.ask()
        return result

    def ask(self) -> FlushTime | None:
        """Return the aggregator's deadline, and the same moment on the engine's clock."""
        deadline = self.aggregator.deadline()
        if deadline is None:
            return None
        try:
            is_nan = math.isnan(deadline)
        except TypeError:
            is_nan = True
        if is_nan:
            raise TypeError(f"deadline() must return a number or None, got {shown(deadline)}")
        if deadline == math.inf:
            return None
        if self.asked is not None and self.asked.deadline == deadline:
            return self.asked  # most items of a list do not change it: the clock need not be read
        return self.flush_times.flush_time(deadline, self.aggregator.clock)

    def on_deadline(self, deadline: float) -> None:
        """Called on the deadlines thread when the deadline should have passed. The aggregator's clock decides."""
        try:
            again = self.flush_times.flush_time(deadline, self.aggregator.clock)
        except BaseException as exc:  # noqa: BLE001 - a user's clock
            error = as_stage_failure(exc, f"the clock of aggregate stage {self.info}")
            with self.engine.lock:
                if not self.ended:
                    self.engine.fail(self, error, perf_counter())
            return
        with self.engine.lock:
            if self.ended or self.deadline != deadline:
                return
            if again.remaining > 0:
                self.flush_times.flush_at(self, again)
            else:
                self.is_due = True
                self.lane.offer(self)

    # -- under the lock

    def flush_due(self) -> bool:
        return (self.is_due and not self.ended) or super().flush_due()

    def take(self, now: float) -> Ticket:
        if self.is_due:
            self.running += 1
            return self.new_ticket(Flush.DUE, (), now)
        return super().take(now)

    def finish(self, ticket: Ticket, now: float) -> None:
        if type(ticket.value) is Flush:
            self.asked = None
        if not self.ended:
            self.take_over()
        super().finish(ticket, now)

    def take_over(self) -> None:
        """Put the newest deadline into effect."""
        asked = self.asked
        deadline = None if asked is None else asked.deadline
        if deadline == self.deadline:
            return  # it may have become due since
        self.deadline = deadline
        self.is_due = asked is not None and asked.remaining <= 0  # at once: before the next item
        if asked is None or self.is_due:
            self.flush_times.forget_flush(self)
        else:
            self.flush_times.flush_at(self, asked)

    def end(self, now: float) -> None:
        self.flush_times.forget_flush(self)
        self.deadline = None
        super().end(now)
