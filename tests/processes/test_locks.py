"""``ParkingLock`` and ``PostponingLock``: what the engine sleeps on where Python has no GIL. They work with one too."""

import sys
import threading
from typing import Any

import pytest

import spdl.pipeline._engine._core as core
import spdl.pipeline._engine._thread as lock_module
from spdl._processes import _memory
from spdl.pipeline import PipelineBuilder
from tests.support.child import run_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="made of futexes")

KINDS = ("ParkingLock", "PostponingLock")


def new_lock(kind: str) -> Any:
    return getattr(_memory, kind)()


@pytest.mark.parametrize("kind", KINDS)
def test_one_thread_at_a_time_has_the_lock(kind: str) -> None:
    """Increments under the lock are not lost."""
    lock, counted = new_lock(kind), [0]

    def count() -> None:
        for _ in range(300):
            with lock:
                counted[0] += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == [4 * 300]
    assert not lock.locked()


@pytest.mark.parametrize("kind", KINDS)
def test_acquire_says_whether_it_took_the_lock(kind: str) -> None:
    """As that of ``threading.Lock``: at once, within a time, or for ever."""
    lock = new_lock(kind)
    assert lock.acquire()
    assert not lock.acquire(False)
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0)
    assert not lock.acquire(timeout=0.001)
    assert lock.locked()
    lock.release()
    assert lock.acquire(timeout=threading.TIMEOUT_MAX)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_that_is_free_cannot_be_released(kind: str) -> None:
    """As ``threading.Lock``."""
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        new_lock(kind).release()


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_inside_releases_the_lock(kind: str) -> None:
    """And is not swallowed."""
    lock = new_lock(kind)
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.locked()


def test_a_thread_that_is_woken_under_a_lock_finds_it_free() -> None:
    """However often it is woken: no wake-up is lost."""
    lock, wake_up, done = _memory.PostponingLock(), _memory.ParkingLock(), _memory.ParkingLock()
    wake_up.acquire()
    done.acquire()
    num_woken = 0

    def sleeper() -> None:
        nonlocal num_woken
        for _ in range(200):
            wake_up.acquire()
            with lock:
                num_woken += 1
                done.release()

    thread = threading.Thread(target=sleeper)
    thread.start()
    for _ in range(200):
        with lock:
            wake_up.release()
        done.acquire()
    thread.join()
    assert num_woken == 200


def test_more_threads_are_woken_under_a_lock_than_are_remembered() -> None:
    """Those beyond wake up at once."""
    lock = _memory.PostponingLock()
    wake_ups = [_memory.ParkingLock() for _ in range(20)]
    for wake_up in wake_ups:
        wake_up.acquire()
    threads = [threading.Thread(target=wake_up.acquire) for wake_up in wake_ups]
    for thread in threads:
        thread.start()
    with lock:
        for wake_up in wake_ups:
            wake_up.release()
    for thread in threads:
        thread.join()


def test_a_pipeline_runs_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Python has no GIL."""
    monkeypatch.setattr(lock_module, "_new_parking", _memory.ParkingLock)
    monkeypatch.setattr(core, "new_lock", _memory.PostponingLock)
    pipeline = PipelineBuilder().add_source(range(200)).pipe(str).pipe(int, concurrency=3).add_sink().build()
    with pipeline.auto_stop():
        assert sorted(pipeline) == list(range(200))


@pytest.mark.slow
def test_a_signal_interrupts_a_wait() -> None:
    """Its handler runs while the main thread sleeps, and may raise; the lock can be used afterwards."""
    run_child("""
import signal
from spdl._processes._memory import ParkingLock
lock = ParkingLock()
lock.acquire()
signals = []
def handle(*_):
    signals.append(1)
    if len(signals) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    lock.acquire()
except KeyboardInterrupt:
    print("interrupted")
lock.release()
assert lock.acquire()
print("taken")
""").check("interrupted\ntaken")
