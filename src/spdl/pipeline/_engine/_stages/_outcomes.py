"""The outcomes of calls that raise (a failed item, a substitute, the failure of the stage), and limits on failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._engine._core import Core, Node
from spdl.pipeline._engine._failures import FailureRecord, Outcome, as_stage_failure, chain, log_failure, no_success
from spdl.pipeline._engine._places import bare

if TYPE_CHECKING:
    from spdl.pipeline._engine._remote_calls import Collected
    from spdl.pipeline._engine._ticket import Ticket
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._limits import Limit


class WrongParameters(Exception):
    """An async op cannot be called with one argument. This would fail every item, so it fails the stage."""


def begin(op: Callable[[Any], Any], value: Any) -> Any:
    """Call an async op: create its coroutine or generator without running it."""
    try:
        return op(value)
    except TypeError as exc:
        if exc.__traceback__ is not None and exc.__traceback__.tb_next is None:  # raised by the call, not inside it
            raise WrongParameters from exc
        raise


class Settled(NamedTuple):
    """The outcome of a call that raised: a failed item, perhaps with a substitute, or the failure of the stage."""

    record: FailureRecord | None
    substitute: Any = None  # ``None``: no substitute
    fatal: BaseException | None = None


class FallibleNode(Node):
    """A node with calls of user code, which may fail."""

    __slots__ = ("budget", "location", "may_all_fail", "raises", "seen", "substitute")

    def __init__(self, engine: Core, info: StageInfo, location: str) -> None:
        super().__init__(engine, info)
        self.location = location
        self.budget: Limit | None = None
        self.may_all_fail = False  # the user accepts that every call fails
        self.raises = False  # the first failure fails the stage
        self.substitute: Callable[[Any, Exception], Any] | None = None  # gives what goes on in place of an output
        #: Calls that succeeded and failed before the epoch; ``None``: it is the first.
        self.seen: tuple[int, int] | None = None

    # -- not under the lock

    def settle_error(self, ticket: Ticket, exc: BaseException) -> None:
        """Record the exception of a call: an ``Exception`` fails the item, anything else (``SystemExit``) the stage."""
        if isinstance(exc, WrongParameters):
            ticket.fatal = exc.__cause__
        elif isinstance(exc, Exception):
            if not (ticket.cancelled or self.cancelled):
                ticket.error, ticket.substitute, ticket.fatal = self.settle_failure(ticket, exc)
        else:
            ticket.fatal = as_stage_failure(exc, f"op of stage {self.info}")

    def settle_failure(self, ticket: Ticket, exc: Exception) -> Settled:
        """Decide the outcome of a call that raised, and report it. Not under the lock; changes no ticket."""
        item = bare(ticket.value)
        seconds = self.engine.clock() - ticket.started
        outcome: Outcome = "raised" if self.raises else "dropped"
        substitute = None
        if self.substitute is not None:
            try:
                substitute = self.substitute(item, exc)
            except Exception as failed:  # noqa: BLE001 - the user's; it is the failure of the call then
                chain(failed, exc)
                exc = failed
            except BaseException as failed:  # noqa: BLE001 - the user's; it fails the stage
                return Settled(None, None, as_stage_failure(failed, f"on_error of stage {self.info}"))
            else:
                outcome = "dropped" if substitute is None else "substituted"
        report = self.engine.tell_failure
        record = log_failure(
            report, self.info, ticket.origin, item, exc, self.location, seconds=seconds, outcome=outcome
        )
        return Settled(record, substitute)

    def note_lost(self, number: int) -> None:
        """Count what a call leaves out of its result without failing."""
        with self.engine.lock:
            self.counters.num_lost += number

    def settle_outputs(self, ticket: Ticket, outputs: Collected) -> None:
        """Take the outputs of a generator that ran in another process."""
        raise NotImplementedError

    def settle_cancelled(self, ticket: Ticket) -> None:
        """Nobody waits for the outcome."""

    # -- under the lock

    def count_failure(self, ticket: Ticket, now: float) -> bool:
        """Count a failed call. Returns True if ``ticket.result`` is to be emitted in place of its output."""
        record, counters = ticket.error, self.counters
        assert record is not None
        counters.num_calls += 1
        counters.num_failures += 1
        self.failures.append(record)
        self.engine.note_failure(record)
        if record.outcome == "raised":  # the item is not consumed: a resumed pipeline tries it again
            self.engine.fail(self, record.error, now)
            return False
        ticket.result = ticket.substitute
        if ticket.result is None:
            self.release_failed(ticket)
            return False
        counters.num_substituted += 1
        return True

    def release_failed(self, ticket: Ticket) -> None:
        """The item of a failed call is consumed."""
        self.engine.ledger.release(ticket.origin)

    def check_budget(self, now: float) -> bool:
        """Fail the stage if its limit, or the pipeline's, is exceeded."""
        assert self.budget is not None
        if self.budget.is_own:
            num_failures, num_calls = self.counters.num_failures, self.num_counted_calls
        else:
            num_failures = self.engine.num_failures
            if not num_failures:
                return False
            num_calls = self.engine.num_counted_calls()
        if not self.budget.exceeded(num_failures, num_calls):
            return False
        error = self.budget.error(self.info, num_failures, num_calls)
        crossing = self.failures[-1] if self.budget.is_own else self.engine.crossing_failure
        if crossing is not None:
            error.__cause__ = crossing.error
        self.engine.fail(self, error, now)
        return True

    @property
    def num_counted_calls(self) -> int:
        """Number of calls, as failure limits count them."""
        return self.counters.num_calls

    def fails_without_success(self, now: float) -> bool:
        """At the end of an epoch or of the stream: fail the stage if every call has failed.

        Otherwise a pipeline in which nothing works would end like one that had nothing to do. A stage of a path is not
        judged here: it may have had one rare item (see ``Core.node_ended``).
        """
        seen, engine = self.seen, self.engine
        num_before = (0, 0) if seen is None else seen
        self.seen = num_successes, num_failures = self.num_successes, self.counters.num_failures
        if (
            num_failures == num_before[1]
            or num_successes > num_before[0]
            or self.may_all_fail
            or self.block is not None
            or engine.stage_failures  # not all of its input has come
            or not engine.judges_stages
            or (engine.is_resumed and seen is None)  # the successes may have been in the run before
        ):
            return False
        newest = self.failures[-1] if self.failures else None
        engine.fail(self, no_success(self.info, num_failures - num_before[1], newest), now)
        return True

    def error_if_only_failed(self) -> Exception | None:
        num_failures = self.counters.num_failures
        if not num_failures or self.num_successes or self.may_all_fail:
            return None
        return no_success(self.info, num_failures, self.failures[-1] if self.failures else None)

    @property
    def num_successes(self) -> int:
        """Number of calls that gave a result, ``None`` and substitutes included."""
        return self.num_counted_calls - self.counters.num_failures + self.counters.num_substituted
