"""``pipe(retry=...)``: how often an op is called, what is seen of it, and that a stop ends the waits."""

import asyncio
import multiprocessing
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, Pipeline, PipelineBuilder, PipelineFailure, RemoteOpError, TaskHook
from spdl.pipeline.defs import Retry
from tests.support.running import await_event

NOW: dict[str, Any] = {"delay": 0.0}


class Flaky:
    """Fails ``num_failures`` times for each item."""

    def __init__(self, num_failures: int, error: type[Exception] = OSError) -> None:
        self.num_failures, self.error = num_failures, error
        self.calls: list[Any] = []

    def attempt(self, item: Any) -> Any:
        self.calls.append(item)
        if self.calls.count(item) <= self.num_failures:
            raise self.error(f"{item} for the {self.calls.count(item)}. time")
        return item


def sync(flaky: Flaky) -> Callable[[Any], Any]:
    return lambda item: flaky.attempt(item)


def generator(flaky: Flaky) -> Callable[[Any], Any]:
    def generate(item: Any) -> Iterator[Any]:
        yield flaky.attempt(item)

    return generate


def asynchronous(flaky: Flaky) -> Callable[[Any], Any]:
    async def call(item: Any) -> Any:
        await asyncio.sleep(0)
        return flaky.attempt(item)

    return call


def async_generator(flaky: Flaky) -> Callable[[Any], Any]:
    async def generate(item: Any) -> AsyncIterator[Any]:
        yield flaky.attempt(item)

    return generate


KINDS = [sync, generator, asynchronous, async_generator]


def build(op: Any, source: Any = range(3), **options: Any) -> Pipeline[Any]:
    return PipelineBuilder().add_source(source).pipe(op, **options).add_sink().build(num_threads=2)


@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_is_called_again(kind: Any) -> None:
    """Up to ``attempts`` calls; no trace of the failures before a success."""
    flaky = Flaky(2)
    pipeline = build(kind(flaky), retry=Retry(3, **NOW))
    assert sorted(pipeline) == [0, 1, 2]
    assert len(flaky.calls) == 9
    stage = pipeline.stats().stages[1]
    assert (stage.num_failures, stage.num_emitted) == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_exception_is_the_failure(kind: Any) -> None:
    """With a note of how many attempts there were."""
    flaky = Flaky(9)
    pipeline = build(kind(flaky), source=[5], retry=Retry(3, **NOW), max_failures=-1)
    assert list(pipeline) == []
    assert len(flaky.calls) == 3
    [failure] = pipeline.stats().stages[1].failures
    assert "5 for the 3. time" in str(failure.error)
    assert any("attempt 3 of 3" in note for note in failure.error.__notes__)


@pytest.mark.parametrize("kind", KINDS)
def test_other_exceptions_are_not_retried(kind: Any) -> None:
    """Only those that ``on`` names."""
    flaky = Flaky(9, KeyError)
    pipeline = build(kind(flaky), retry=Retry(3, on=OSError, **NOW), max_failures=-1)
    assert list(pipeline) == []
    assert len(flaky.calls) == 3
    assert pipeline.stats().stages[1].num_failures == 3


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_generators_are_not_begun_again_after_an_output(kind: str) -> None:
    """What was emitted cannot be taken back."""
    calls = []

    def generate(item: Any) -> Iterator[Any]:
        calls.append(item)
        yield item
        raise OSError

    async def agenerate(item: Any) -> AsyncIterator[Any]:
        calls.append(item)
        yield item
        raise OSError

    pipeline = build(generate if kind == "sync" else agenerate, retry=Retry(3, **NOW))
    assert sorted(pipeline) == [0, 1, 2]
    assert len(calls) == 3
    assert pipeline.stats().stages[1].num_failures == 3


@pytest.mark.parametrize("order", ["input", "completion"])
def test_order_and_executors(order: Any) -> None:
    """In a thread pool, with the order of the inputs."""
    flaky = Flaky(1)
    with ThreadPoolExecutor(2) as pool:
        pipeline = build(
            sync(flaky), range(20), concurrency=3, executor=pool, output_order=order, retry=Retry(2, **NOW)
        )
        found = list(pipeline)
    assert (found if order == "input" else sorted(found)) == list(range(20))


