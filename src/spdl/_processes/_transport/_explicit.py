"""What the explicit arenas share: words of the control part, and waiting for the other side."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from time import monotonic

from spdl._processes.lib._memory import Area

__all__ = [
    "SHUTDOWN",
    "check_positive",
    "new_name",
    "nothing_mapped",
    "reserve",
    "shut_down",
    "wait_until",
]

#: The word that says, once it is not 0, that nobody will take anything out any more.
SHUTDOWN = 3
#: Memory is asked of the system in steps of so many bytes.
_STEP = 1 << 20


def check_positive(name: str, value: int) -> None:
    if value <= 0:
        raise ValueError(f"{name} must be > 0, got {value}")


def new_name(kind: str) -> str:
    """A name for messages. The memory itself has none."""
    return f"spdl-{kind}-{os.getpid()}-{secrets.token_hex(4)}"


def nothing_mapped(name: str) -> ValueError:
    return ValueError(f"the arena {name} is closed")


def shut_down(area: Area) -> None:
    """Have whoever waits, or will wait, give up."""
    area.store(SHUTDOWN, 1)
    area.ring()


def wait_until(area: Area, is_ready: Callable[[], bool], seconds: float) -> bool:
    """Wait for what the other side changes.

    Returns:
        False: it was not in time.

    Raises:
        BufferError: The arena was shut down.
    """
    deadline = monotonic() + seconds
    while True:
        area.announce_wait()
        if is_ready():
            return True
        if area.load(SHUTDOWN):
            raise BufferError("the arena was shut down while the producer waited for room")
        left = deadline - monotonic()
        if left <= 0:
            return False
        area.wait(left)


def reserve(area: Area, reserved: int, end: int, last: int) -> int:
    """Have the system give the data memory up to ``end``, and some more, but not beyond ``last``.

    Args:
        area: Where.
        reserved: Up to where it has done so.
        end: Up to where it has to.
        last: No further than here.

    Returns:
        Up to where it has now.

    Raises:
        BufferError: It has none left.
    """
    if end <= reserved:
        return reserved
    target = min(last, max(end, reserved + _STEP))
    try:
        area.reserve(reserved, target - reserved)
    except OSError as exc:
        raise BufferError(
            f"the system has no memory for {target - reserved} more bytes of an arena: {exc.strerror}; make it smaller"
        ) from exc
    return target
