"""``Retry(on=function)`` and ``Retry(timeout_per_attempt=...)``."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, StageTimeoutError
from spdl.pipeline.defs import Retry
from tests.support.running import TIMEOUT

SOON = 0.03


def build(op: Any, source: Any, **options: Any) -> Pipeline[Any]:
    options.setdefault("max_failures", -1)
    return PipelineBuilder().add_source(source).pipe(op, **options).add_sink().build(num_threads=2)


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def is_temporary(error: Exception) -> bool:
    return isinstance(error, StatusError) and error.status >= 500


class Server:
    """Answers each item with the statuses that are given, the last again and again."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = statuses
        self.num_calls = 0

    def answer(self, item: Any) -> Any:
        status = self.statuses[min(self.num_calls, len(self.statuses) - 1)]
        self.num_calls += 1
        if status != 200:
            raise StatusError(status)
        return item

    async def answer_async(self, item: Any) -> Any:
        await asyncio.sleep(0)
        return self.answer(item)

    def answer_later(self, item: Any) -> Iterator[Any]:
        yield self.answer(item)

    async def answer_later_async(self, item: Any) -> AsyncIterator[Any]:
        yield self.answer(item)


KINDS = ["answer", "answer_async", "answer_later", "answer_later_async"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("statuses", "num_calls", "found"),
    [((503, 500, 200), 3, [1]), ((404, 200), 1, []), ((503, 404, 200), 2, []), ((500,), 4, [])],
)
def test_a_function_decides(kind: str, statuses: tuple[int, ...], num_calls: int, found: list[int]) -> None:
    """By what the exception says, not only by its class."""
    server = Server(*statuses)
    pipeline = build(getattr(server, kind), [1], retry=Retry(4, on=is_temporary, delay=0))
    assert list(pipeline) == found
    assert server.num_calls == num_calls
    if not found:
        [failure] = pipeline.stats().stages[1].failures
        assert failure.attempts == num_calls


def test_a_function_that_raises_fails_the_item() -> None:
    """With its own exception, and the op's as the context."""

    def broken(error: Exception) -> bool:
        raise LookupError("of the function")

    server = Server(500)
    pipeline = build(server.answer, [1], retry=Retry(4, on=broken, delay=0))
    assert list(pipeline) == []
    assert server.num_calls == 1
    [failure] = pipeline.stats().stages[1].failures
    assert type(failure.error) is LookupError
    assert type(failure.error.__context__) is StatusError


async def decide(error: Exception) -> bool:
    return True


@pytest.mark.parametrize("on", [decide, "OSError", 3, (OSError, is_temporary), KeyboardInterrupt])
def test_what_cannot_decide_is_refused(on: Any) -> None:
    """A class that is no ordinary exception, a mixture, or a coroutine function."""
    with pytest.raises(TypeError, match="on must"):
        Retry(3, on=on)


def test_the_description_shows_both() -> None:
    """If they are not the defaults."""
    shown = repr(Retry(3, on=is_temporary, timeout_per_attempt=2))
    assert "is_temporary" in shown
    assert "timeout_per_attempt=2" in shown
    assert "on=" not in repr(Retry(3))
    assert "timeout" not in repr(Retry(3))


@pytest.mark.parametrize("seconds", [0, -1, "1", float("nan"), True])
def test_other_limits_are_refused(seconds: Any) -> None:
    """A time above 0, or none."""
    with pytest.raises((TypeError, ValueError), match="timeout_per_attempt"):
        Retry(3, timeout_per_attempt=seconds)


# -- attempts that are late


class Slow:
    """Does not return from the first calls for each item, until it is let go."""

    def __init__(self, num_slow: int) -> None:
        self.num_slow = num_slow
        self.calls: list[Any] = []
        self.cancelled: list[Any] = []
        self.gate = threading.Event()

    def call(self, item: Any) -> Any:
        self.calls.append(item)
        if self.calls.count(item) <= self.num_slow:
            self.gate.wait(TIMEOUT)
        return item

    async def call_async(self, item: Any) -> Any:
        self.calls.append(item)
        if self.calls.count(item) <= self.num_slow:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(item)
        return item

    def call_later(self, item: Any) -> Iterator[Any]:
        yield self.call(item)
        yield -item

    async def call_later_async(self, item: Any) -> AsyncIterator[Any]:
        yield await self.call_async(item)
        yield -item

    def close(self) -> None:
        self.gate.set()
        for thread in threading.enumerate():
            if thread.name.startswith("spdl-attempt"):
                thread.join(TIMEOUT)


LATE = ["call", "call_async", "call_later", "call_later_async"]


