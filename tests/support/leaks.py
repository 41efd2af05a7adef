"""Leak check: finds what a test leaves behind.

``Snapshot.take()`` before and ``find_leaks(before)`` after. A thread or a child process that is about to end is
joined, for ``GRACE`` seconds at most over all of them. Threads of native code cannot be joined from here: the
resources they hold are polled for the same time. Without a difference the check costs a few directory listings (about
100 us together), so ``conftest.py`` applies it to every test.

There is no public list of pending asyncio tasks over all loops. The check detects them in three ways: the loop that
holds them runs in a thread (left behind), or was never closed (its descriptors are left behind), or asyncio logs an
error when it destroys them (:class:`TaskComplaints`).
"""

import gc
import logging
import multiprocessing
import os
import select
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spdl._processes._template import kept
from tests.support import interpreters

__all__ = ["GRACE", "Snapshot", "TaskComplaints", "find_leaks"]

#: Seconds for threads and processes that are ending, in total. Only a test that leaks waits this long.
GRACE = 20.0

# Processes that the standard library and the tests start once and keep until the interpreter exits.
_KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", interpreters.NAME)

_FD_FOLDER = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The resources of this process at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    descriptors: dict[int, str]

    @classmethod
    def take(cls) -> "Snapshot":
        return cls(frozenset(threading.enumerate()), _children(), _descriptors())


class TaskComplaints(logging.Handler):
    """Collects asyncio's ``Task was destroyed but it is pending!`` while a test runs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("Task was destroyed but it is pending"):
            self.messages.append(message)


def find_leaks(before: Snapshot, *, grace: float = GRACE) -> list[str]:
    """Describe what is alive now and was not in ``before``; empty without leaks.

    Args:
        before: The snapshot before the test.
        grace: The maximum number of seconds to wait for threads and processes that are about to end.
    """
    if not _differences(before):
        return []
    # An object kept alive by a reference cycle only (a traceback that holds a frame with a pipeline) is not a leak.
    gc.collect()
    deadline = time.monotonic() + grace
    known = before.threads | {threading.current_thread()}
    while found := set(threading.enumerate()) - known:  # a thread that is ending may start another one to join it
        for thread in found:
            with suppress(RuntimeError):  # it is listed but still starting; if it stays, it is in the differences
                thread.join(max(0.0, deadline - time.monotonic()))
        known |= found
    for pid in _children() - before.children - _kept():
        _join_process(pid, deadline - time.monotonic())
    pause = 0.001
    while (left := _differences(before)) and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return left


def _differences(before: Snapshot) -> list[str]:
    threads = [thread for thread in threading.enumerate() if thread not in before.threads and thread.is_alive()]
    children = _children() - before.children
    if children:
        multiprocessing.active_children()  # reaps those of multiprocessing that have ended
        children = _children() - before.children - _kept()
    now = _descriptors()
    opened = {fd: target for fd, target in now.items() if before.descriptors.get(fd) != target}
    if opened:
        templates, ours = kept()  # a process that stays on purpose, like the fork server
        pipes = _pipes_of(_kept() | templates) | interpreters.kept_sockets()
        opened = {fd: target for fd, target in opened.items() if target not in pipes and fd not in ours}
    return [
        *(f"thread {thread.name!r}{' (daemon)' if thread.daemon else ''} is still alive" for thread in threads),
        *(f"child process {pid} is left: {_command(pid)}" for pid in sorted(children)),
        *(f"descriptor {fd} is still open: {target}" for fd, target in sorted(opened.items())),
    ]


def _children() -> frozenset[int]:
    """Pids of the direct children, including zombies."""
    if sys.platform != "linux":
        return frozenset(child.pid for child in multiprocessing.active_children() if child.pid is not None)
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as listing:
                found.update(map(int, listing.read().split()))
        except (FileNotFoundError, ProcessLookupError):  # that thread has just ended; its children moved to another
            continue
    return frozenset(found)


def _descriptors() -> dict[int, str]:
    """Open descriptors and their targets, so that one that was closed and reopened under its number is detected."""
    found: dict[int, str] = {}
    for name in os.listdir(_FD_FOLDER):
        try:
            found[int(name)] = os.readlink(_FD_FOLDER / name)
        except FileNotFoundError:  # the one that listed the folder
            continue
        except OSError:  # /dev/fd of macOS has no links; only the number is compared
            found[int(name)] = ""
    return found


def _kept() -> frozenset[int]:
    return frozenset(pid for pid in _children() if any(word in _command(pid) for word in _KEPT))


def _pipes_of(pids: frozenset[int]) -> frozenset[str]:
    """Pipes and sockets that these processes share with this one."""
    targets: set[str] = set()
    for pid in pids:
        folder = Path(f"/proc/{pid}/fd")
        try:
            targets.update(os.readlink(link) for link in folder.iterdir())
        except OSError:  # it has ended
            continue
    return frozenset(target for target in targets if target.startswith(("pipe:", "socket:")))


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "(ended)"
    return os.fsdecode(b" ".join(words)).strip() or "(ended, not waited for)"


def _join_process(pid: int, timeout: float) -> None:
    """Wait until the process has ended, without reaping it, because its parent object may still need its exit code."""
    if not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [], max(0.0, timeout))
    finally:
        os.close(descriptor)
