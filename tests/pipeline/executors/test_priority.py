"""Priority executors of threads: the order of calls, and the life and end of the pool."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.thread import BrokenThreadPool
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdl.pipeline import (
    PriorityExecutorEntrypoint,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
)
from spdl.pipeline._priority_pools import Dispatcher
from tests.pipeline.executors.calls import busy, double, fail


def test_results_and_errors_arrive_as_from_any_executor() -> None:
    """submit and map give results; an exception of the function is the exception of the future."""
    with PriorityThreadPoolExecutor(2) as pool:
        entry = pool.get_executor()
        assert isinstance(entry, Executor)
        assert entry.submit(double, 4).result() == 8
        assert entry.submit(int, "11", base=2).result() == 3
        assert list(entry.map(double, range(5))) == [0, 2, 4, 6, 8]
        with pytest.raises(LookupError, match="nope"):
            entry.submit(fail, "nope").result()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=20))
def test_higher_goes_first_and_equal_ones_in_order_of_arrival(priorities: list[int]) -> None:
    """Whatever queues while the worker is busy is run by priority, then by arrival."""
    ran: list[tuple[int, int]] = []
    with PriorityThreadPoolExecutor(1) as pool:
        entries = {p: pool.get_executor(priority=p) for p in set(priorities)}
        with busy(pool.get_executor()):
            for k, p in enumerate(priorities):
                entries[p].submit(ran.append, (p, k))
    assert ran == sorted(((p, k) for k, p in enumerate(priorities)), key=lambda pk: (-pk[0], pk[1]))


def test_each_new_entry_point_ranks_above_the_earlier_ones() -> None:
    """Without a priority the first has 1 and the later stage goes first."""
    ran: list[str] = []
    with PriorityThreadPoolExecutor(1) as pool:
        first, second = pool.get_executor(), pool.get_executor()
        assert (first.priority, second.priority) == (1, 2)
        with busy(first):
            first.submit(ran.append, "upstream")
            second.submit(ran.append, "downstream")
    assert ran == ["downstream", "upstream"]


@pytest.mark.parametrize("priority", [1.5, "high", True])
def test_a_priority_that_is_no_integer_is_refused(priority: Any) -> None:
    """The message names the argument and what was given."""
    with PriorityThreadPoolExecutor(1) as pool, pytest.raises(TypeError, match="priority must be an int, got"):
        pool.get_executor(priority=priority)


def test_no_more_calls_run_than_there_are_workers_and_all_workers_run() -> None:
    """Three workers meet at a barrier; a fourth call is not started meanwhile."""
    with PriorityThreadPoolExecutor(3) as pool:
        entry = pool.get_executor()
        with busy(entry, 3):
            extra = entry.submit(double, 1)
            assert not extra.running()
        assert extra.result() == 2


def test_many_calls_from_many_threads_are_all_run_once() -> None:
    """Concurrent submitters and instantly finished calls lose nothing."""
    ran: list[int] = []
    with PriorityThreadPoolExecutor(2) as pool, ThreadPoolExecutor(4) as submitters:
        entries = [pool.get_executor() for _ in range(4)]

        def submit(entry: PriorityExecutorEntrypoint, base: int) -> list[Future[None]]:
            return [entry.submit(ran.append, base + k) for k in range(200)]

        for future in [submitters.submit(submit, entry, 1000 * k) for k, entry in enumerate(entries)]:
            wait(future.result())
    assert sorted(ran) == sorted(1000 * e + k for e in range(4) for k in range(200))


def test_what_a_callback_submits_competes_before_the_worker_takes_its_next_call() -> None:
    """The result of an upstream stage brings urgent downstream work, which goes before more upstream work."""
    ran: list[str] = []
    with PriorityThreadPoolExecutor(1) as pool:
        upstream, downstream = pool.get_executor(), pool.get_executor()
        with busy(upstream):
            first = upstream.submit(ran.append, "upstream 1")
            first.add_done_callback(lambda _: downstream.submit(ran.append, "downstream 1"))
            last = upstream.submit(ran.append, "upstream 2")
        last.result()
    assert ran == ["upstream 1", "downstream 1", "upstream 2"]


def test_a_call_that_was_cancelled_while_it_waited_is_not_run() -> None:
    """cancel() works until the call starts."""
    ran: list[int] = []
    with PriorityThreadPoolExecutor(1) as pool:
        entry = pool.get_executor()
        with busy(entry):
            cancelled = entry.submit(ran.append, 1)
            kept = entry.submit(ran.append, 2)
            assert cancelled.cancel()
        kept.result()
    assert ran == [2]


def test_the_shutdown_of_an_entry_point_does_nothing() -> None:
    """The pool is shared: leaving one stage's executor does not end it for the others."""
    with PriorityThreadPoolExecutor(1) as pool:
        with pool.get_executor() as entry:
            entry.shutdown(cancel_futures=True)
        assert entry.submit(double, 1).result() == 2


