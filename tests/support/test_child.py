"""Scripts in their own interpreters end like any script, in a new and in a forked interpreter."""

import os
import signal
import sys
from contextlib import suppress

import pytest

from tests.support import interpreters
from tests.support.child import run_child

#: A forked interpreter, and a new one.
EACH = pytest.mark.parametrize("fresh", [False, True])


@EACH
def test_a_script_prints_and_ends(fresh: bool) -> None:
    """Its output is complete, and its exit handlers run."""
    run_child('import atexit; atexit.register(print, "exit"); print("main")', fresh=fresh).check("main exit")


@EACH
def test_exit_codes_and_exceptions_are_told(fresh: bool) -> None:
    """By the code, and by the traceback that Python prints."""
    run_child("import sys; sys.exit(7)", fresh=fresh).check(returncode=7)
    run_child('raise ValueError("so it is")', fresh=fresh).check_raised("ValueError: so it is", "main.py")
    run_child("raise KeyboardInterrupt", fresh=fresh).check_interrupted()
    assert run_child("import os; os.kill(os.getpid(), 9)", fresh=fresh).returncode == -9


@EACH
def test_the_script_is_the_main_module(fresh: bool) -> None:
    """From its file, so that a spawned process finds what it defines; with warnings as errors and stdin empty."""
    run_child(
        """
        import multiprocessing, os, sys, warnings
        def answer(results):
            results.put(__name__)
        if __name__ == "__main__":
            print(os.path.basename(__file__), os.path.basename(sys.argv[0]), repr(sys.stdin.read()))
            print(os.getsid(0) == os.getpid(), __spec__, sys.flags.interactive)
            context = multiprocessing.get_context("spawn")
            results = context.SimpleQueue()
            child = context.Process(target=answer, args=(results,))
            child.start()
            print(results.get())
            child.join()
            results.close()
            try:
                warnings.warn("so")
            except UserWarning:
                print("error")
        """,
        fresh=fresh,
    ).check("main.py main.py '' True None 0 __mp_main__ error")


@EACH
def test_variables_are_those_of_the_test(fresh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when they change from one script to the next."""
    for value in ("one", "two"):
        monkeypatch.setenv("SPDL_TEST", value)
        run_child('import os; print(os.environ["SPDL_TEST"])', fresh=fresh).check(value)


@EACH
def test_a_hang_is_ended(fresh: bool) -> None:
    """With everything that the script started and that has its output; the next script runs."""
    script = """
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        time.sleep(1000)
        """
    with pytest.raises(pytest.fail.Exception, match=r"it has not ended after 1 s\nexit code -[69]"):
        run_child(script, timeout=1, fresh=fresh)
    run_child("print(1)", fresh=fresh).check("1")


def test_a_server_that_was_killed_is_replaced() -> None:
    """The script after that runs."""
    first = run_child("import os; print(os.getppid())")
    os.kill(int(first.stdout), signal.SIGKILL)
    with suppress(interpreters.Gone, OSError):  # while it is being killed
        run_child("print(1)")
    run_child("print(2)").check("2")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_what_was_open_here_is_not_open_there() -> None:
    """A forked interpreter has its three streams."""
    read, write = os.pipe()
    try:
        run_child("import os; print(*sorted(map(int, os.listdir('/proc/self/fd')))[:3])").check("0 1 2")
        run_child("import os; print(len(os.listdir('/proc/self/fd')))").check("4")
    finally:
        os.close(read)
        os.close(write)
