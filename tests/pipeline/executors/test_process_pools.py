"""Process pools, and priority pools of processes, as executors of a stage."""

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineError, PriorityProcessPoolExecutor, RemoteOpError
from tests.support.running import Recorder, build_of, drain, fail, run


def double(item: int) -> int:
    return 2 * item


def process_id(item: int) -> int:
    return os.getpid()


def refuse_three(item: int) -> int:
    if item == 3:
        raise KeyError("three")
    return item


def none_for_odd(item: int) -> int | None:
    return None if item % 2 else item


def count_to(item: int) -> Iterator[tuple[int, int]]:
    for k in range(item):
        yield item, k


def count_and_break(item: int) -> Iterator[Any]:
    yield item, 0
    yield None
    if item == 1:
        raise ValueError("broken", item)
    yield item, 1


def die(item: int) -> int:
    if item == 2:
        os._exit(7)
    return item


class Unpicklable(Exception):
    """It cannot be made again from its ``args``."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_unpicklable(item: int) -> int:
    raise Unpicklable(1, 2)


def leave(item: int) -> int:
    raise SystemExit(3)


class Scaler:
    """State of a worker, set by an initializer."""

    factor = 1


def set_factor(factor: int) -> None:
    Scaler.factor = factor


def scale(item: int) -> int:
    return Scaler.factor * item


class Doubled:
    def __getitem__(self, index: int) -> int:
        return 2 * index


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Two worker processes, shared by the tests of this file."""
    with ProcessPoolExecutor(
        2, mp_context=multiprocessing.get_context("spawn"), initializer=set_factor, initargs=(10,)
    ) as pool:
        list(pool.map(double, range(8)))  # both have started, so that no test finds a new child of its own
        yield pool


def pipe(op: Any, executor: Executor, **options: Any) -> Callable[[PipelineBuilder[Any, Any]], Any]:
    return lambda builder: builder.pipe(op, executor=executor, **options)


def test_calls_run_in_other_processes(processes: ProcessPoolExecutor) -> None:
    """Functions, containers, callable objects that pickle; ``None`` filters there too."""
    pids = run(build_of(range(8), pipe(process_id, processes, concurrency=2)))
    assert os.getpid() not in pids
    assert run(build_of(range(4), pipe([0, 2, 4, 6], processes))) == [0, 2, 4, 6]
    assert run(build_of(range(4), pipe(Doubled(), processes))) == [0, 2, 4, 6]
    assert run(build_of(range(6), pipe(none_for_odd, processes))) == [0, 2, 4]


def test_initializers_of_a_process_pool_have_run(processes: ProcessPoolExecutor) -> None:
    """One stage in processes that have state, threads for the others."""
    builder = build_of(range(6), lambda b: b.pipe(double), pipe(scale, processes, concurrency=2, output_order="input"))
    assert run(builder) == [20 * item for item in range(6)]
    assert Scaler.factor == 1


def test_an_error_in_a_process_pool_arrives_as_text(processes: ProcessPoolExecutor) -> None:
    """Type, message, file, line and function, and the traceback there."""
    pipeline = build_of(range(5), pipe(refuse_three, processes)).build(num_threads=1)
    assert drain(pipeline) == ([0, 1, 2, 4], None)
    (failure,) = pipeline.stats().stages[1].failures
    error = failure.error
    assert isinstance(error, RemoteOpError)
    assert isinstance(error, RuntimeError)
    line = refuse_three.__code__.co_firstlineno + 2
    assert str(error) == f"Function failed in subprocess: KeyError: 'three' (test_process_pools.py:{line}:refuse_three)"
    assert error.type_name == "KeyError"
    assert "refuse_three" in error.remote_traceback
    assert failure.origin == 3
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.type_name, copy.remote_traceback) == (str(error), "KeyError", error.remote_traceback)


def test_an_error_that_does_not_pickle_arrives_all_the_same(processes: ProcessPoolExecutor) -> None:
    """Text always does; the pool goes on."""
    _, error = fail(build_of(range(3), pipe(raise_unpicklable, processes)), max_failures=0)
    assert isinstance(error.__cause__, RemoteOpError)
    assert "Function failed in subprocess: Unpicklable: 1 and 2 (test_process_pools.py:" in str(error.__cause__)
    assert run(build_of([1], pipe(double, processes))) == [2]


