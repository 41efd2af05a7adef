"""Shared by the explicit arenas: the user's object, and waiting for the other side."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from time import monotonic
from typing import Any

from spdl._numbers import as_int, as_seconds
from spdl._processes._memory import Area

from ._arena import pass_descriptors, take_descriptors

#: The word of the control part that becomes non-zero when nothing will be read any longer.
_SHUTDOWN = 3
#: Memory is reserved from the system in steps of this many bytes.
_STEP = 1 << 20


class ExplicitArena:
    """Anonymous memory of a fixed size, which either process can shut down. Subclasses define how it is used.

    Args:
        kind: Name of the kind of arena, for messages.
        num_bytes: Size of the data.
        num_blocks: Number of blocks that are counted.
        acquire_timeout: Seconds that the worker waits for room.

    Raises:
        ValueError: ``acquire_timeout`` is negative.
        OSError: The system has no shared memory left.
    """

    def __init__(self, kind: str, num_bytes: int, num_blocks: int, acquire_timeout: float) -> None:
        self._acquire_timeout = as_seconds("acquire_timeout", acquire_timeout, may_be_infinite=True)
        self._name = f"spdl-{kind}-{os.getpid()}-{secrets.token_hex(4)}"
        self._mapped: Area | None = Area(num_bytes, num_blocks, has_bell=True)

    @property
    def name(self) -> str:
        """Name in messages. The memory has no name."""
        return self._name

    @property
    def _area(self) -> Area:
        if self._mapped is None:
            raise ValueError(f"the arena {self._name} is closed")
        return self._mapped

    def shutdown_arena(self) -> None:
        """Wake the producer, if it waits for room: it fails with ``BufferError``. Idempotent, from either process."""
        if self._mapped is not None:
            self._mapped.store(_SHUTDOWN, 1)
            self._mapped.ring()

    def close(self) -> None:
        """Release the memory in this process, and wake the producer. Idempotent. Opened sides and views stay valid."""
        self.shutdown_arena()
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None

    def unlink(self) -> None:
        """Do nothing: the memory has no name to remove. Idempotent."""

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_mapped": pass_descriptors(self, self._area)}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._mapped = take_descriptors(state["_mapped"])


def as_positive(name: str, value: int) -> int:
    number = as_int(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be > 0, got {number}")
    return number


def wait_until(area: Area, is_ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until the other side has changed the state.

    Returns:
        False after a timeout.

    Raises:
        BufferError: The arena was shut down.
    """
    deadline = monotonic() + seconds
    while True:
        area.announce_wait()
        if is_ready():
            return True
        if area.load(_SHUTDOWN):
            raise BufferError("the arena was shut down while the producer waited for room")
        left = deadline - monotonic()
        if left <= 0:
            return False
        area.wait(left)


def reserve(area: Area, reserved: int, end: int, last: int) -> int:
    """Reserve system memory for the data up to ``end``, and some more, but not beyond ``last``.

    Args:
        area: The area.
        reserved: Where the reserved part ends now.
        end: Where it must end at least.
        last: Where it may end at most.

    Returns:
        Where the reserved part ends after the call.

    Raises:
        BufferError: The system has no memory left.
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