def test_submit_after_shutdown_is_refused() -> None:
    """The error is the RuntimeError that executors raise; a second shutdown is fine."""
    pool = PriorityThreadPoolExecutor(1)
    entry = pool.get_executor()
    pool.shutdown()
    pool.shutdown()
    with pytest.raises(RuntimeError, match="has been shut down"):
        entry.submit(double, 1)


def test_shutdown_runs_what_is_queued_and_joins_the_threads() -> None:
    """With wait, all futures are done and no thread of the pool is alive."""
    ran: list[int] = []
    threads: list[threading.Thread] = []
    pool = PriorityThreadPoolExecutor(1, initializer=lambda: threads.append(threading.current_thread()))
    entry = pool.get_executor()
    with busy(entry):
        futures = [entry.submit(ran.append, k) for k in range(5)]
        pool.shutdown(wait=False)
    pool.shutdown(wait=True)
    assert ran == [0, 1, 2, 3, 4]
    assert all(future.done() for future in futures)
    assert [thread.is_alive() for thread in threads] == [False]


def test_shutdown_without_wait_ends_the_threads_after_the_last_call() -> None:
    """Nobody has to call shutdown again for the threads to go."""
    threads: list[threading.Thread] = []
    pool = PriorityThreadPoolExecutor(1, initializer=lambda: threads.append(threading.current_thread()))
    entry = pool.get_executor()
    with busy(entry):
        last = entry.submit(double, 1)
        pool.shutdown(wait=False)
    assert last.result() == 2
    threads[0].join()


def test_shutdown_can_cancel_what_has_not_started() -> None:
    """Waiters on the cancelled futures wake up; the running call ends normally."""
    pool = PriorityThreadPoolExecutor(1)
    entry = pool.get_executor()
    with busy(entry):
        futures = [entry.submit(double, k) for k in range(3)]
        pool.shutdown(wait=False, cancel_futures=True)
        assert len(list(as_completed(futures))) == 3
    assert all(future.cancelled() for future in futures)
    pool.shutdown()


def test_threads_are_named_and_initialized() -> None:
    """The prefix and the initializer with its arguments reach each thread."""
    local = threading.local()

    def initialize(value: int) -> None:
        local.value = value

    def look() -> tuple[str, int]:
        return threading.current_thread().name, local.value

    with PriorityThreadPoolExecutor(1, "decoder", initialize, (7,)) as pool:
        name, value = pool.get_executor().submit(look).result()
    assert name.startswith("decoder")
    assert value == 7


def test_an_initializer_that_fails_breaks_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    """Every pending call fails with BrokenThreadPool, so does a later submit, and shutdown returns."""
    gate = threading.Event()

    def initialize() -> None:
        gate.wait()
        raise LookupError("no model file")

    pool = PriorityThreadPoolExecutor(1, initializer=initialize)
    entry = pool.get_executor()
    futures = [entry.submit(double, k) for k in range(4)]
    gate.set()
    for future in futures:
        with pytest.raises(BrokenThreadPool):
            future.result()
    with pytest.raises(BrokenThreadPool):
        entry.submit(double, 1)
    pool.shutdown()
    assert "no model file" in caplog.text


