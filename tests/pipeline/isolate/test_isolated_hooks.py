"""Hooks of the user's around isolated calls see what the op did, as around any other."""

from typing import Any

import pytest

from spdl.pipeline import RemoteOpError, StageTimeoutError, WorkerDiedError
from spdl.pipeline.defs import Retry

from . import ops
from .running import Hook, run


def _run(op: Any, items: Any, **options: Any) -> tuple[list[Any], Any, list[Any]]:
    seen: list[Any] = []
    outputs, stats = run(op, items, hooks=lambda info: [Hook(seen)], **options)
    return outputs, stats, seen


@pytest.mark.parametrize("order", ["completion", "input"])
def test_hook_sees_a_death_as_the_exception_of_the_op(order: str) -> None:
    """The item fails with it."""
    outputs, stats, seen = _run(ops.die_or_double, [1, "kill", 3], output_order=order)
    assert outputs == [2, 6]
    assert seen == ["ok", WorkerDiedError, "ok"]
    [failure] = stats.failures
    assert isinstance(failure.error, WorkerDiedError)
    assert failure.origin == 1


def test_hook_sees_a_timeout_and_an_exception() -> None:
    """Each as what the item fails with."""
    _, _, seen = _run(ops.spin_on_three, [3], call_timeout=0.3)
    assert seen == [StageTimeoutError]
    _, _, seen = _run(ops.raise_on_three, [3])
    assert seen == [RemoteOpError]


def test_hook_is_around_all_attempts(tmp_path: Any) -> None:
    """A call with its retries is one call."""
    outputs, _, seen = _run(ops.FailsUntil(tmp_path, 2, "die"), [0], retry=Retry(3, delay=0))
    assert outputs == [(0, 3)]
    assert seen == ["ok"]


def test_generator_between_hooks() -> None:
    """Its outputs come one by one, although they crossed together."""
    outputs, stats, _ = _run(ops.yield_then_raise_on_three, range(2, 5))
    assert outputs == [2, -2, 3, 4, -4]
    assert stats.num_failures == 1


def test_stage_that_cannot_start_fails_once() -> None:
    """With hooks too."""
    with pytest.raises(ExceptionGroup) as info:
        _run(ops.FailsToArrive(), range(9))
    [error] = info.value.exceptions
    assert "refused to arrive" in str(error)
