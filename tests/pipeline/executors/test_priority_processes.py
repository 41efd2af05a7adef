"""Priority executors in other processes: pickled, inherited by a fork, and pools of processes and interpreters."""

import multiprocessing
import os
import pickle
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest

from spdl._errors import UnsupportedPythonError
from spdl.pipeline import (
    PriorityExecutorEntrypoint,
    PriorityInterpreterPoolExecutor,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
)
from tests.pipeline.executors.calls import busy, die, double, fail

fork_while_threads_run = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


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
    entry._owner.shutdown()
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
