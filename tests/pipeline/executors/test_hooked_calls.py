"""Hooks around calls that run elsewhere: in executors, in worker processes, in isolated children, on worker threads.

The hooks run on the loop's thread all the same, and see the items, the results' ends and the errors of the calls.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Retry
from tests.support.running import build_of, run
from tests.support.watching import Log, add_ten, hooked, ten_and_twenty

pytestmark = pytest.mark.slow


class Flaky(Exception):
    """Raised by the first attempt at each item."""


def fail_at_three(item: int) -> int:
    if item == 3:
        raise KeyError("three")
    return item + 10


def ten_then_fail(item: int) -> Iterator[int]:
    yield item + 10
    if item == 1:
        raise KeyError("one")
    yield item + 20


class FailsFirst:
    """Fails at the first call for each item, in whichever thread or process it lives."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def __call__(self, item: int) -> int:
        if item not in self.seen:
            self.seen.add(item)
            raise Flaky(item)
        return item + 10


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, dict[str, Any]]]:
    """Arguments of ``pipe`` by the place where calls run."""
    spawn = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(1) as threads, ProcessPoolExecutor(1, mp_context=spawn) as processes:
        for pool in (threads, processes):
            list(pool.map(add_ten, range(2)))  # so that no test finds a new child of its own
        yield {
            "worker threads": {},
            "executor": {"executor": threads},
            "process pool": {"executor": processes},
            "isolated child": {"isolate": True},
        }


PLACES = ["worker threads", "executor", "process pool", "isolated child"]


def hooked_run(op: Any, source: Any, **options: Any) -> tuple[list[Any], Log]:
    log = Log()
    add: Callable[[PipelineBuilder[Any, Any]], Any] = lambda b: b.pipe(op, **options)  # noqa: E731
    return run(build_of(source, add), task_hook_factory=hooked(log)), log


@pytest.mark.parametrize("place", PLACES)
def test_hooks_see_calls_that_run_elsewhere(places: dict[str, dict[str, Any]], place: str) -> None:
    """One entry and one exit for each item; the error of a call passes through them and costs its item."""
    items, log = hooked_run(fail_at_three, range(5), **places[place])
    assert items == [10, 11, 12, 14]
    assert log.tasks("enter") == [0, 1, 2, 3, 4]
    assert log.tasks("exit") == [0, 1, 2, 4]


@pytest.mark.parametrize("place", PLACES)
def test_hooks_see_generators_that_run_elsewhere(places: dict[str, dict[str, Any]], place: str) -> None:
    """All outputs come, and what came before an error does where steps are taken one by one."""
    items, log = hooked_run(ten_and_twenty, range(3), **places[place])
    assert items == [10, 20, 11, 21, 12, 22]
    assert set(log.tasks("enter")) == {0, 1, 2}
    items, _ = hooked_run(ten_then_fail, range(3), **places[place])
    assert [item for item in items if item != 11] == [10, 20, 12, 22]


@pytest.mark.parametrize("place", PLACES)
def test_calls_that_run_elsewhere_between_hooks_keep_their_time(places: dict[str, dict[str, Any]], place: str) -> None:
    """A timeout that is not reached changes nothing."""
    assert hooked_run(add_ten, range(4), call_timeout=60, **places[place])[0] == [10, 11, 12, 13]
    assert hooked_run(ten_and_twenty, range(2), call_timeout=60, **places[place])[0] == [10, 20, 11, 21]


@pytest.mark.parametrize("place", ["worker threads", "executor", "isolated child"])
def test_retries_between_hooks(places: dict[str, dict[str, Any]], place: str) -> None:
    """All attempts at an item are one call to the hooks."""
    op, retry = FailsFirst(), Retry(2, on=Flaky, delay=0)
    items, log = hooked_run(op, range(3), retry=retry, **places[place])
    assert items == [10, 11, 12]
    assert log.tasks("enter") == [0, 1, 2]


def test_an_executor_of_another_kind_between_hooks() -> None:
    """Whatever has a ``submit`` that returns futures."""

    class Named(ThreadPoolExecutor):
        pass

    executor: Executor
    with Named(1) as executor:
        assert hooked_run(add_ten, range(3), executor=executor)[0] == [10, 11, 12]
