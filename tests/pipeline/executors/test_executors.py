"""Executors of the user's for one stage: threads, priority pools, and any other ``Executor``."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, PipelineBuilder, PipelineError, PriorityThreadPoolExecutor
from tests.support.running import TIMEOUT, Recorder, await_event, build_of, drain, fail, run, running


def double(item: int) -> int:
    return 2 * item


def refuse_three(item: int) -> int:
    if item == 3:
        raise KeyError("three")
    return item


def count_to(item: int) -> Iterator[tuple[int, int]]:
    for k in range(item):
        yield item, k


class Doubled:
    def __getitem__(self, index: int) -> int:
        return 2 * index


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


class Submitted(Executor):
    """Passes calls on to another executor, and tells when it has passed on some number of them."""

    def __init__(self, executor: Executor, num_calls: int) -> None:
        self.executor = executor
        self.num_left = num_calls
        self.reached = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self.executor.submit(fn, *args, **kwargs)
        self.num_left -= 1
        if self.num_left == 0:
            self.reached.set()
        return future


def test_stages_share_a_priority_pool_by_priority() -> None:
    """The later stage's entry point ranks above: its call runs before one of the first that was queued earlier."""
    calls: list[tuple[str, int]] = []

    def first(item: int) -> int:
        if item == 0:
            await_event(low.reached)  # items 1 and 2 are queued behind this call
        if item == 1:
            await_event(high.reached)  # and the second stage's call on item 0 behind them
        calls.append(("first", item))
        return item

    def second(item: int) -> int:
        calls.append(("second", item))
        return item

    with PriorityThreadPoolExecutor(1) as pool:
        low, high = Submitted(pool.get_executor(), 3), Submitted(pool.get_executor(), 1)
        assert run(build_of(range(3), pipe(first, low, concurrency=3), pipe(second, high))) == [0, 1, 2]
    assert calls.index(("second", 0)) < calls.index(("first", 2))


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
