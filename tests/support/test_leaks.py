"""The leak check itself: it finds leaks and ignores what is ending."""

import _thread
import asyncio
import gc
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.leaks import Snapshot, TaskComplaints, find_leaks


def test_nothing_left_is_no_leak() -> None:
    """Two snapshots of an idle process do not differ."""
    assert find_leaks(Snapshot.take()) == []


def test_live_thread_is_named() -> None:
    """A thread that waits for ever is reported by its name."""
    gate = threading.Event()
    before = Snapshot.take()
    thread = threading.Thread(target=gate.wait, name="left-behind")
    thread.start()
    try:
        assert find_leaks(before, grace=0) == ["thread 'left-behind' is still alive"]
    finally:
        gate.set()
        thread.join()


def test_thread_on_its_way_out_is_joined() -> None:
    """A thread that ends within the grace is no leak."""
    gate = threading.Event()
    before = Snapshot.take()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    gate.set()
    assert find_leaks(before) == []


def test_open_descriptor_is_named() -> None:
    """A pipe that was not closed is reported with what it refers to."""
    before = Snapshot.take()
    with _pipe() as ends:
        leaks = find_leaks(before, grace=0)
    assert [line.split(" is ")[0] for line in leaks] == [f"descriptor {fd}" for fd in sorted(ends)]


def test_unclosed_event_loop_is_a_leak() -> None:
    """A loop that was not closed shows by its descriptors, whatever tasks it holds."""
    before = Snapshot.take()
    loop = asyncio.new_event_loop()
    try:
        assert any("descriptor" in line for line in find_leaks(before, grace=0))
    finally:
        loop.close()


def test_destroyed_pending_task_is_reported() -> None:
    """A task that is destroyed while it waits is found through asyncio's own log message."""
    complaints = TaskComplaints()
    logger = logging.getLogger("asyncio")
    others, logger.handlers = logger.handlers, [complaints]  # the check around this very test must not see it
    try:
        loop = asyncio.new_event_loop()
        task = loop.create_task(asyncio.Event().wait())
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        del task, loop
        gc.collect()
    finally:
        logger.handlers = others
    assert len(complaints.messages) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="children are listed from /proc")
def test_child_process_is_named() -> None:
    """A child that runs is reported with its command."""
    before = Snapshot.take()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()  # before this it may not have its name yet
        leaks = find_leaks(before, grace=0)
    assert f"child process {child.pid} is left: cat" in leaks


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_helpers_of_multiprocessing_are_no_leak(method: str) -> None:
    """The tracker and the fork server, which the standard library keeps, are ignored; a joined child is gone."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    before = Snapshot.take()
    child = multiprocessing.get_context(method).Process(target=os.getpid)  # type: ignore[attr-defined]
    child.start()
    child.join()
    child.close()
    assert find_leaks(before) == []


def test_descriptor_that_another_thread_closes_is_no_leak() -> None:
    """Of native code, which no snapshot knows: what it holds gets the grace too."""
    before = Snapshot.take()
    ends = os.pipe()
    go = threading.Lock()
    go.acquire()

    def close() -> None:
        go.acquire()
        for end in ends:
            os.close(end)

    _thread.start_new_thread(close, ())
    go.release()
    assert find_leaks(before) == []


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)
