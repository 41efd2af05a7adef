"""Looking at processes that are not this one's children: those of a fork server, or of a process that was killed."""

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["are_gone", "maps_our_memory", "num_descriptors", "send"]


def are_gone(pids: Iterable[int], timeout: float = 20.0) -> list[int]:
    """Those that are still there after so many seconds; only a failing test waits that long."""
    deadline = time.monotonic() + timeout
    left = []
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                left.append(pid)
        finally:
            os.close(descriptor)
    return left


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def maps_our_memory(pid: int) -> bool:
    """The process has shared memory of ours mapped."""
    return "memfd:spdl" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def num_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
