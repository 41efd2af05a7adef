"""Start methods, the fork server, and what is left when a process cannot be started."""

import multiprocessing
import os
import subprocess
import sys
import threading
from functools import partial

import pytest

from spdl._processes._start import context_of
from spdl.pipeline import iterate_in_subprocess
from tests.processes import bodies
from tests.support.child import environment, run_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")

_SCRIPT = """
import multiprocessing, os, signal
from multiprocessing import forkserver
from functools import partial
from spdl.pipeline import WorkerDiedError, WorkerError, iterate_in_subprocess
from tests.processes import bodies

def descriptors():
    return sorted(os.listdir("/proc/self/fd"))
"""


def test_a_method_has_its_context() -> None:
    """By name, or by the context itself."""
    for method in multiprocessing.get_all_start_methods():
        assert context_of(method).get_start_method() == method
    context = multiprocessing.get_context("spawn")
    assert context_of(context) is context
    with pytest.raises(ValueError, match=r"mp_context must be one of .*spawn.*, got 'clone'"):
        context_of("clone")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12 on
def test_fork_is_no_default_while_threads_run() -> None:
    """Where any use of multiprocessing leaves it as the method, it may not have been chosen."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    try:
        assert context_of(None).get_start_method() != "fork"
        with pytest.warns(RuntimeWarning, match="can deadlock"):
            iterable = iterate_in_subprocess(partial(bodies.Range, 3), mp_context="fork")
    finally:
        gate.set()
        thread.join()
    assert list(iterable) == [0, 1, 2]


@pytest.mark.slow
def test_children_find_their_modules_in_the_fork_server() -> None:
    """It has imported them, and what the user told it to import."""
    run_child(
        f"""{_SCRIPT}
if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["wave"])
    for _ in range(2):  # the first start must not change how the second is done
        names = list(iterate_in_subprocess(bodies.modules))
        print("spdl._processes._child_main" in names, "spdl.pipeline._remote._iterate_main" in names, "wave" in names)
""",
        fresh=True,
    ).check("True True True True True True")


@pytest.mark.slow
def test_whoever_warms_up_may_name_further_modules() -> None:
    """As long as the fork server has not started; what it has imported, children find."""
    run_child(
        f"""{_SCRIPT}
from spdl._processes._start import warm_up
if __name__ == "__main__":
    warm_up("forkserver", "wave")
    warm_up("forkserver", "chunk_that_there_is_not")
    print("wave" in list(iterate_in_subprocess(bodies.modules, mp_context="forkserver")))
""",
        fresh=True,
    ).check("True")


@pytest.mark.slow
def test_the_fork_server_imports_numpy_if_it_is_used_here() -> None:
    """As its children would, each for itself."""
    run_child(f"""{_SCRIPT}
if __name__ == "__main__":
    import numpy
    print("numpy" in list(iterate_in_subprocess(bodies.modules, mp_context="forkserver")))
""").check("True")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_child_that_iterates_does_without_the_engine(method: str) -> None:
    """It takes longer to import than a process takes to start."""
    run_child(
        f"""{_SCRIPT}
if __name__ == "__main__":
    names = list(iterate_in_subprocess(bodies.modules, mp_context={method!r}))
    print("spdl._errors" in names, "spdl.pipeline._engine" in names, "asyncio" in names)
""",
        fresh=True,
    ).check("True False False")


@pytest.mark.slow
def test_a_fork_server_that_was_killed_is_replaced() -> None:
    """Its children live on: what they make still comes, and their end is told."""
    run_child(f"""{_SCRIPT}
if __name__ == "__main__":
    first = iterate_in_subprocess(partial(bodies.Range, 3))
    dying = iter(iterate_in_subprocess(bodies.pid_then_nothing))
    pid = next(dying)
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGKILL)
    print(*first)
    print(*iterate_in_subprocess(partial(bodies.Range, 3)))
    print(*first)
    os.kill(pid, signal.SIGKILL)
    try:
        next(dying)
    except WorkerDiedError as error:
        print("exited unexpectedly." in str(error))
""").check("0 1 2 0 1 2 0 1 2 True")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_start_without_descriptors_leaves_nothing(method: str) -> None:
    """However many are left: a WorkerError or OSError that says so, and as many descriptors as before."""
    run_child(f"""{_SCRIPT}
import errno, resource

if __name__ == "__main__":
    print(*iterate_in_subprocess(partial(bodies.Range, 3), mp_context={method!r}))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = descriptors()
    for room in range(2, 16):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + room, hard))
        try:
            iterate_in_subprocess(partial(bodies.Range, 3), mp_context={method!r})
        except (WorkerError, OSError) as error:
            assert "Too many open files" in str(error) or "descriptors" in str(error), repr(error)
        else:
            raise AssertionError(room)
        error = None
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        assert descriptors() == before, (room, before, descriptors())
    print(*iterate_in_subprocess(partial(bodies.Range, 3), mp_context={method!r}))