def test_an_op_that_raises_a_broken_pool_error_does_not_break_the_pool() -> None:
    """The error of another pool inside the op is that call's failure only."""

    def use_a_broken_pool() -> None:
        raise BrokenExecutor("the inner pool, not this one")

    with PriorityThreadPoolExecutor(1) as pool:
        entry = pool.get_executor()
        with busy(entry):
            broken = entry.submit(use_a_broken_pool)
            after = entry.submit(double, 2)
        with pytest.raises(BrokenExecutor, match="not this one"):
            broken.result()
        assert after.result() == 4
        assert entry.submit(double, 3).result() == 6


class RefusingExecutor(Executor):
    """Refuses the first call, as an executor does that cannot start a thread, and runs the others at once."""

    def __init__(self, refusal: BaseException | None = None) -> None:
        self.num_calls = 0
        self.refusal = refusal if refusal is not None else OSError("no more processes")
        self.shutdowns: list[bool] = []

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.shutdowns.append(wait)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.num_calls += 1
        if self.num_calls == 1:
            raise self.refusal
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_a_call_that_the_executor_refuses_fails_alone() -> None:
    """The reason is the exception of that future, and the worker is free for the next call."""
    dispatcher = Dispatcher(RefusingExecutor(), 1)
    with pytest.raises(OSError, match="no more processes"):
        dispatcher.submit(1, double, (1,), {}).result()
    assert dispatcher.submit(1, double, (2,), {}).result() == 4
    dispatcher.shutdown(wait=True, cancel_futures=False)


@pytest.mark.parametrize("wait", [True, False])
def test_the_executor_is_shut_down_as_the_pool_is(wait: bool) -> None:
    """One shutdown with wait is one with wait: after one without, a pool of processes could not be joined."""
    executor = RefusingExecutor()
    Dispatcher(executor, 1).shutdown(wait=wait, cancel_futures=False)
    assert executor.shutdowns == [wait]


def test_an_interrupt_while_a_worker_starts_leaves_the_dispatcher_usable() -> None:
    """Ctrl-C arrives at the caller, the interrupted call fails with it, later ones run, and shutdown returns."""
    dispatcher = Dispatcher(RefusingExecutor(KeyboardInterrupt()), 1)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.submit(1, double, (1,), {})
    assert dispatcher.submit(1, double, (2,), {}).result() == 4
    dispatcher.shutdown(wait=True, cancel_futures=False)


def test_calls_that_end_at_once_do_not_pile_up_on_the_stack() -> None:
    """Calls that each submit another one and end inside submit are run in a loop, not by recursion."""
    dispatcher = Dispatcher(RefusingExecutor(), 1)
    dispatcher.submit(1, double, (1,), {})
    left = 3 * sys.getrecursionlimit()

    def again() -> None:
        nonlocal left
        left -= 1
        if left:
            dispatcher.submit(1, again, (), {})

    dispatcher.submit(1, again, (), {})
    dispatcher.shutdown(wait=True, cancel_futures=False)
    assert left == 0


@pytest.mark.parametrize("max_workers", [0, -1])
@pytest.mark.parametrize("cls", [PriorityThreadPoolExecutor, PriorityProcessPoolExecutor])
def test_a_pool_without_workers_is_refused(cls: Callable[[int], object], max_workers: int) -> None:
    """The check is that of the standard executors, when the pool is made."""
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        cls(max_workers)


def test_an_entry_point_keeps_its_pool_alive_and_nothing_else_does() -> None:
    """Dropping the last entry point ends the threads, without shutdown."""
    threads: list[threading.Thread] = []
    pool = PriorityThreadPoolExecutor(1, initializer=lambda: threads.append(threading.current_thread()))
    entry = pool.get_executor()
    ref = weakref.ref(pool)
    del pool
    assert entry.submit(double, 1).result() == 2
    assert ref() is not None
    del entry
    gc.collect()
    assert ref() is None
    threads[0].join()