@pytest.mark.parametrize("kind", LATE)
def test_an_attempt_that_is_late_is_followed_by_another(kind: str) -> None:
    """Of the same item; async attempts are cancelled."""
    slow = Slow(1)
    retry = Retry(3, delay=0, timeout_per_attempt=SOON)
    try:
        pipeline = build(getattr(slow, kind), [1, 2], retry=retry, concurrency=2)
        assert sorted(pipeline) == ([-2, -1, 1, 2] if "later" in kind else [1, 2])
    finally:
        slow.close()
    assert sorted(slow.calls) == [1, 1, 2, 2]
    assert sorted(slow.cancelled) == ([1, 2] if "async" in kind else [])
    assert pipeline.stats().stages[1].num_failures == 0


@pytest.mark.parametrize("kind", LATE)
def test_the_last_attempt_that_is_late_fails_the_item(kind: str) -> None:
    """With the time and, on threads, where it was; the thread of the pool is free again."""
    slow = Slow(9)
    retry = Retry(2, delay=0, timeout_per_attempt=SOON)
    try:
        pipeline = build(getattr(slow, kind), [1], retry=retry)
        assert list(pipeline) == []
        [failure] = pipeline.stats().stages[1].failures
        assert isinstance(failure.error, StageTimeoutError)
        assert failure.error.seconds == SOON
        assert failure.attempts == 2
        if "async" not in kind:
            assert any("self.gate.wait" in note for note in failure.error.__notes__)
    finally:
        slow.close()


def test_lateness_is_tried_again_only_if_it_is_covered() -> None:
    """It is an exception like others."""
    slow = Slow(9)
    try:
        pipeline = build(slow.call, [1], retry=Retry(5, on=OSError, delay=0, timeout_per_attempt=SOON))
        assert list(pipeline) == []  # StageTimeoutError is a TimeoutError, and so an OSError
        assert len(slow.calls) == 5
        pipeline = build(slow.call, [2], retry=Retry(5, on=ValueError, delay=0, timeout_per_attempt=SOON))
        assert list(pipeline) == []
        assert slow.calls.count(2) == 1
    finally:
        slow.close()


def test_attempts_in_time_give_what_they_give() -> None:
    """Results, exceptions and attempts are as without a limit."""
    server = Server(500, 500, 200)
    retry = Retry(3, delay=0, timeout_per_attempt=TIMEOUT)
    assert list(build(server.answer, [5], retry=retry)) == [5]
    pipeline = build(Server(404).answer, [5], retry=Retry(1, timeout_per_attempt=TIMEOUT))
    assert list(pipeline) == []
    [failure] = pipeline.stats().stages[1].failures
    assert type(failure.error) is StatusError


def test_thread_pools_of_the_user_have_it_too() -> None:
    """The pool's thread goes on to the next attempt."""
    slow = Slow(1)
    with ThreadPoolExecutor(1) as pool:
        try:
            retry = Retry(2, delay=0, timeout_per_attempt=SOON)
            assert list(build(slow.call, [1, 2], retry=retry, executor=pool)) == [1, 2]
        finally:
            slow.close()


def test_the_timeout_of_the_stage_limits_all_attempts() -> None:
    """Whatever each of them may take."""
    slow = Slow(99)
    retry = Retry(1000, delay=0, timeout_per_attempt=SOON)
    try:
        pipeline = build(slow.call, [1], retry=retry, call_timeout=5 * SOON)
        assert list(pipeline) == []
        [failure] = pipeline.stats().stages[1].failures
        assert isinstance(failure.error, StageTimeoutError)
        assert failure.error.seconds == 5 * SOON
    finally:
        slow.num_slow = 0
        slow.close()


class SlowOnce:
    """In another process: the first attempt for each item does not return."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, item: int) -> int:
        path = self.folder / str(item)
        with suppress(FileExistsError):
            path.touch(exist_ok=False)
            threading.Event().wait()
        return item


def is_timeout(error: Exception) -> bool:
    return isinstance(error, StageTimeoutError)


@pytest.mark.slow
def test_an_isolated_attempt_that_is_late_is_killed(tmp_path: Path) -> None:
    """And the next one runs in another process. Functions that decide pickle with the op."""
    retry = Retry(3, on=is_timeout, delay=0, timeout_per_attempt=1.0)
    assert list(build(SlowOnce(tmp_path), [1, 2], isolate=True, retry=retry, call_timeout=TIMEOUT)) == [1, 2]


def fails_twice(item: tuple[Path, int]) -> int:
    path, value = item
    with open(path, "a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) < 3:
            raise StatusError(500)
    return value


@pytest.mark.slow
def test_a_function_decides_in_an_isolated_process(tmp_path: Path) -> None:
    """Where the exception is what it is."""
    pipeline = build(fails_twice, [(tmp_path / "a", 1)], isolate=True, retry=Retry(3, on=is_temporary, delay=0))
    assert list(pipeline) == [1]
    pipeline = build(fails_twice, [(tmp_path / "b", 1)], isolate=True, retry=Retry(2, on=is_temporary, delay=0))
    assert list(pipeline) == []
    assert pipeline.stats().stages[1].failures[0].attempts == 2