def test_generators_in_a_process_pool_are_collected(processes: ProcessPoolExecutor) -> None:
    """Outputs come when the generator has ended, in the order of its yields; what it gave before an error stays."""
    assert run(build_of(range(4), pipe(count_to, processes))) == [(item, k) for item in range(4) for k in range(item)]
    ordered = pipe(count_to, processes, concurrency=2, output_order="input")
    assert run(build_of(range(4), ordered, sink=1)) == [(item, k) for item in range(4) for k in range(item)]
    pipeline = build_of(range(3), pipe(count_and_break, processes)).build(num_threads=1)
    assert drain(pipeline) == ([(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)], None)
    (failure,) = pipeline.stats().stages[1].failures
    assert "Function failed in subprocess: ValueError: ('broken', 1) (test_process_pools.py:" in str(failure.error)


def test_steps_of_a_collected_generator_count_as_calls(processes: ProcessPoolExecutor) -> None:
    """As anywhere: four yields and the end, 20 times, are the first hundred calls."""
    builder = build_of([4] * 20 + ["x"] * 2, pipe(count_to, processes), sink=100)
    items, error = fail(builder, max_failures=Fraction(1, 100))
    assert items == [(4, k) for _ in range(20) for k in range(4)]
    assert (error.num_failures, error.num_calls) == (2, 102)


def test_what_does_not_pickle_costs_its_item(processes: ProcessPoolExecutor) -> None:
    """An item, or a result, that cannot cross is that item's failure; the pool is not broken."""
    pipeline = build_of([1, lambda: None, 2], pipe(str, processes)).build(num_threads=1)
    assert drain(pipeline) == (["1", "2"], None)
    assert pipeline.stats().stages[1].num_failures == 1
    pipeline = build_of([1, 2], pipe(make_lambda_for_one, processes)).build(num_threads=1)
    assert drain(pipeline) == ([2], None)
    assert pipeline.stats().stages[1].num_failures == 1


def make_lambda_for_one(item: int) -> Any:
    return (lambda: item) if item == 1 else item


def test_an_op_that_does_not_pickle_fails_every_item(processes: ProcessPoolExecutor) -> None:
    """With the pickling error as what is told."""
    pipeline = build_of(range(3), pipe(lambda item: item, processes)).build(num_threads=1)
    items, failure = drain(pipeline)
    assert items == []
    assert failure is not None
    assert "pickle" in str(failure.exceptions[0])
    assert pipeline.stats().stages[1].num_failures == 3


@pytest.mark.slow
def test_a_broken_process_pool_fails_the_stage_and_names_it() -> None:
    """A worker that dies costs the pool: no item after it could be run. The source is closed."""
    source = Recorder(range(1000))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        items, error = fail(build_of(source, pipe(die, pool, name="fragile")), max_failures=-1)
    assert items == [0, 1]
    assert isinstance(error, PipelineError)
    assert "fragile" in str(error)
    assert isinstance(error.__cause__, BrokenProcessPool)
    assert source.num_closed == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "priority process"])
def test_a_failing_initializer_fails_the_stage(kind: str) -> None:
    """The pool is broken before the first call ends."""
    context = multiprocessing.get_context("spawn")
    if kind == "process":
        with ProcessPoolExecutor(1, mp_context=context, initializer=leave, initargs=(1,)) as pool:
            items, error = fail(build_of(range(3), pipe(double, pool, name="work")))
    else:
        with PriorityProcessPoolExecutor(1, mp_context=context, initializer=leave, initargs=(1,)) as priority_pool:
            items, error = fail(build_of(range(3), pipe(double, priority_pool.get_executor(), name="work")))
    assert items == []
    assert "work" in str(error)
    assert isinstance(error.__cause__, BrokenProcessPool)


@pytest.mark.slow
def test_an_entry_point_of_a_process_pool_counts_as_a_process_pool() -> None:
    """For generators and for error texts."""
    with PriorityProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        entries = [pool.get_executor() for _ in range(2)]
        assert run(build_of(range(3), pipe(double, entries[0]), pipe(count_to, entries[1]))) == [
            (item, k) for item in (0, 2, 4) for k in range(item)
        ]
        pipeline = build_of(range(5), pipe(refuse_three, entries[0])).build(num_threads=1)
        assert drain(pipeline) == ([0, 1, 2, 4], None)
    (failure,) = pipeline.stats().stages[1].failures
    assert str(failure.error).startswith("Function failed in subprocess: KeyError: 'three' (test_process_pools.py:")
