"""Pools of subinterpreters as executors of stages, which Python 3.14 has."""

import sys
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PriorityInterpreterPoolExecutor, RemoteOpError, run_pipeline_in_subprocess
from tests.pipeline.executors.interpreter_calls import (
    announce,
    count_to,
    is_main,
    keep_sum,
    refuse_three,
    twice,
    was_announced,
)
from tests.support.running import TIMEOUT, build_of, run, running

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 14), reason="needs interpreter pools"),
    pytest.mark.slow,  # a subinterpreter imports the package
]


def pool(*args: Any, **kwargs: Any) -> Any:
    """An ``InterpreterPoolExecutor``, which older Pythons and their type checkers do not have."""
    cls: Any = getattr(futures, "InterpreterPoolExecutor")  # noqa: B009 - the checkers' Python has none
    return cls(*args, **kwargs)


def pipe(op: Any, executor: Executor, **options: Any) -> Callable[[PipelineBuilder[Any, Any]], Any]:
    return lambda builder: builder.pipe(op, executor=executor, **options)


def failures_of(builder: Any) -> tuple[list[Any], list[BaseException]]:
    """What comes out, and the errors of its first stage."""
    with running(builder) as pipeline:
        items = list(pipeline.get_iterator(timeout=TIMEOUT))
        return items, [failure.error for failure in pipeline.stats().stages[1].failures]


def test_calls_run_in_another_interpreter() -> None:
    """No item is lost, and none is called here."""
    with pool(2) as executor:
        assert sorted(run(build_of(range(20), pipe(twice, executor, concurrency=3)))) == [*range(0, 40, 2)]
        assert run(build_of([0], pipe(is_main, executor))) == [False]
    assert is_main(0)


def test_generators_give_all_of_their_items() -> None:
    """They run to their end there."""
    with pool(1) as executor:
        assert run(build_of([3, 1], pipe(count_to, executor))) == [(3, 0), (3, 1), (3, 2), (1, 0)]


def test_an_error_costs_one_item_and_says_what_was_raised_there() -> None:
    """As in a process pool."""
    with pool(1) as executor:
        items, (error,) = failures_of(build_of(range(5), pipe(refuse_three, executor)))
    assert items == [0, 1, 2, 4]
    assert isinstance(error, RemoteOpError)
    assert error.type_name == "KeyError"


def test_what_cannot_be_sent_costs_one_item() -> None:
    """A lock does not pickle."""
    with pool(1) as executor:
        items, errors = failures_of(build_of([1, threading.Lock(), 2], pipe(twice, executor)))
    assert items == [2, 4]
    assert len(errors) == 1


def test_async_stages_may_use_one() -> None:
    """With ``output_order="input"``, where calls are awaited in the event loop."""
    with pool(2) as executor:
        builder = build_of(range(8), pipe(twice, executor, concurrency=2, output_order="input"))
        assert run(builder) == [*range(0, 16, 2)]


def test_stages_share_a_pool_by_priority() -> None:
    """Entry points of a priority pool of interpreters are executors like any other."""
    with PriorityInterpreterPoolExecutor(1) as owner:
        first, second = owner.get_executor(), owner.get_executor()
        assert first.is_interpreter_pool
        assert not first.is_process_pool
        assert run(build_of([2, 1], pipe(count_to, first), pipe(keep_sum, second))) == [2, 3, 1]


def test_a_pool_is_made_again_in_a_subprocess() -> None:
    """With its initializer and its arguments."""
    executor = pool(1, initializer=announce, initargs=("here",))
    builder = build_of(range(3), pipe(partial(was_announced, "here"), executor))
    items = list(run_pipeline_in_subprocess(builder, num_threads=1, timeout=TIMEOUT))
    executor.shutdown()
    assert items == [0, 1, 2]
