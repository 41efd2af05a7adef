"""Decides the outcome of a call that raises: a failed item, a substitute, or the failure of the stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._engine._failures import FailureRecord, Outcome, as_stage_failure, chain, log_failure
from spdl.pipeline._engine._places import Placed

if TYPE_CHECKING:
    from spdl.pipeline._engine._ticket import Ticket

    from ._call import CallStage


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


def settle_failure(stage: CallStage, ticket: Ticket, exc: Exception) -> Settled:
    """Decide the outcome of a call that raised, and report it. Not under the lock; changes no ticket."""
    item = ticket.value.item if type(ticket.value) is Placed else ticket.value
    seconds = stage.engine.clock() - ticket.started
    outcome: Outcome = "raised" if stage.raises else "dropped"
    substitute = None
    if stage.substitute is not None:
        try:
            substitute = stage.substitute(item, exc)
        except Exception as failed:  # noqa: BLE001 - the user's; it is the failure of the call then
            chain(failed, exc)
            exc = failed
        except BaseException as failed:  # noqa: BLE001 - the user's; it fails the stage
            return Settled(None, None, as_stage_failure(failed, f"on_error of stage {stage.info}"))
        else:
            outcome = "dropped" if substitute is None else "substituted"
    report = stage.engine.tell_failure
    record = log_failure(report, stage.info, ticket.origin, item, exc, stage.location, seconds=seconds, outcome=outcome)
    return Settled(record, substitute)