""").check("0 1 2 0 1 2")


@pytest.mark.slow
def test_an_interactive_main_module_is_told_from_one_that_can_be_imported() -> None:
    """What is defined at a prompt cannot be found by a new process: it is forked, or named."""
    code = """
from spdl.pipeline import iterate_in_subprocess
import threading
def three():
    return range(3)
print(*iterate_in_subprocess(three))
gate = threading.Event()
thread = threading.Thread(target=gate.wait)
thread.start()
try:
    iterate_in_subprocess(three)
except TypeError as error:
    print("three" in str(error), "interactive main module" in str(error))
gate.set()
"""
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-W', 'error', '-c', {code!r}], check=True)"
    run_child(script).check("0 1 2 True True")


_WITHOUT_FILE = """
from functools import partial
import operator, threading
from spdl.pipeline import PipelineBuilder, WorkerDiedError, iterate_in_subprocess, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.processes import bodies

threading.Thread(target=threading.Event().wait, daemon=True).start()
builder = PipelineBuilder().add_source(range(3)).pipe(operator.neg).add_sink()
for method in ("spawn", "forkserver", None):
    print(*run_pipeline_in_subprocess(builder, num_threads=1, mp_context=method))
builder = PipelineBuilder().add_source(range(3)).to(ProcessPoolExecutorConfig(1)).pipe(operator.neg)
with (pipeline := builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)).auto_stop():
    print(*pipeline)
def three():
    return range(3)
try:
    iterate_in_subprocess(three)
except TypeError as error:
    print("three" in str(error), "move it to a module" in str(error), "__name__" in str(error))
try:
    iterate_in_subprocess(bodies.exit_at_once)
except WorkerDiedError as error:
    print("__name__" in "".join(error.__notes__))
print(globals().get("__file__"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "file"), [("-", "<stdin>"), ("-c", "None")])
def test_a_program_without_a_file_starts_processes(how: str, file: str) -> None:
    """Of what can be imported. What is defined in the program itself is named, and nobody is told of a guard."""
    command = [sys.executable, "-W", "error", how, *([_WITHOUT_FILE] if how == "-c" else [])]
    done = subprocess.run(command, input=_WITHOUT_FILE, capture_output=True, text=True, env=environment(), timeout=60)
    expected = ["0", "-1", "-2"] * 4 + ["True", "True", "False", "False", file]
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, expected, "")


@pytest.mark.slow
def test_a_program_whose_file_was_removed_starts_processes() -> None:
    """Its main module cannot be imported any more."""
    run_child(f"""{_SCRIPT}
import pathlib
if __name__ == "__main__":
    pathlib.Path(__file__).unlink()
    for method in ("spawn", "forkserver"):
        print(*iterate_in_subprocess(partial(bodies.Range, 3), mp_context=method))
""").check("0 1 2 0 1 2")


@pytest.mark.slow
def test_a_program_without_a_guard_learns_what_is_wrong() -> None:
    """A main module that starts a process when it is imported."""
    ended = run_child("""
        from functools import partial
        from spdl.pipeline import iterate_in_subprocess
        from tests.processes import bodies
        print(*iterate_in_subprocess(partial(bodies.Range, 3), mp_context="spawn"))
        """)
    assert ended.returncode == 1
    assert "WorkerDiedError" in ended.stderr
    assert "if __name__ == '__main__':" in ended.stderr


@pytest.mark.slow
def test_a_daemon_may_start_a_worker() -> None:
    """Of multiprocessing, which allows its daemons no children: a worker of torch's loader is one."""
    run_child(f"""{_SCRIPT}
def work(results):
    results.send(list(iterate_in_subprocess(partial(bodies.Range, 3))))

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(sender,), daemon=True)
        child.start()
        print(*receiver.recv())
        child.join()
        print(child.exitcode)
""").check("0 1 2 0 0 1 2 0")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
@pytest.mark.parametrize("daemon", [True, False])
def test_a_process_of_multiprocessing_exits_with_a_live_worker(method: str, daemon: bool) -> None:
    """Which skips atexit, and waits for its own processes: ours have ended before."""
    run_child(f"""{_SCRIPT}
def work(results):
    global iterator
    iterator = iter(iterate_in_subprocess(bodies.pid_then_nothing, daemon={daemon}))
    results.send(next(iterator))

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(sender,))
    child.start()
    pid = receiver.recv()
    child.join()
    print(child.exitcode, os.path.exists(f"/proc/{{pid}}"))
""").check("0 False")
