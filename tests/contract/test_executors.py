"""Executors of the user's for one stage: threads, processes, priority pools, and any other ``Executor``."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PriorityProcessPoolExecutor, PriorityThreadPoolExecutor
from spdl.pipeline._errors import FailureLimitError, PipelineError, RemoteOpError

from .running import TIMEOUT, Recorder, await_event, build_of, drain, fail, run, running


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


class InlineExecutor(Executor):
    """Runs the call in ``submit``."""

    def __init__(self) -> None:
        self.num_calls = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.num_calls += 1
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as exc:
            future.set_exception(exc)
        return future


class HoldingExecutor(Executor):
    """Runs calls when told to, in the order it is told."""

    def __init__(self, num_expected: int) -> None:
        self.calls: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.num_expected = num_expected
        self.full = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.calls.append((future, lambda: fn(*args, **kwargs)))
        if len(self.calls) == self.num_expected:
            self.full.set()
        return future

    def run(self, index: int) -> None:
        future, call = self.calls[index]
        if future.set_running_or_notify_cancel():
            future.set_result(call())


def pipe(op: Any, executor: Executor, **options: Any) -> Callable[[PipelineBuilder[Any, Any]], Any]:
    return lambda builder: builder.pipe(op, executor=executor, **options)


# -- threads


def test_calls_run_on_the_threads_of_the_executor() -> None:
    """And on no other; the stages around it run on the pipeline's own."""
    names: dict[str, set[str]] = {"own": set(), "theirs": set()}

    def note(kind: str) -> Callable[[int], int]:
        def op(item: int) -> int:
            names[kind].add(threading.current_thread().name.partition("_")[0])
            return item

        return op

    with ThreadPoolExecutor(2, thread_name_prefix="theirs") as pool:
        builder = build_of(
            range(20),
            lambda b: b.pipe(note("own")),
            pipe(note("theirs"), pool, concurrency=2),
            lambda b: b.pipe(note("own")),
        )
        assert sorted(run(builder)) == list(range(20))
    assert names["theirs"] == {"theirs"}
    assert "theirs" not in names["own"]


def test_an_executor_outlives_the_pipeline() -> None:
    """It is the user's: it is not shut down, and serves the next pipeline, and other work."""
    with ThreadPoolExecutor(1) as pool:
        builder = build_of(range(5), pipe(double, pool))
        for _ in range(2):
            assert run(builder) == [0, 2, 4, 6, 8]
        assert pool.submit(double, 4).result(TIMEOUT) == 8


def test_one_thread_keeps_its_state() -> None:
    """A dedicated executor of one thread, with an initializer and thread-local storage."""
    local = threading.local()

    def initialize(start: int) -> None:
        local.count = start

    def op(item: int) -> tuple[int, int]:
        local.count += 1
        return item, local.count

    with ThreadPoolExecutor(1, initializer=initialize, initargs=(100,)) as pool:
        assert run(build_of(range(4), pipe(op, pool)), num_threads=4) == [(k, 101 + k) for k in range(4)]


def test_concurrency_caps_calls_in_an_executor() -> None:
    """No more than ``concurrency`` are submitted at once, however many threads it has; and not fewer."""
    holding = HoldingExecutor(3)
    source = Recorder(range(5))
    with running(build_of(source, pipe(double, holding, concurrency=3))) as pipeline:
        await_event(holding.full)
        assert len(holding.calls) == 3
        holding.full.clear()
        holding.num_expected = 4
        holding.run(1)
        assert pipeline.get_item(timeout=TIMEOUT) == 2
        await_event(holding.full)
        assert len(holding.calls) == 4
        holding.full.clear()
        holding.num_expected = 5
        for index in (3, 2, 0):
            holding.run(index)
        await_event(holding.full)
        holding.run(4)
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [6, 4, 0, 8]


def test_input_order_holds_in_an_executor() -> None:
    """Whatever order its futures end in."""
    holding = HoldingExecutor(3)
    with running(build_of(range(3), pipe(double, holding, concurrency=3, output_order="input"))) as pipeline:
        await_event(holding.full)
        for index in (2, 1):
            holding.run(index)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        holding.run(0)
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [0, 2, 4]


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("op", [double, [0, 2, 4, 6, 8], Doubled(), count_to])
def test_an_executor_whose_submit_runs_the_call_at_once(op: Any, order: str) -> None:
    """Functions, containers, generators: no lock is held while it does."""
    inline = InlineExecutor()
    expected = [(item, k) for item in range(5) for k in range(item)] if op is count_to else [0, 2, 4, 6, 8]
    items = run(build_of(range(5), pipe(op, inline, concurrency=3, output_order=order)), num_threads=1)
    assert (items if order == "input" or op is not count_to else sorted(items)) == expected
    assert inline.num_calls >= 5


def test_failures_in_an_inline_executor_cost_their_items() -> None:
    """The exception keeps its type, and its note says where."""
    pipeline = build_of(range(5), pipe(refuse_three, InlineExecutor())).build(num_threads=1)
    assert drain(pipeline) == ([0, 1, 2, 4], None)
    (failure,) = pipeline.stats().stages[1].failures
    assert type(failure.error) is KeyError
    assert failure.origin == 3
    assert any("refuse_three" in note for note in failure.error.__notes__)


def test_a_blocked_submit_holds_up_its_stage_alone() -> None:
    """Other stages go on, with one thread; so do reads."""
    release = threading.Event()
    blocked = threading.Event()

    class Blocking(InlineExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            if self.num_calls == 2:
                blocked.set()
                await_event(release)
            return super().submit(fn, *args, **kwargs)

    with running(build_of(range(4), pipe(double, Blocking()), lambda b: b.pipe(str)), num_threads=1) as pipeline:
        await_event(blocked)
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(2)] == ["0", "2"]
        release.set()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == ["4", "6"]


