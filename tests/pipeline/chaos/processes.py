"""Looking at processes that are not this one's children: those of a fork server, or of a process that was killed."""

import os
import select
import time
from collections.abc import Iterable

from tests.support.timeouts import TIMEOUT

__all__ = ["are_gone", "num_descriptors"]


def are_gone(pids: Iterable[int], timeout: float = TIMEOUT) -> list[int]:
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


def num_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
