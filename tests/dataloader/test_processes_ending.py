"""The process of a loader ends, or is forked, while workers are live: always, and with nothing on stderr."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.child import environment, run_child

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX"),
]

_START = """
import multiprocessing, os, signal, sys, threading
from spdl.dataloader._torch.processes._processes import ProcessRun
from tests.dataloader.process_datasets import Blocking, Counting, Interrupting, Numbers, as_is, plan_of

def begin(dataset, batch_size=1, **options):
    return ProcessRun(plan_of(dataset, batch_size, **{"collate_fn": as_is, **options}))

"""


def script(body: str) -> str:
    lines = body.strip("\n").splitlines()
    return _START + 'if __name__ == "__main__":\n' + "\n".join(f"    {line}" for line in lines) + "\n"


def test_exit_with_live_workers() -> None:
    """However far an epoch is, and whoever holds it."""
    run_child(
        script("""
begun = begin(Numbers()).iterate()
persistent = begin(Numbers(), persistent_workers=True)
list(persistent.iterate())
other = begin(Numbers(), persistent_workers=True)
next(other.iterate())
batches = begin(Counting(10**9, 10**9)).iterate()
next(batches)
cycle = [batches]
cycle.append(cycle)
del batches
blocked = begin(Blocking(2)).iterate()
next(blocked); next(blocked)
sys.modules["kept"] = begin(Numbers()).iterate()
next(sys.modules["kept"])
print("last")
""")
    ).check("last")


def test_an_interrupt_ends_the_epoch_and_not_the_workers() -> None:
    """Ctrl-C while a batch is waited for; persistent workers go on with the next epoch."""
    run_child(
        script("""
context = multiprocessing.get_context("forkserver")
prepared, noticed = context.Event(), context.Event()
run = begin(Interrupting(8, at=3, prepared=prepared, noticed=noticed), persistent_workers=True)
batches = run.iterate()
pid = next(batches)[0][1]
try:
    prepared.set()
    list(batches)
except KeyboardInterrupt:
    noticed.set()
    print("interrupted")
found = [batch[0] for batch in run.iterate()]
print([index for index, _ in found] == list(range(8)), found[0][1] == pid)
run.close()
""")
    ).check("interrupted True True")


def test_a_fork_of_the_consumer_has_nothing_that_has_arrived() -> None:
    """The parent may give its memory back at any moment."""
    run_child(
        script("""
batches = begin(Numbers()).iterate()
next(batches)
while not batches._arrived:
    worker, frame = batches._receive()
    del batches._dealt[frame.number]
    batches._arrived[frame.number] = worker, frame
pid = os.fork()
if pid == 0:
    try:
        next(batches)
    except Exception as exc:
        print(type(exc).__name__, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
next(batches)
print("parent")
""")
    ).check("PipelineStateError parent")


def test_a_fork_of_the_consumer_has_no_workers() -> None:
    """It cannot take batches, and its end does the workers no harm."""
    run_child(
        script("""
batches = begin(Numbers(20)).iterate()
next(batches)
persistent = begin(Numbers(20), persistent_workers=True)
list(persistent.iterate())
pid = os.fork()
if not pid:
    try:
        next(batches)
        while True:
            next(batches)
    except Exception as exc:
        ok = "forked" in str(exc)
    ok = ok and len(list(persistent.iterate())) == 20  # by workers of its own
    persistent.close()
    del batches
    os._exit(0 if ok else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(list(batches)), len(list(persistent.iterate())))
""")
    ).check("0 19 20")


def test_workers_end_when_the_consumer_is_killed() -> None:
    """Also one that is busy: the pipe that all of them inherited ends with the last."""
    run_child(
        script("""
reader, writer = os.pipe()
pid = os.fork()
if not pid:
    os.close(reader)
    os.set_inheritable(writer, True)
    batches = begin(Blocking(2), multiprocessing_context="fork").iterate()
    next(batches); next(batches)
    os.kill(os.getpid(), signal.SIGKILL)
os.close(writer)
print(os.read(reader, 1), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    ).check(f"b'' {-signal.SIGKILL}")


def test_every_start_method_works() -> None:
    """With a dataset that is defined in the main module; what does not pickle is forked where that is safe."""
    run_child(
        _START
        + """
class Mine(Numbers):
    pass

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        run = begin(Mine(6), multiprocessing_context=method, worker_init_concurrency=1)
        print(method, sum(batch[0][0] for batch in run.iterate()))
    offset = 3
    run = begin(Numbers(4), collate_fn=lambda batch: batch[0][0] + offset)
    print(sum(run.iterate()))
    gate = threading.Event()
    threading.Thread(target=gate.wait).start()
    try:
        run.iterate()
    except TypeError as exc:
        print("other threads run" in str(exc))
    gate.set()
"""
    ).check("fork 15 spawn 15 forkserver 15 18 True")


_PROMPT = """
import threading
from spdl.dataloader._torch.processes._processes import ProcessRun
from tests.dataloader.process_datasets import Numbers, plan_of

class Mine(Numbers):
    pass

gate = threading.Event()
threading.Thread(target=gate.wait).start()
try:
    ProcessRun(plan_of(Mine(3))).iterate()
except TypeError as exc:
    print(exc)
gate.set()
"""


def test_a_class_of_a_prompt_is_refused() -> None:
    """A new process cannot import it: where forking is no way out, the error says so before one starts."""
    ended = subprocess.run([sys.executable, "-c", _PROMPT], capture_output=True, text=True, env=environment())
    assert "'Mine' is defined in an interactive main module" in ended.stdout, ended


def test_a_script_without_a_guard_is_told_so() -> None:
    """It would run again in every process, which refuses to start others; the error says what is missing."""
    ended = run_child(_START + "print('once')\nlist(begin(Numbers()).iterate())\n")
    assert ended.returncode == 1
    assert "Put what the script does under `if __name__ == '__main__':`" in ended.stderr
    assert "A main module that loads data when it is imported needs the guard" in ended.stderr