def fail_three_times_by_file(item: Any) -> Any:
    path, value = item
    with open(path, "a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) < 4:
            raise ConnectionError("not yet")
    return value


@pytest.mark.slow
def test_process_pools_retry_where_the_type_is_known(tmp_path: Any) -> None:
    """The exception never crosses."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        retry = Retry(4, on=ConnectionError, **NOW)
        pipeline = build(fail_three_times_by_file, [(tmp_path / "a", 1)], executor=pool, retry=retry)
        assert list(pipeline) == [1]
        retry = Retry(3, **NOW)
        pipeline = build(fail_three_times_by_file, [(tmp_path / "b", 1)], executor=pool, retry=retry, max_failures=-1)
        assert list(pipeline) == []
        [failure] = pipeline.stats().stages[1].failures
    assert isinstance(failure.error, RemoteOpError)
    assert failure.error.type_name == "ConnectionError"


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_see_one_call(kind: Any) -> None:
    """A call with all its attempts is one call."""
    flaky = Flaky(1)
    entered = []

    class Hook(TaskHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            entered.append(input_item)
            yield

    builder = PipelineBuilder().add_source(range(3)).pipe(kind(flaky), retry=Retry(2, **NOW)).add_sink()
    pipeline = builder.build(num_threads=2, task_hook_factory=lambda info: [Hook()])
    assert sorted(pipeline) == [0, 1, 2]
    assert len(entered) == (6 if "generator" in kind.__name__ else 3)  # a generator's last step is one too


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_ends_the_waits(kind: Any) -> None:
    """Nobody waits for an hour."""
    failed = threading.Event()

    class Watched(Flaky):
        def attempt(self, item: Any) -> Any:
            failed.set()
            return super().attempt(item)

    flaky = Watched(99)
    pipeline = build(kind(flaky), retry=Retry(99, delay=3600, max_delay=3600))
    with pipeline.auto_stop():
        await_event(failed)
    assert pipeline.stats().state == "ended"
    assert len(set(flaky.calls)) == len(flaky.calls)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attempts", [1, 2, 3, 4])
def test_attempts_are_calls_in_all(kind: Any, attempts: int) -> None:
    """Two failures are survived by three attempts and more; else the last exception is the item's failure."""
    flaky = Flaky(2)
    pipeline = build(kind(flaky), retry=Retry(attempts, **NOW), max_failures=-1)
    items, stage = sorted(pipeline), pipeline.stats().stages[1]
    survives = attempts >= 3
    assert items == ([0, 1, 2] if survives else [])
    assert stage.num_failures == (0 if survives else 3)
    assert sorted(flaky.calls) == sorted(list(range(3)) * min(attempts, 3))


def test_a_number_is_that_many_attempts() -> None:
    """With the usual waits."""
    flaky = Flaky(1)
    assert list(build(sync(flaky), [5], retry=2)) == [5]
    assert flaky.calls == [5, 5]


def test_retries_do_not_count_for_the_limit() -> None:
    """Failures of items do."""
    flaky = Flaky(1)
    assert list(build(sync(flaky), range(5), retry=Retry(2, **NOW), max_failures=0)) == [0, 1, 2, 3, 4]
    pipeline = build(sync(Flaky(2)), range(5), retry=Retry(2, **NOW), max_failures=0)
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline)
    [error] = caught.value.exceptions
    assert isinstance(error, FailureLimitError)
    assert "failed 1 times" in str(error)


def test_order_of_inputs_is_kept_over_retries() -> None:
    """The late one is waited for."""
    flaky = Flaky(2)
    retry = Retry(3, delay=0.001)
    assert list(build(sync(flaky), range(20), concurrency=4, output_order="input", retry=retry)) == list(range(20))


@pytest.mark.parametrize("kind", KINDS)
def test_delays_leave_the_global_generator_alone(kind: Any) -> None:
    """What users draw from ``random`` does not depend on how often an op was called again."""
    random.seed(5)
    expected = random.random()
    random.seed(5)
    pipeline = build(kind(Flaky(2)), retry=Retry(3, delay=1e-9, jitter=1.0))
    with pipeline.auto_stop():
        assert list(pipeline)
    assert random.random() == expected
