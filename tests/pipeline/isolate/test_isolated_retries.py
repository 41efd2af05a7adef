"""Isolated calls are made again after exceptions in the same process, after deaths in another."""

import os
from pathlib import Path

import pytest

from spdl.pipeline import RemoteOpError, WorkerDiedError
from spdl.pipeline.defs import Retry

from . import ops
from .running import TIMEOUT, build, run, wait_for


@pytest.mark.parametrize("how", ["raise", "die"])
def test_item_succeeds_in_a_later_attempt(tmp_path: Path, how: str) -> None:
    """It counts as one call, and nothing has failed."""
    outputs, stats = run(ops.FailsUntil(tmp_path, 2, how), range(3), retry=Retry(3, delay=0))
    assert outputs == [(0, 3), (1, 3), (2, 3)]
    assert (stats.num_calls, stats.num_failures) == (3, 0)


@pytest.mark.parametrize(("how", "cls"), [("raise", RemoteOpError), ("die", WorkerDiedError)])
def test_last_error_says_how_many_attempts_there_were(tmp_path: Path, how: str, cls: type[Exception]) -> None:
    """The item fails with the error of its last attempt."""
    outputs, stats = run(ops.FailsUntil(tmp_path, 9, how), [0], retry=Retry(2, delay=0))
    assert outputs == []
    error = stats.failures[0].error
    assert isinstance(error, cls)
    assert "attempt 2 of 2; those before failed too" in error.__notes__
    assert (tmp_path / "0").read_bytes() == b"xx"


@pytest.mark.parametrize(("how", "on"), [("raise", WorkerDiedError), ("die", KeyError), ("raise", OSError)])
def test_what_is_not_covered_is_not_retried(tmp_path: Path, how: str, on: type[Exception]) -> None:
    """The type of an exception is judged in the child, a death here."""
    _, stats = run(ops.FailsUntil(tmp_path, 1, how), [0], retry=Retry(5, on=on, delay=0))
    assert stats.num_failures == 1
    assert not any("attempt" in note for note in stats.failures[0].error.__notes__)


def test_covered_exception_is_known_by_its_type_in_the_child(tmp_path: Path) -> None:
    """Here it is only text."""
    outputs, _ = run(ops.FailsUntil(tmp_path, 1, "raise"), [0], retry=Retry(2, on=LookupError, delay=0))
    assert outputs == [(0, 2)]


def test_generator_is_not_retried_after_an_output() -> None:
    """What it yielded came out already, so to say."""
    outputs, stats = run(ops.yield_then_raise_on_three, [3], retry=Retry(3, delay=0))
    assert outputs == [3]
    assert not any("attempt" in note for note in stats.failures[0].error.__notes__)


def test_stop_ends_the_wait_before_an_attempt(tmp_path: Path) -> None:
    """However long it would be."""
    os.mkfifo(tmp_path / "fifo")
    pipeline = build(ops.tell_and_raise, [tmp_path / "fifo"], retry=Retry(2, delay=3600, max_delay=3600))
    pipeline.start()
    wait_for(tmp_path / "fifo")
    pipeline.stop(timeout=TIMEOUT)
