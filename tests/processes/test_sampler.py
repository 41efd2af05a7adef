"""``Sampler``: what it sees of threads that do one thing only. Shares are asserted as far as other load allows."""

import hashlib
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

import pytest

from spdl._processes._memory import Sampler
from spdl.pipeline._observe._sampling import has_gil
from tests.support.child import run_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

_PERIOD = 0.001
_ENOUGH = 50


class Seen(NamedTuple):
    """What was seen of one stage."""

    num: int
    running: int
    gil: int
    lock: int
    io: int
    held: int
    cpu: float
    num_alone: int
    cpu_alone: float
    num_beside: int
    cpu_beside: float


@contextmanager
def sampler(num_stages: int = 4) -> Iterator[Any]:
    made = Sampler(num_stages, _PERIOD, has_gil())
    try:
        yield made
    finally:
        made.close()


@contextmanager
def busy(sampler: Any, stage: int, step: Callable[[], object]) -> Iterator[None]:
    """A thread that repeats ``step``, for a stage."""
    is_over = threading.Event()

    def work() -> None:
        sampler.enter(stage)
        while not is_over.is_set():
            step()
        sampler.leave()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def seen(sampler: Any, stage: int, least: int = _ENOUGH) -> Seen:
    """What was seen of a stage, when it is enough."""
    nothing = threading.Event()
    while (found := Seen(*sampler.read()[4][stage])).num < least:
        nothing.wait(0.005)
    return found


def wait_in_select() -> None:
    select.select([], [], [], 0.005)


def spin() -> None:
    for _ in range(10_000):
        pass


_DATA = bytes(4 << 20)


def sha256() -> None:
    hashlib.sha256(_DATA).digest()


def test_a_thread_that_spins_runs_and_holds_the_gil() -> None:
    """Python code is seen running; where there is a GIL, it holds it most of the time."""
    with sampler() as made, busy(made, 1, spin):
        found = seen(made, 1)
        _, gil_held, gil_elsewhere, cpu, _ = made.read()
    assert found.running > 0.5 * found.num
    assert found.io < 0.2 * found.num
    assert cpu > 0
    if made.knows_holder:
        assert found.held > 0.5 * found.num
        assert gil_held >= found.held + gil_elsewhere


def test_a_thread_that_sleeps_is_in_io() -> None:
    """A sleep, a poll and a read are system calls, and no lock."""
    reader, writer = os.pipe()
    try:
        # One long sleep: beside load, a thread that wakes up often is mostly seen waiting for a CPU.
        with sampler() as made, busy(made, 0, lambda: select.select([reader], [], [])):
            try:
                found = seen(made, 0)
            finally:
                os.write(writer, b"1")
    finally:
        os.close(reader)
        os.close(writer)
    assert found.io > 0.5 * found.num
    assert found.held < 0.5 * found.num


def test_native_code_runs_without_the_gil() -> None:
    """SHA-256 of a large buffer runs, and the GIL is free meanwhile."""
    with sampler() as made, busy(made, 2, sha256):
        found = seen(made, 2)
    assert found.running > 0.8 * found.num
    assert found.held < 0.5 * found.num
    assert found.gil < 0.5 * found.num


def test_looks_that_cost_too_much_become_rarer() -> None:
    """A sampler that may take next to nothing looks less often than one that may take a whole CPU."""
    with sampler() as free, closing(Sampler(4, _PERIOD, has_gil(), 1e-9)) as bounded, busy(free, 0, sha256):
        seen(free, 0)
        num_bounded = bounded.read()[0]
        assert num_bounded < free.read()[0]


def test_a_lock_is_not_the_gil() -> None:
    """A thread that waits for a lock is told from one that waits for the GIL."""
    held = threading.Lock()
    with sampler() as made, ExitStack() as stack:
        held.acquire()
        stack.enter_context(busy(made, 3, lambda: held.acquire() and held.release()))  # type: ignore[func-returns-value]
        stack.callback(held.release)
        found = seen(made, 3)
    assert found.lock > 0.5 * found.num
    assert found.gil < 0.5 * found.num


@pytest.mark.skipif(not has_gil(), reason="there is no GIL")
def test_threads_that_spin_wait_for_the_gil() -> None:
    """Of several threads with Python code, those that sleep wait for the GIL; on a busy machine many wait for a CPU."""
    with sampler() as made, ExitStack() as stack:
        for stage in range(3):
            stack.enter_context(busy(made, stage, spin))
        found = [seen(made, stage) for stage in range(3)]
    assert made.knows_gil
    # Beside other load, threads mostly wait for a CPU, with the GIL or without.
    assert sum(each.gil for each in found) > sum(each.lock + each.io for each in found)


