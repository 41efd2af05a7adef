"""What keeps every child from starting fails the stage, once, and says why; what is an accident does not."""

import os
import signal
import threading
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineFailure, WorkerDiedError, WorkerError

from . import ops
from .running import TIMEOUT, build, gated, wait_for_end


def _failure_of(pipeline: Pipeline[Any]) -> Exception:
    with pytest.raises(PipelineFailure) as info, pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=TIMEOUT))
    [error] = info.value.exceptions
    assert pipeline.stats().stages[1].num_failures == 0  # no item is to blame
    return error


def test_op_that_cannot_be_pickled_fails_the_stage() -> None:
    """A lambda, for example."""
    error = _failure_of(build(lambda item: item, range(9)))
    assert isinstance(error, TypeError)
    assert "cannot be pickled" in str(error)
    assert any("cannot start its processes" in note for note in error.__notes__)


def test_op_that_cannot_be_unpickled_fails_the_stage() -> None:
    """Not every item in turn."""
    error = _failure_of(build(ops.FailsToArrive(), range(9)))
    assert isinstance(error, WorkerError)
    assert "refused to arrive" in str(error)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_children_that_die_at_every_start_fail_the_stage(concurrency: int) -> None:
    """After a few in a row."""
    error = _failure_of(build(ops.DiesOnArrival(), range(9), concurrency=concurrency))
    assert isinstance(error, WorkerDiedError)
    assert error.exit_code == 7
    assert any("in a row died before they were ready" in note for note in error.__notes__)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is not its own child")
def test_process_that_dies_while_it_is_idle_is_replaced() -> None:
    """No item is to blame, and none is lost."""
    gate = threading.Semaphore(1)
    pipeline = build(ops.pid_or_die, gated(range(4), gate))
    with pipeline.auto_stop():
        iterator = pipeline.get_iterator(timeout=TIMEOUT)
        _, first = next(iterator)
        process = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        wait_for_end(process)
        os.close(process)
        gate.release(3)
        rest = list(iterator)
    assert [item for item, _ in rest] == [1, 2, 3]
    assert first not in {pid for _, pid in rest}
    assert pipeline.stats().stages[1].num_failures == 0
