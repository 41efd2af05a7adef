"""``pipe(op, retry=..., timeout=...)``: calling again, and giving up on calls that take too long."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, StageTimeoutError
from spdl.pipeline.defs import Pipe, Retry
from tests.support import ops
from tests.support.running import TIMEOUT, await_event, build_of, drain, fail, run

KINDS = ["sync", "async"]


class Flaky:
    """An op that fails so many times on each item before it succeeds; counts its calls."""

    def __init__(self, num_failures: int, error: Exception | None = None) -> None:
        self.num_failures = num_failures
        self.error = ValueError("flaky") if error is None else error
        self.calls: list[Any] = []
        self.lock = threading.Lock()

    def __call__(self, item: Any) -> Any:
        with self.lock:
            self.calls.append(item)
            if self.calls.count(item) <= self.num_failures:
                raise self.error
        return item

    async def call_async(self, item: Any) -> Any:
        await asyncio.sleep(0)
        return self(item)

    def of(self, kind: str) -> Any:
        return {"sync": self, "async": self.call_async}[kind]


def ended(builder: Any, **options: Any) -> tuple[list[Any], Any]:
    """What came out of a pipeline that ended well, and the statistics of its stage."""
    pipeline = builder.build(**{"num_threads": 2, **options})
    items, failure = drain(pipeline)
    assert failure is None, failure.exceptions
    return items, pipeline.stats().stages[1]


# -- retry


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attempts", [1, 2, 3, 4])
def test_attempts_are_calls_in_all(kind: str, attempts: int) -> None:
    """Two failures are survived by three attempts and more; else the last exception is the item's failure."""
    flaky = Flaky(2)
    items, stage = ended(build_of(range(3), lambda b: b.pipe(flaky.of(kind), retry=Retry(attempts, delay=0))))
    survives = attempts >= 3
    assert items == ([0, 1, 2] if survives else [])
    assert stage.num_failures == (0 if survives else 3)
    assert sorted(flaky.calls) == sorted(list(range(3)) * min(attempts, 3))
    if not survives:
        assert all(failure.error is flaky.error for failure in stage.failures)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_tells_how_often_it_was_tried(kind: str) -> None:
    """In a note of the exception."""
    _, stage = ended(build_of([5], lambda b: b.pipe(Flaky(9).of(kind), retry=Retry(4, delay=0))))
    assert any("4" in note and "attempt" in note for note in stage.failures[0].error.__notes__)


def test_a_number_is_that_many_attempts() -> None:
    """With the usual waits."""
    flaky = Flaky(1)
    assert run(build_of([5], lambda b: b.pipe(flaky, retry=2))) == [5]
    assert flaky.calls == [5, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_only_chosen_exceptions_are_tried_again(kind: str) -> None:
    """Others are failures at once."""
    for error, num_calls in ((KeyError("other"), 1), (ConnectionError("chosen"), 3), (ConnectionResetError(), 3)):
        flaky = Flaky(9, error)
        _, stage = ended(
            build_of([1], lambda b, f=flaky: b.pipe(f.of(kind), retry=Retry(3, on=(ConnectionError,), delay=0)))  # type: ignore[misc]
        )
        assert len(flaky.calls) == num_calls
        assert stage.failures[0].error is error


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0,), ValueError),
        ((-1,), ValueError),
        (("3",), TypeError),
        ((True,), TypeError),
        ((2, ()), ValueError),
        ((2, (int,)), TypeError),
        ((2, (Exception,), -1), ValueError),
        ((2, (Exception,), 0.1, 0.5), ValueError),
        ((2, (Exception,), 0.1, 2.0, -1), ValueError),
        ((2, (Exception,), 0.1, 2.0, 30.0, 2.0), ValueError),
        ((2, (Exception,), 0.1, 2.0, 30.0, -0.5), ValueError),
        ((2, (Exception,), float("nan")), ValueError),
    ],
)
def test_impossible_retries_are_refused(arguments: Any, error: type[Exception]) -> None:
    """By the description itself."""
    with pytest.raises((error, ValueError, TypeError)):
        Retry(*arguments)


