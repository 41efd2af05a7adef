"""Waiting for descriptors."""

from __future__ import annotations

import select
from collections.abc import Iterable


def wait_readable(descriptors: Iterable[int], timeout: float | None) -> list[int]:
    """Wait until at least one descriptor is readable or its other end is gone. Return all of these.

    Args:
        descriptors: At least one.
        timeout: Seconds; ``None``: no limit.

    Returns:
        Empty after a timeout.
    """
    if not hasattr(select, "poll"):  # Windows
        return select.select(list(descriptors), [], [], timeout)[0]
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    # Rounded up, so that a wait of a microsecond does not become a busy loop.
    milliseconds = None if timeout is None else min(int(timeout * 1000) + (timeout > 0), 0x7FFFFFFF)
    return [ready for ready, _ in poll.poll(milliseconds)]
