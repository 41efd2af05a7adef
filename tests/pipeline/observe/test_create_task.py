"""``create_task``: what is logged when a task ends, and what is not."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from spdl._failure_log import is_compact_log, set_compact_log
from spdl.pipeline._observe._background import create_task


@pytest.fixture(autouse=True)
def _log_style(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    monkeypatch.delenv("SPDL_PIPELINE_COMPACT_LOG", raising=False)
    caplog.set_level(logging.DEBUG, logger="spdl")
    yield
    set_compact_log(None)


async def fail(exc: BaseException) -> None:
    raise exc


def run_all(*coros: Coroutine[Any, Any, Any], **kwargs: Any) -> list[Any]:
    """Run them one after the other in one loop, each as a task made by ``create_task``."""

    async def main() -> list[Any]:
        outcomes: list[Any] = []
        for coro in coros:
            task = create_task(coro, name="job", **kwargs)
            outcomes += await asyncio.gather(task, return_exceptions=True)
        return outcomes

    return asyncio.run(main())


def test_a_task_that_ends_well_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The result is that of the coroutine, the name that which was given, and the log stays empty."""

    async def answer() -> int:
        task = asyncio.current_task()
        assert task is not None
        assert task.get_name() == "job"
        return 42

    assert run_all(answer()) == [42]
    assert caplog.records == []


def test_a_failure_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Awaiting raises as usual; the log names the task and shows where it failed."""
    (outcome,) = run_all(fail(ValueError("bad size")))
    assert isinstance(outcome, ValueError)
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "Task [job] failed.")
    assert "in fail" in caplog.text
    assert "ValueError: bad size" in caplog.text


def test_a_failure_is_one_line_in_a_compact_log(caplog: pytest.LogCaptureFixture) -> None:
    """Type, first line of the message and place; no traceback."""
    set_compact_log(True)
    run_all(fail(ValueError("bad size\nof image")))
    (record,) = caplog.records
    assert record.exc_info is None
    message = record.getMessage()
    assert message.startswith("Task [job] failed: ValueError: bad size … (")
    assert message.endswith(":fail)")
    assert "\n" not in message


def test_a_timeout_is_an_error_without_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """A timeout says where, in one line."""
    run_all(fail(TimeoutError("no answer")))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("Task [job] timed out: TimeoutError: no answer (")
    assert record.exc_info is None


@pytest.mark.parametrize(("log_cancelled", "expected"), [(True, ["Task [job] was cancelled."]), (False, [])])
def test_a_cancellation_is_a_warning_if_asked_for(
    caplog: pytest.LogCaptureFixture, log_cancelled: bool, expected: list[str]
) -> None:
    """By default a cancelled task is silent."""
    run_all(fail(asyncio.CancelledError()), log_cancelled=log_cancelled)
    assert caplog.messages == expected
    assert all(record.levelname == "WARNING" for record in caplog.records)


def test_repeats_from_one_line_become_counts(caplog: pytest.LogCaptureFixture) -> None:
    """The first ones are logged in full, the threshold announces the silence, then there is a count per interval."""
    run_all(
        *(fail(ValueError(str(k))) for k in range(8)),
        suppress_repeated_logs=True,
        suppression_threshold=3,
        suppression_warning_interval=2,
    )
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING", "WARNING", "WARNING"]
    assert caplog.messages[2].startswith("ValueError at ")
    assert caplog.messages[2].endswith(":fail: 3 errors so far; further ones are only counted, every 2.")
    assert caplog.messages[3].endswith(":fail: 5 errors so far.")
    assert caplog.messages[4].endswith(":fail: 7 errors so far.")


def test_suppression_tells_lines_and_loops_apart(caplog: pytest.LogCaptureFixture) -> None:
    """Another raising line, and a new loop, start with a count of their own."""

    async def fail_elsewhere() -> None:
        raise ValueError

    settings: dict[str, Any] = {"suppress_repeated_logs": True, "suppression_threshold": 2}
    run_all(fail(ValueError()), fail_elsewhere(), **settings)
    run_all(fail(ValueError()), **settings)
    assert caplog.messages == ["Task [job] failed."] * 3


def test_repeats_are_logged_in_full_unless_suppressed(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is held back by default."""
    run_all(*(fail(ValueError()) for _ in range(7)))
    assert caplog.messages == ["Task [job] failed."] * 7


@pytest.mark.parametrize("name", ["suppression_threshold", "suppression_warning_interval"])
def test_limits_below_one_are_refused(name: str) -> None:
    """The message names the argument, and the coroutine is closed."""
    with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
        run_all(fail(ValueError()), **{name: 0})


def test_without_a_loop_the_coroutine_is_closed() -> None:
    """The error is asyncio's, and there is no second complaint that the coroutine was never awaited."""
    with pytest.raises(RuntimeError, match="no running event loop"):
        create_task(fail(ValueError()))


def test_the_log_style_follows_the_environment_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that was set wins; None goes back to the environment variable."""
    assert not is_compact_log()
    monkeypatch.setenv("SPDL_PIPELINE_COMPACT_LOG", "1")
    assert is_compact_log()
    set_compact_log(False)
    assert not is_compact_log()
    set_compact_log(None)
    assert is_compact_log()
    monkeypatch.setenv("SPDL_PIPELINE_COMPACT_LOG", "0")
    assert not is_compact_log()


def test_a_log_style_that_is_no_bool_is_refused() -> None:
    """A typo such as a string does not silently count as true."""
    with pytest.raises(TypeError, match="compact_log must be a bool or None, got 'off'"):
        set_compact_log("off")  # type: ignore[arg-type]