def test_a_retry_is_what_it_says() -> None:
    """Its defaults, equal by value, and frozen."""
    retry = Retry(3)
    assert (retry.attempts, retry.on, retry.delay, retry.backoff, retry.max_delay, retry.jitter) == (
        3, (Exception,), 0.1, 2.0, 30.0, 0.5,
    )  # fmt: skip
    assert retry == Retry(attempts=3) != Retry(4)
    with pytest.raises(AttributeError):
        retry.attempts = 4  # type: ignore[misc]  # what is tested


@pytest.mark.parametrize("value", [0, -2, 1.5, "2", True])
def test_impossible_numbers_of_attempts_are_refused(value: Any) -> None:
    """By ``pipe``."""
    with pytest.raises((ValueError, TypeError), match="retry"):
        Pipe(ops.same, retry=value)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "1", True])
def test_impossible_times_are_refused(value: Any) -> None:
    """By ``pipe``."""
    with pytest.raises((ValueError, TypeError), match="timeout"):
        Pipe(ops.same, timeout=value)


@pytest.mark.parametrize("kind", KINDS)
def test_stop_ends_the_wait_between_attempts(kind: str) -> None:
    """At once: the next attempt would be in an hour."""
    called = threading.Event()

    class Calls(Flaky):
        def __call__(self, item: Any) -> Any:
            called.set()
            return super().__call__(item)

    flaky = Calls(99)
    builder = build_of([1], lambda b: b.pipe(flaky.of(kind), retry=Retry(3, delay=3600, max_delay=3600, jitter=0)))
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        await_event(called)
    assert flaky.calls == [1]


def test_generators_are_tried_again_until_their_first_output() -> None:
    """After it, what they raise is a failure at once; what they had given stays."""
    calls: list[int] = []

    def late(item: int) -> Iterator[int]:
        calls.append(item)
        if calls.count(item) < 3:
            raise ValueError("before")
        yield item
        raise ValueError("after")

    items, stage = ended(build_of([7], lambda b: b.pipe(late, retry=Retry(5, delay=0))))
    assert (items, calls, stage.num_failures) == ([7], [7, 7, 7], 1)


def test_async_generators_are_tried_again_until_their_first_output() -> None:
    """The same on the loop."""
    calls: list[int] = []

    async def late(item: int) -> AsyncIterator[int]:
        calls.append(item)
        if calls.count(item) < 3:
            raise ValueError("before")
        yield item
        raise ValueError("after")

    items, stage = ended(build_of([7], lambda b: b.pipe(late, retry=Retry(5, delay=0))))
    assert (items, calls, stage.num_failures) == ([7], [7, 7, 7], 1)


def test_retries_do_not_count_for_the_limit() -> None:
    """Failures of items do."""
    flaky = Flaky(1)
    assert run(build_of(range(5), lambda b: b.pipe(flaky, retry=Retry(2, delay=0))), max_failures=0) == [0, 1, 2, 3, 4]
    items, error = fail(build_of(range(5), lambda b: b.pipe(Flaky(2), retry=Retry(2, delay=0))), max_failures=0)
    assert items == []
    assert isinstance(error, FailureLimitError)
    assert "failed 1 times" in str(error)


def test_order_of_inputs_is_kept_over_retries() -> None:
    """The late one is waited for."""
    flaky = Flaky(2)
    builder = build_of(
        range(20), lambda b: b.pipe(flaky, concurrency=4, output_order="input", retry=Retry(3, delay=0.001))
    )
    assert run(builder, num_threads=4) == list(range(20))


def test_calls_of_an_executor_are_tried_again() -> None:
    """On that executor."""
    flaky = Flaky(1)
    with ThreadPoolExecutor(1) as pool:
        assert run(build_of(range(3), lambda b: b.pipe(flaky, executor=pool, retry=Retry(2, delay=0)))) == [0, 1, 2]
    assert sorted(flaky.calls) == [0, 0, 1, 1, 2, 2]


# -- timeout


