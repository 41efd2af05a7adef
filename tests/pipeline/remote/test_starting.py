"""Workers: how their processes are started, and every way in which they end with what started them."""

import gc
import multiprocessing
import os
import threading
from functools import partial
from typing import Any

import pytest

from tests.support import remote
from tests.support.child import run_child
from tests.support.leaving import iterate
from tests.support.running import TIMEOUT

HAS_FORKSERVER = "forkserver" in multiprocessing.get_all_start_methods()


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_the_context_is_how_the_process_is_started(context: str) -> None:
    """A child of this process, or of the fork server; nothing that this process has made is there."""
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this platform")
    remote.note("made here")
    try:
        ((parent, starter, notes),) = iterate(remote.circumstances, mp_context=context)
    finally:
        remote.noted().clear()
    assert (starter == os.getpid()) == (context == "spawn")
    assert parent == os.getpid()
    assert notes == []


@pytest.mark.skipif(not HAS_FORKSERVER, reason="there is no fork server on this platform")
def test_a_fork_server_is_the_default() -> None:
    """So no process is forked from one that runs threads."""
    ((parent, starter, _),) = iterate(remote.circumstances)
    assert starter != os.getpid() == parent


@pytest.mark.parametrize("what", ["fn", "initializer"])
def test_what_does_not_pickle_is_named_where_other_threads_run(what: str) -> None:
    """A fork would not be safe: TypeError."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    try:
        with pytest.raises(TypeError, match="lambda"):
            iterate(lambda: [1]) if what == "fn" else iterate(remote.noted, initializer=lambda: None)
    finally:
        gate.set()
        thread.join(TIMEOUT)


@pytest.mark.slow
def test_what_does_not_pickle_is_forked_where_no_other_thread_runs() -> None:
    """The worker is a fork of this process; without a warning."""
    run_child(
        """
        import os
        from spdl.pipeline import iterate_in_subprocess

        here = os.getpid()
        items = list(iterate_in_subprocess(lambda: [os.getppid() == here], timeout=100))
        print(items)
        """
    ).check("[True]")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_the_method_set_for_the_process_is_the_default(method: str) -> None:
    """``multiprocessing.set_start_method`` is respected."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this platform")
    run_child(
        f"""
        import multiprocessing, os
        from spdl.pipeline import iterate_in_subprocess
        from tests.support import remote, ops

        if __name__ == "__main__":
            multiprocessing.set_start_method({method!r})
            remote.note("made here")
            ((parent, starter, notes),) = iterate_in_subprocess(remote.circumstances, timeout=100)
            print(parent == os.getpid(), starter == os.getpid(), bool(notes))
        """
    ).check(f"True True {method == 'fork'}")


@pytest.mark.slow
def test_a_script_without_a_guard_runs_once_and_is_told() -> None:
    """What is defined in a script that is still being imported does not pickle; that is no reason to fork there."""
    ended = run_child(
        """
        from spdl.pipeline import iterate_in_subprocess

        def numbers():
            return range(3)

        print(list(iterate_in_subprocess(numbers, timeout=100)))
        """
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "if __name__ == '__main__':" in ended.stderr


@pytest.mark.slow
def test_objects_of_multiprocessing_may_go_along_with_fn() -> None:
    """A lock, an event, a queue can be given to a process that is started, and to none other."""
    context = multiprocessing.get_context("spawn")
    event, queue = context.Event(), context.SimpleQueue()
    assert list(iterate(partial(remote.announce, event, queue), mp_context="spawn")) == ["announced"]
    assert event.wait(TIMEOUT)
    assert queue.get() == "hello"
    queue.close()


# -- ends


def test_collection_ends_the_worker() -> None:
    """As soon as nothing refers to the iterable."""
    iterable = iterate(partial(remote.process_ids, 100))
    iterator = iter(iterable)
    pid = next(iterator)
    del iterable, iterator
    gc.collect()
    remote.await_end(pid)


def test_an_iterator_keeps_the_worker() -> None:
    """Also if the iterable itself is gone."""
    iterator = iter(iterate(partial(remote.give, range(50)), buffer_size=1))
    gc.collect()
    assert list(iterator) == list(range(50))


def test_collection_ends_a_worker_that_is_stuck() -> None:
    """In an op that never returns."""
    iterator = iter(iterate(partial(remote.block_for_ever, 1)))
    pid = next(iterator)
    del iterator
    gc.collect()
    remote.await_end(pid)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "held"), [("partial(remote.process_ids, 1000)", True), ("remote.ids_for_ever", False), ("stuck", True)]
)
def test_exit_of_the_interpreter_ends_the_worker(source: str, held: bool) -> None:
    """A reference still held does not keep it; the process ends without a word."""
    ended = run_child(
        f"""
        from functools import partial
        from spdl.pipeline import iterate_in_subprocess
        from tests.support import remote, ops

        if __name__ == "__main__":
            stuck = partial(remote.block_for_ever, 1)
            iterable = iterate_in_subprocess({source})
            iterator = iter(iterable)
            print(next(iterator))
            if not {held}:
                del iterable, iterator
        """
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    remote.await_end(int(ended.stdout))


@pytest.mark.slow
def test_an_uncaught_exception_ends_the_worker_too() -> None:
    """What shows is that exception."""
    ended = run_child(
        """
        from spdl.pipeline import iterate_in_subprocess
        from tests.support import remote, ops

        if __name__ == "__main__":
            iterator = iter(iterate_in_subprocess(remote.ids_for_ever))
            print(next(iterator), flush=True)
            raise LookupError("what shows")
        """
    )
    ended.check_raised("LookupError: what shows", stdout=ended.stdout)
    remote.await_end(int(ended.stdout))


@pytest.mark.slow
def test_a_worker_ends_when_its_parent_is_killed() -> None:
    """Even while its op holds the GIL for ever."""
    ended = run_child(
        """
        import os, signal
        from spdl.pipeline import iterate_in_subprocess
        from tests.support import remote, ops

        if __name__ == "__main__":
            iterator = iter(iterate_in_subprocess(remote.stuck_holding_the_gil, buffer_size=1))
            print(next(iterator), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert ended.returncode == -9, ended
    remote.await_end(int(ended.stdout))


@pytest.mark.slow
def test_a_forked_child_leaves_the_worker_to_its_parent() -> None:
    """It neither ends the worker when it exits, daemonic or not, nor reads from it."""
    run_child(
        """
        import os
        from spdl.pipeline import iterate_in_subprocess
        from tests.support import remote

        if __name__ == "__main__":
            iterables = [iterate_in_subprocess(remote.process_ids, daemon=daemon) for daemon in (False, True)]
            first = [list(each) for each in iterables]
            pid = os.fork()
            if pid == 0:
                raise SystemExit(0)
            print(os.waitpid(pid, 0)[1], first == [list(each) for each in iterables])
        """
    ).check("0 True")


def test_the_worker_is_seen_by_nobody_in_the_terminal() -> None:
    """Ctrl-C goes to the whole group; the parent decides what becomes of its workers."""
    iterator: Any = iter(iterate(remote.interrupted_once))
    assert next(iterator) == "still here"
