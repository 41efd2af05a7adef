"""Which tests may depend on when things happen, and how they are repeated."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repeating import original_name
from tests.support.timeouts import TIMEOUT
from tests.support.timing import is_timed

TESTS = Path(__file__).resolve().parents[1]

SOURCE = """
import signal
import socket
import threading
import time
from spdl.pipeline import PipelineBuilder
from tests.support.running import await_event

LIMIT = 3.0


def helper(server):
    return server


def server():
    return socket.socket()


def nested():
    return waiting()


def waiting():
    threading.Thread(target=time.sleep).start()


def test_plain():
    assert [1]


def test_socket(server):
    assert helper(server)


def test_signal():
    signal.getsignal(2)


def test_indirect():
    nested()


def test_threads_alone():
    threading.Event()


def test_time_alone():
    time.time()


def test_pipeline():
    PipelineBuilder()


def test_pipeline_that_waits():
    PipelineBuilder().build(stall_timeout=LIMIT)


def test_helper_elsewhere():
    await_event(threading.Event())


class TestMethods:
    def test_method(self):
        signal.getsignal(2)
"""

TIMED = {
    "test_plain": False,
    "test_socket": True,
    "test_signal": True,
    "test_indirect": True,
    "test_threads_alone": False,
    "test_time_alone": False,
    "test_pipeline": False,
    "test_pipeline_that_waits": True,
    "test_helper_elsewhere": True,
}


@pytest.mark.parametrize("name", sorted(TIMED))
def test_tests_are_found_by_what_they_use(name: str, tmp_path: Path) -> None:
    """Themselves, in functions and fixtures that they use, and in other files of tests."""
    path = tmp_path / "test_some.py"
    path.write_text(SOURCE)
    assert is_timed(path, name) is TIMED[name]


@pytest.mark.tree
def test_tests_of_this_repository_are_found() -> None:
    """A test of sockets that are slow is one; one of arithmetic is none."""
    assert is_timed(TESTS / "remote" / "test_faults.py", "test_fault_that_stays_is_a_typed_error")
    assert not is_timed(TESTS / "source" / "test_keyed.py", "test_a_billion_items_take_no_memory")


def test_a_repeated_test_keeps_its_name() -> None:
    """With and without parameters of its own."""
    assert original_name("tests/a.py::test_b[repetition12]") == "tests/a.py::test_b"
    assert original_name("tests/a.py::test_b[x-3-repetition0]") == "tests/a.py::test_b[x-3]"
    assert original_name("tests/a.py::test_b[x]") == "tests/a.py::test_b[x]"


@pytest.mark.slow
@pytest.mark.tree
def test_each_test_runs_so_often_and_is_logged(tmp_path: Path) -> None:
    """What failed, what passed, and what ended the process."""
    (tmp_path / "test_some.py").write_text(
        "import os, itertools, pytest\n"
        "calls = itertools.count()\n"
        "@pytest.mark.parametrize('x', [1])\n"
        "def test_a(x): assert next(calls) != 1\n"
        "def test_b(): pass\n"
        "def test_c(): os._exit(3)\n"
    )
    log = tmp_path / "log"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.repeating", "-p", "no:cacheprovider"]
    command += ["--repeat=3", f"--repeat-log={log}", "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path)]
    ended = subprocess.run(command, cwd=TESTS.parent, capture_output=True, timeout=TIMEOUT)
    assert ended.returncode == 3
    events = [json.loads(line) for line in log.read_text().splitlines()]
    seen = [(event["test"].rpartition("::")[2], event["event"]) for event in events if event["event"] != "begun"]
    assert seen == [("test_a[1]", word) for word in ("passed", "failed", "passed")] + [("test_b", "passed")] * 3
    assert (events[-1]["test"].rpartition("::")[2], events[-1]["event"]) == ("test_c", "begun")
    assert "assert 1 != 1" in next(event["text"] for event in events if event["event"] == "failed")