def test_two_stages_share_one_executor() -> None:
    """Of one thread."""
    with ThreadPoolExecutor(1) as pool:
        builder = build_of(range(20), pipe(double, pool, concurrency=2), pipe(str, pool, concurrency=2), sink=1)
        assert sorted(run(builder), key=int) == [str(2 * item) for item in range(20)]


def test_pending_futures_are_cancelled_by_stop() -> None:
    """Those that have not begun."""
    holding = HoldingExecutor(2)
    with running(build_of(range(9), pipe(double, holding, concurrency=2))):
        await_event(holding.full)
    assert [future.cancelled() for future, _ in holding.calls] == [True, True]


def test_a_future_that_is_cancelled_from_outside_costs_its_item() -> None:
    """The engine did not ask for it: a failure of that item."""
    holding = HoldingExecutor(2)
    pipeline = build_of(range(2), pipe(double, holding, concurrency=2)).build(num_threads=1)
    with pipeline.auto_stop():
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        await_event(holding.full)
        holding.calls[0][0].cancel()
        holding.calls[0][0].set_running_or_notify_cancel()
        holding.run(1)
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [2]
    assert pipeline.stats().stages[1].num_failures == 1


def test_an_executor_that_is_shut_down_fails_the_stage() -> None:
    """It would refuse every item to come: the failure names the stage and the executor's words are its cause."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    items, error = fail(build_of(range(5), pipe(double, pool, name="work")))
    assert items == []
    assert isinstance(error, PipelineError)
    assert "work" in str(error)
    assert isinstance(error.__cause__, RuntimeError)


def test_limits_hold_in_an_executor() -> None:
    """A count and its cause."""
    with ThreadPoolExecutor(2) as pool:
        items, error = fail(build_of(range(9), pipe(refuse_three, pool)), max_failures=0)
    assert items == [0, 1, 2]
    assert isinstance(error, FailureLimitError)
    assert type(error.__cause__) is KeyError


# -- processes


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
    assert str(error) == f"Function failed in subprocess: KeyError: 'three' (test_executors.py:{line}:refuse_three)"
    assert error.type_name == "KeyError"
    assert "refuse_three" in error.remote_traceback
    assert failure.origin == 3
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.type_name, copy.remote_traceback) == (str(error), "KeyError", error.remote_traceback)


def test_an_error_that_does_not_pickle_arrives_all_the_same(processes: ProcessPoolExecutor) -> None:
    """Text always does; the pool goes on."""
    _, error = fail(build_of(range(3), pipe(raise_unpicklable, processes)), max_failures=0)
    assert isinstance(error.__cause__, RemoteOpError)
    assert "Function failed in subprocess: Unpicklable: 1 and 2 (test_executors.py:" in str(error.__cause__)
    assert run(build_of([1], pipe(double, processes))) == [2]


def test_generators_in_a_process_pool_are_collected(processes: ProcessPoolExecutor) -> None:
    """Outputs come when the generator has ended, in the order of its yields; what it gave before an error stays."""
    assert run(build_of(range(4), pipe(count_to, processes))) == [(item, k) for item in range(4) for k in range(item)]
    ordered = pipe(count_to, processes, concurrency=2, output_order="input")
    assert run(build_of(range(4), ordered, sink=1)) == [(item, k) for item in range(4) for k in range(item)]
    pipeline = build_of(range(3), pipe(count_and_break, processes)).build(num_threads=1)
    assert drain(pipeline) == ([(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)], None)
    (failure,) = pipeline.stats().stages[1].failures
    assert "Function failed in subprocess: ValueError: ('broken', 1) (test_executors.py:" in str(failure.error)


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
    assert drain(pipeline) == ([], None)
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


# -- priority pools


def test_stages_share_a_priority_pool_by_priority() -> None:
    """A later stage's entry point ranks above: with one thread, an item goes through before the next one begins."""
    calls: list[tuple[str, int]] = []
    begun = threading.Event()
    queued = threading.Event()

    class Source(Recorder):
        def __next__(self) -> Any:
            item = super().__next__()
            if item == 4:
                queued.set()
            return item

    def first(item: int) -> int:
        begun.set()
        await_event(queued)
        calls.append(("first", item))
        return item

    def second(item: int) -> int:
        calls.append(("second", item))
        return item

    with PriorityThreadPoolExecutor(1) as pool:
        low, high = pool.get_executor(), pool.get_executor()
        builder = build_of(Source(range(5)), pipe(first, low, concurrency=3), pipe(second, high, concurrency=3), sink=9)
        assert run(builder) == list(range(5))
    assert sorted(calls) == sorted((name, item) for name in ("first", "second") for item in range(5))


def test_generators_run_step_by_step_in_a_priority_thread_pool() -> None:
    """The first output is read while the generator waits."""
    release = threading.Event()

    def op(item: int) -> Iterator[int]:
        yield 1
        await_event(release)
        yield 2

    with PriorityThreadPoolExecutor(1) as pool, running(build_of([0], pipe(op, pool.get_executor()))) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == 1
        release.set()
        assert pipeline.get_item(timeout=TIMEOUT) == 2


def test_a_priority_pool_that_is_shut_down_fails_the_stage() -> None:
    """``submit`` raises RuntimeError from then on."""
    pool = PriorityThreadPoolExecutor(1)
    entry = pool.get_executor()
    pool.shutdown()
    items, error = fail(build_of(range(3), pipe(double, entry, name="work")))
    assert items == []
    assert "work" in str(error)
    assert isinstance(error.__cause__, RuntimeError)


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
    assert str(failure.error).startswith("Function failed in subprocess: KeyError: 'three' (test_executors.py:")