def test_an_assigned_thread_counts_for_good() -> None:
    """A thread that says nothing, such as that of a source, is sampled too, with its CPU time."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            spin()

    thread = threading.Thread(target=work)
    thread.start()
    with sampler() as made:
        made.assign(thread.native_id, 1)
        found = seen(made, 1)
        is_over.set()
        thread.join()
    assert found.cpu > 0


def test_an_adopted_thread_counts_until_it_is_forgotten() -> None:
    """What was seen of a call that began earlier is dropped when nobody knows when it ended."""
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    with sampler() as made:
        made.adopt(thread.native_id, 0)
        assert seen(made, 0).num >= _ENOUGH
        made.forget(thread.native_id)
        assert Seen(*made.read()[4][0]).num == 0
        is_over.set()
        thread.join()


def test_a_stage_that_does_not_exist_is_refused() -> None:
    """Numbers are checked."""
    with sampler(2) as made:
        for call in (made.enter, lambda stage: made.assign(1, stage), lambda stage: made.adopt(1, stage)):
            with pytest.raises(ValueError, match="no such stage"):
                call(2)


def test_what_was_seen_can_be_read_after_close() -> None:
    """close() is idempotent, ends the thread, and keeps the numbers."""
    with sampler() as made, busy(made, 0, wait_in_select):
        seen(made, 0)
    made.close()
    assert made.read() == made.read()
    made.enter(1)
    made.leave()


def test_many_samplers_at_once() -> None:
    """Each has its own threads; a thread that serves several is counted where it is."""
    with ExitStack() as stack:
        made = [stack.enter_context(sampler()) for _ in range(20)]
        for each in made:
            stack.enter_context(busy(each, 1, wait_in_select))
        for each in made:
            assert seen(each, 1, least=5).num >= 5
            assert seen(each, 1, least=5).io > 0


def test_a_forked_child_has_no_sampler() -> None:
    """In the child all calls return at once, the parent's goes on, and the child can make its own."""
    ended = run_child(
        """
        import os, select, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from spdl._processes._memory import Sampler

        inherited = Sampler(1, 0.001, True)
        inherited.enter(0)
        pid = os.fork()
        if pid == 0:
            inherited.enter(0)
            inherited.leave()
            assert inherited.read()[0] == 0
            inherited.close()
            own = Sampler(1, 0.001, True)
            own.enter(0)
            while own.read()[4][0][0] < 3:
                select.select([], [], [], 0.001)
            own.close()
            del own, inherited
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        before = inherited.read()[0]
        while inherited.read()[0] < before + 3:
            select.select([], [], [], 0.001)
        inherited.close()
        print("done")
        """
    )
    ended.check("done")


def test_the_interpreter_may_exit_while_it_samples() -> None:
    """A sampler that is never closed, and threads that never end, hold nothing up."""
    ended = run_child(
        """
        import threading
        from spdl._processes._memory import Sampler

        made = Sampler(2, 0.001, True)
        def work():
            made.enter(1)
            while True:
                pass
        threading.Thread(target=work, daemon=True).start()
        while made.read()[4][1][0] < 3:
            pass
        print("done")
        """
    )
    ended.check("done")


def test_calls_alone_and_beside_others_are_told_apart() -> None:
    """A call counts as alone if no other of its stage ran, as beside if others ran at its begin and at its end."""
    with sampler() as made:
        made.enter(0)
        made.leave()
        alone = Seen(*made.read()[4][0])
        assert (alone.num_alone, alone.num_beside) == (1, 0)
        is_inside, may_leave = threading.Event(), threading.Event()

        def work() -> None:
            made.enter(1)
            is_inside.set()
            may_leave.wait()
            made.leave()

        thread = threading.Thread(target=work)
        thread.start()
        is_inside.wait()
        with busy(made, 1, spin):  # its call is longer than that of the other thread, or shorter
            seen(made, 1, least=5)
        may_leave.set()
        thread.join()
        beside = Seen(*made.read()[4][1])
        assert (beside.num_alone, beside.num_beside) == (0, 1)
        assert beside.cpu_beside > 0
