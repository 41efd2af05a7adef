"""A call that takes too long is killed, whatever it does; it is said where it was."""

from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import StageTimeoutError
from spdl.pipeline.defs import Retry

from . import ops
from .running import run

#: Long enough for calls that return at once on a machine that is busy, and children are not started within it.
SECONDS = 0.5


@pytest.mark.parametrize("op", [ops.wait_on_three, ops.spin_on_three, ops.match_for_ever_on_three])
def test_call_that_takes_too_long_is_killed(op: Any) -> None:
    """Also while it keeps the interpreter to itself; the others come out, and the stack is with the error."""
    outputs, stats = run(op, range(6), call_timeout=SECONDS)
    assert outputs == [0, 1, 2, 4, 5]
    [failure] = stats.failures
    error = failure.error
    assert isinstance(error, StageTimeoutError)
    assert (failure.origin, error.seconds, error.stage) == (3, SECONDS, failure.stage)
    assert "has not returned within 0.5 s; its process was killed" in str(error)
    assert any("it was at" in note and op.__name__ in note for note in error.__notes__)


def test_start_of_a_process_does_not_count(tmp_path: Path) -> None:
    """Every item gets a new process here, and far less time than one needs to start."""
    outputs, _ = run(ops.StartsSlowly(), [1, "exit", 3], call_timeout=SECONDS)
    assert outputs == [2, 6]


def test_each_attempt_has_its_time(tmp_path: Path) -> None:
    """A retry that covers the timeout starts anew in another process."""
    outputs, stats = run(
        ops.FailsUntil(tmp_path, 1, "hang"),
        range(2),
        call_timeout=SECONDS,
        retry=Retry(2, on=StageTimeoutError, delay=0),
    )
    assert outputs == [(0, 2), (1, 2)]
    assert stats.num_failures == 0
