"""``spdl.debug``: the report as text, and on a signal. Signals are for children only."""

import signal

import pytest

import spdl.debug
from spdl.pipeline import PipelineBuilder
from tests.support.child import run_child


def test_dump_shows_the_pipelines_of_this_process() -> None:
    """Their state and the stacks of the other threads; without a pipeline that runs, the last one."""
    pipeline = PipelineBuilder().add_source(range(10**6)).pipe(str, name="decode").add_sink().build()
    with pipeline.auto_stop():
        pipeline.get_item()
        text = spdl.debug.dump()
    assert f"pipeline {pipeline._engine.pipeline_id}: running" in text
    assert ":decode" in text


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of POSIX")
def test_a_signal_writes_the_report() -> None:
    """The stacks at once, and then the pipelines; the program goes on."""
    ended = run_child("""
import os, signal, sys, threading
import spdl.debug
from spdl.pipeline import PipelineBuilder

before = signal.getsignal(signal.SIGUSR1)
written = threading.Event()

class Told:  # stderr, and the news that the report has been written
    write = sys.stderr.write

    def flush(self):
        sys.__stderr__.flush()
        written.set()

def op(item):
    while not written.is_set():  # a signal in the instant before a wait is noticed only after it
        os.kill(os.getpid(), signal.SIGUSR1)
        written.wait(0.1)
    return item

spdl.debug.on_signal(signal.SIGUSR1)
sys.stderr = Told()
print(before is signal.SIG_DFL, *PipelineBuilder().add_source(range(1)).pipe(op, name="decode").add_sink().build())
""")
    assert (ended.returncode, ended.stdout) == (0, "True 0\n"), ended
    assert "Thread 0x" in ended.stderr, ended
    assert "calls in flight:\n  0:1:decode: item 0, for " in ended.stderr, ended
    ended.check_no_complaint()


@pytest.mark.slow
def test_a_signal_writes_stacks_while_native_code_holds_the_gil() -> None:
    """On all versions of Python."""
    ended = run_child("""
        import ctypes
        import os
        import signal

        import spdl.debug


        def hold_the_gil():
            ctypes.PyDLL(None).pause()  # until the signal


        spdl.debug.on_signal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)  # the first may come before the call
        hold_the_gil()
        os._exit(0)  # the report that comes after the stacks may be on its way
        """)
    assert ended.returncode == 0, ended
    assert "in hold_the_gil" in ended.stderr, ended


def test_a_signal_that_cannot_be_handled_is_refused() -> None:
    """As ``signal.signal`` refuses it."""
    with pytest.raises((OSError, ValueError)):
        spdl.debug.on_signal(getattr(signal, "SIGKILL", 9))
