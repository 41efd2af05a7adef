"""An exception on its way to another process, as text."""

from concurrent.futures import BrokenExecutor

import pytest

from spdl._processes._remote_failure import RemoteFailure
from spdl.pipeline import PipelineError, PipelineFailure, WorkerDiedError


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def failure_of(*errors: Exception) -> PipelineFailure:
    return PipelineFailure([("stage", error) for error in errors])


DEATH = WorkerDiedError("worker 1 exited unexpectedly")
BROKEN = BrokenExecutor("worker 1 is gone")
BROKEN.__cause__ = DEATH


@pytest.mark.parametrize(
    "error",
    [DEATH, BROKEN, failure_of(ValueError("bad"), DEATH), caused(PipelineError("failed"), failure_of(BROKEN))],
    ids=["itself", "cause", "member", "member's cause"],
)
def test_a_dead_worker_is_known_by_the_type_of_an_error(error: BaseException) -> None:
    """Wherever it is among causes and members of groups; the error that is raised here keeps it."""
    assert RemoteFailure.of(error).as_error("Failed")._has_dead_worker


def test_a_dead_worker_is_not_known_by_words() -> None:
    """What an op says of workers is the op's own affair."""
    error = ValueError("WorkerDiedError: worker 1 is gone; the main process started it and knows more")
    assert not RemoteFailure.of(error).as_error("Failed")._has_dead_worker


def test_causes_may_go_in_a_circle() -> None:
    """Each exception is looked at once."""
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert not RemoteFailure.of(one).has_dead_worker


def test_the_place_is_that_of_the_innermost_frame() -> None:
    """As file, line and function; unknown for an exception that was never raised."""
    with pytest.raises(ZeroDivisionError) as info:
        1 / 0  # noqa: B018
    assert RemoteFailure.of(info.value).place.startswith("test_remote_failure.py:")
    assert RemoteFailure.of(ValueError()).place == "?:0:?"
