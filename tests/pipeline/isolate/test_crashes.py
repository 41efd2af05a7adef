"""A crash of an isolated op costs its item; the error says what happened, on which item, and where."""

import signal
import sys
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, PipelineFailure, RemoteOpError, WorkerDiedError

from . import ops
from .running import TIMEOUT, build, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="deaths by signal")


@pytest.mark.parametrize(
    ("death", "code", "named"),
    [
        ("segfault", -signal.SIGSEGV, "killed by SIGSEGV"),
        ("abort", -signal.SIGABRT, "killed by SIGABRT"),
        ("exit", 3, "exit code 3"),
        ("kill", -signal.SIGKILL, "killed by SIGKILL, and not by this pipeline: perhaps by the kernel"),
    ],
)
def test_death_costs_the_item_and_is_named(death: str, code: int, named: str) -> None:
    """The others come out; the error has the exit code, the stage, the item and its source position."""
    outputs, stats = run(ops.die_or_double, [1, 2, death, 4])
    assert outputs == [2, 4, 8]
    assert (stats.num_calls, stats.num_failures, stats.num_emitted) == (4, 1, 3)
    [failure] = stats.failures
    assert (failure.origin, failure.item_repr) == (2, repr(death))
    assert isinstance(failure.error, WorkerDiedError)
    assert failure.error.exit_code == code
    assert named in str(failure.error)
    assert any("source position 2" in note for note in failure.error.__notes__)


@pytest.mark.parametrize("death", ["segfault", "abort"])
def test_crash_tells_where_it_was(death: str) -> None:
    """The stack of the op at the crash, without frames of ours, is in the error and among its notes."""
    _, stats = run(ops.die_or_double, [death])
    error = stats.failures[0].error
    assert isinstance(error, WorkerDiedError)
    assert error.remote_traceback is not None
    assert "ops.py" in error.remote_traceback
    assert "in die_or_double" in error.remote_traceback
    assert "_processes" not in error.remote_traceback
    assert "_isolated_main" not in error.remote_traceback
    assert "multiprocessing" not in error.remote_traceback
    assert any(error.remote_traceback in note for note in error.__notes__)


def test_process_is_kept_until_it_dies() -> None:
    """One process runs all items up to a crash, another all after it."""
    outputs, _ = run(ops.pid_or_die, [1, 2, "exit", 4, 5])
    first, second, third, fourth = (process for _, process in outputs)
    assert first == second != third == fourth


def test_deaths_count_against_the_limit() -> None:
    """A stage whose op crashes too often is given up, as with any failure."""
    pipeline = build(ops.die_or_double, [1, "exit", "exit", 4], max_failures=1)
    with pytest.raises(PipelineFailure) as info, pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=TIMEOUT))
    [error] = info.value.exceptions
    assert isinstance(error, FailureLimitError)
    assert isinstance(error.__cause__, WorkerDiedError)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_input_order_is_kept_over_crashes(concurrency: int) -> None:
    """Items that crash leave no gap."""
    items: list[Any] = [1, "exit", 3, 4, "kill", 6, 7, 8]
    outputs, stats = run(ops.die_or_double, items, concurrency=concurrency, output_order="input")
    assert outputs == [2, 6, 8, 12, 14, 16]
    assert {failure.origin for failure in stats.failures} == {1, 4}


def test_exception_costs_the_item_and_not_the_process() -> None:
    """It arrives as text, whatever its class is; the process goes on."""
    outputs, stats = run(ops.raise_on_three, range(5))
    assert outputs == [0, 1, 2, 4]
    error = stats.failures[0].error
    assert isinstance(error, RemoteOpError)
    assert error.type_name == "OwnError"
    assert "Function failed in subprocess: OwnError: 1 and 2 (ops.py:" in str(error)
    assert "in raise_on_three" in error.remote_traceback


def test_limit_of_memory_costs_the_item() -> None:
    """What is too large for the child raises there, and does not touch this process."""
    outputs, stats = run(ops.allocate_on_three, range(5))
    assert outputs == [0, 1, 2, 4]
    assert "MemoryError" in str(stats.failures[0].error)


@pytest.mark.parametrize(
    ("op", "items", "said"),
    [
        (ops.unpicklable_on_three, range(5), "the result cannot be pickled: cannot pickle"),
        (ops.refuse_in_parent_on_three, range(5), "refused to arrive"),
        (ops.double, [0, 1, 2, lambda: None, 4], "lambda"),
        (ops.double, [0, 1, 2, ops.FailsToArrive(), 4], "the item cannot be unpickled there: refused to arrive"),
    ],
)
def test_what_cannot_cross_costs_the_item(op: Any, items: Any, said: str) -> None:
    """Items and results that do not pickle, or unpickle, are failures; the process goes on."""
    outputs, stats = run(op, items)
    assert len(outputs) == 4
    assert stats.num_failures == 1
    assert said in str(stats.failures[0].error)


@pytest.mark.parametrize("order", ["completion", "input"])
def test_generator_is_collected(order: str) -> None:
    """All outputs of an item come when it has ended."""
    outputs, _ = run(ops.yield_twice, range(1, 4), output_order=order)
    assert outputs == [1, -1, 2, -2, 3, -3]


def test_generator_keeps_what_it_yielded_before_an_exception() -> None:
    """As in a process pool."""
    outputs, stats = run(ops.yield_then_raise_on_three, range(2, 5))
    assert outputs == [2, -2, 3, 4, -4]
    assert stats.num_failures == 1


def test_generator_that_dies_loses_what_it_yielded() -> None:
    """It had not crossed yet."""
    outputs, stats = run(ops.yield_then_die_on_three, range(2, 5))
    assert outputs == [2, -2, 4, -4]
    assert stats.num_failures == 1
