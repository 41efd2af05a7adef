"""Priority executors: order, life and death of the pool, pickling, and use in other processes."""

import gc
import multiprocessing
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from concurrent.futures.thread import BrokenThreadPool
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdl._errors import UnsupportedPythonError
from spdl.pipeline._priority import (
    PriorityExecutorEntrypoint,
    PriorityInterpreterPoolExecutor,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
)
from spdl.pipeline._priority._dispatcher import Dispatcher

fork_while_threads_run = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@contextmanager
def busy(entry: Executor, num_workers: int = 1) -> Iterator[None]:
    """Keep all workers of a thread pool busy, so that what is submitted in the body has to queue."""
    gate = threading.Event()
    reached = threading.Barrier(num_workers + 1)

    def hold() -> None:
        reached.wait()
        gate.wait()

    held = [entry.submit(hold) for _ in range(num_workers)]
    reached.wait()
    try:
        yield
    finally:
        gate.set()
        wait(held)


def double(x: int) -> int:
    return 2 * x


def die() -> None:
    os._exit(3)


def fail(message: str) -> None:
    raise LookupError(message)


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
    with PriorityThreadPoolExecutor(1) as pool, pytest.raises(TypeError, match="priority must be an int or None"):
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


def test_entry_points_say_whether_calls_leave_the_process() -> None:
    """The engine treats generators and errors of process pools differently."""
    with PriorityThreadPoolExecutor(1) as threads, PriorityProcessPoolExecutor(1) as processes:
        assert not threads.get_executor().is_process_pool
        assert processes.get_executor().is_process_pool


def test_pickled_in_one_process_everything_is_the_same_pool() -> None:
    """A round trip in the process that made the pool gives that pool, with its priorities."""
    with PriorityThreadPoolExecutor(1) as pool:
        a, b = pool.get_executor(priority=-5), pool.get_executor()
        restored_pool, restored_a, restored_b = pickle.loads(pickle.dumps((pool, a, b)))
        assert restored_pool is pool
        assert (restored_a.priority, restored_b.priority) == (-5, 1)
        assert restored_b.submit(double, 1).result() == 2
        assert "priority=-5 of <PriorityThreadPoolExecutor with 1 workers>" in repr(restored_a)


def use_in_child(blobs: list[bytes]) -> tuple[bool, list[int], int, int, bool]:
    """Restore two entry points, each from a pickle of its own, in a process that never saw the pool."""
    first, second = (pickle.loads(blob) for blob in blobs)
    pool = first._owner
    result = second.submit(double, 21).result()
    next_pool = pickle.loads(pickle.dumps(pool))
    pool.shutdown()
    return pool is second._owner, [first.priority, second.priority], result, pool._num_workers, next_pool is pool


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
@fork_while_threads_run
def test_in_another_process_entry_points_share_one_pool(method: str) -> None:
    """Entry points that arrive separately are of one pool there, with their priorities and its arguments."""
    with PriorityThreadPoolExecutor(3) as pool:
        entries = [pool.get_executor(), pool.get_executor(priority=9)]
        assert entries[0].submit(double, 1).result() == 2
        blobs = [pickle.dumps(entry) for entry in entries]
        with multiprocessing.get_context(method).Pool(1) as workers:
            got = workers.apply(use_in_child, (blobs,))
            workers.close()
            workers.join()
    assert got == (True, [1, 9], 42, 3, True)


def use_inherited(entry: PriorityExecutorEntrypoint, answer: Any) -> None:
    answer.send(entry.submit(double, 8).result())
    entry._owner.shutdown()  # type: ignore[attr-defined]
    try:
        entry.submit(double, 8)
    except RuntimeError as exc:
        answer.send(str(exc))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@fork_while_threads_run
def test_a_pool_inherited_by_fork_has_workers_of_its_own() -> None:
    """The parent's threads do not exist in the child; the pool works there all the same, and its end is its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with PriorityThreadPoolExecutor(1) as pool:
        entry = pool.get_executor()
        with busy(entry):
            entry.submit(double, 1)
            process = context.Process(target=use_inherited, args=(entry, sender))
            process.start()
            sender.close()
            assert receiver.recv() == 16
            assert "has been shut down" in receiver.recv()
            process.join()
        assert entry.submit(double, 2).result() == 4
    receiver.close()
    process.close()


GATES: list[Any] = []  # of a worker process


def set_gate(gate: Any) -> None:
    GATES.append(gate)


def wait_at_gate() -> int:
    GATES[0].wait()
    return os.getpid()


@pytest.mark.slow
def test_a_process_pool_runs_calls_in_other_processes_by_priority() -> None:
    """Results come back, errors too; what queues behind the busy worker goes by priority."""
    context = multiprocessing.get_context("spawn")
    gate = context.Event()
    order: list[str] = []
    with PriorityProcessPoolExecutor(1, mp_context=context, initializer=set_gate, initargs=(gate,)) as pool:
        low, high = pool.get_executor(), pool.get_executor()
        held = low.submit(wait_at_gate)
        futures = [low.submit(double, 1), high.submit(double, 2)]
        futures[0].add_done_callback(lambda _: order.append("low"))
        futures[1].add_done_callback(lambda _: order.append("high"))
        gate.set()
        assert held.result() != os.getpid()
        assert [future.result() for future in futures] == [2, 4]
        with pytest.raises(LookupError, match="nope"):
            high.submit(fail, "nope").result()
    assert order == ["high", "low"]


@pytest.mark.slow
def test_a_worker_process_that_dies_breaks_the_pool() -> None:
    """Pending calls fail instead of waiting for ever, later ones are refused, and shutdown returns."""
    pool = PriorityProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    entry = pool.get_executor()
    futures: list[Future[Any]] = [entry.submit(die), *(entry.submit(double, k) for k in range(3))]
    for future in futures:
        with pytest.raises(BrokenProcessPool):
            future.result()
    with pytest.raises(BrokenProcessPool):
        entry.submit(double, 1)
    pool.shutdown()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python has interpreter pools")
def test_an_interpreter_pool_needs_a_newer_python() -> None:
    """The error says which Python is required, and is also a RuntimeError."""
    with pytest.raises(UnsupportedPythonError, match=r"requires Python 3\.14"):
        PriorityInterpreterPoolExecutor(2)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="needs interpreter pools")
def test_an_interpreter_pool_runs_calls() -> None:
    """Calls run in other interpreters of this process."""
    with PriorityInterpreterPoolExecutor(1) as pool:
        entry = pool.get_executor()
        assert entry.submit(os.getpid).result() == os.getpid()
        assert not entry.is_process_pool