class Gate:
    """An op that holds odd items until it is opened, and tells what came through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.passed = threading.Event()

    def __call__(self, item: int) -> int:
        if item % 2:
            await_event(self.gate)
            self.passed.set()
        return item

    async def call_async(self, item: int) -> int:
        if item % 2:
            await asyncio.Event().wait()
        return item


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_too_long_costs_its_item(kind: str) -> None:
    """StageTimeoutError, which is a TimeoutError too, in the ledger with the item's name; the others come."""
    gate = Gate()
    try:
        builder = build_of(range(5), lambda b: b.pipe(gate if kind == "sync" else gate.call_async, timeout=0.2))
        items, stage = ended(builder, num_threads=1)
    finally:
        gate.gate.set()
    assert items == [0, 2, 4]
    assert stage.num_failures == 2
    assert [failure.item_repr for failure in stage.failures] == ["1", "3"]
    for failure in stage.failures:
        assert isinstance(failure.error, StageTimeoutError)
        assert isinstance(failure.error, TimeoutError)
    if kind == "sync":
        await_event(gate.passed)
        told = str(stage.failures[0].error) + "".join(stage.failures[0].error.__notes__)
        assert "await_event" in told


def test_an_abandoned_call_gives_its_slot_and_its_thread_back() -> None:
    """One thread, concurrency 1: what comes after it runs; its late result is discarded."""
    gate = Gate()
    source = [1, 3, 5, 2, 4]
    try:
        items, stage = ended(build_of(source, lambda b: b.pipe(gate, timeout=0.1)), num_threads=1)
    finally:
        gate.gate.set()
    assert items == [2, 4]
    assert stage.num_failures == 3
    await_event(gate.passed)


def test_a_late_result_is_discarded() -> None:
    """Though the pipeline still runs when it comes."""
    gate = Gate()

    def open_for(item: int) -> int:
        gate.gate.set()
        await_event(gate.passed)
        return item

    builder = build_of([1, 2, 4], lambda b: b.pipe(gate, timeout=0.1), lambda b: b.pipe(open_for))
    items, stage = ended(builder, num_threads=2)
    assert items == [2, 4]
    assert stage.num_failures == 1


def test_a_cancelled_call_cleans_up() -> None:
    """Its ``finally`` runs on the loop."""
    cleaned: list[int] = []

    async def wait(item: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(item)
        return item

    items, stage = ended(build_of(range(2), lambda b: b.pipe(wait, timeout=0.05)))
    assert (items, cleaned, stage.num_failures) == ([], [0, 1], 2)


def test_a_timeout_is_for_the_item_and_is_not_tried_again() -> None:
    """It covers all attempts and the waits between them."""
    flaky = Flaky(99)
    retry = Retry(50, delay=3600, max_delay=3600, jitter=0)
    _, stage = ended(build_of([1], lambda b: b.pipe(flaky, retry=retry, timeout=0.2)))
    assert flaky.calls == [1]
    assert stage.num_failures == 1
    gate = Gate()
    try:
        _, stage = ended(build_of([1], lambda b: b.pipe(gate, retry=Retry(3, delay=0), timeout=0.1)))
    finally:
        gate.gate.set()
    await_event(gate.passed)
    assert stage.num_failures == 1
    assert isinstance(stage.failures[0].error, StageTimeoutError)


def test_timeouts_count_for_the_limit() -> None:
    """As failures do."""
    gate = Gate()
    try:
        items, error = fail(build_of(range(5), lambda b: b.pipe(gate, timeout=0.1)), max_failures=0, num_threads=1)
    finally:
        gate.gate.set()
    await_event(gate.passed)
    assert items == [0]
    assert isinstance(error, FailureLimitError)
    assert isinstance(error.__cause__, StageTimeoutError)


def test_calls_in_time_are_left_alone() -> None:
    """However many there are."""
    assert run(build_of(range(300), lambda b: b.pipe(ops.same, timeout=TIMEOUT))) == list(range(300))
    assert run(build_of(range(300), lambda b: b.pipe(ops.same_async, timeout=TIMEOUT))) == list(range(300))
    builder = build_of(range(100), lambda b: b.pipe(ops.twice, timeout=TIMEOUT))
    assert len(run(builder)) == 200


def test_calls_of_an_executor_that_take_too_long() -> None:
    """They are left alone; the item has failed, and others come."""
    gate = Gate()
    with ThreadPoolExecutor(2) as pool:
        try:
            builder = build_of([0, 1, 2], lambda b: b.pipe(gate, executor=pool, timeout=0.2))
            items, stage = ended(builder)
        finally:
            gate.gate.set()
    assert (items, stage.num_failures) == ([0, 2], 1)
    assert isinstance(stage.failures[0].error, StageTimeoutError)
