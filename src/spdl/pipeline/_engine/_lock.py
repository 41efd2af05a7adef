"""The locks of the engine: the lock of its scheduling state, and the locks that its threads sleep on.

On Python without the GIL, a thread that waits for a ``threading.Lock`` yields its core 40 times before it sleeps, so
with other load on the machine every wake-up waits for many time slices. There the engine uses its own locks, which
never yield: threads without work sleep at once, and those that wait for the scheduling state spin for 10 us first. With
the GIL, waiters of a ``threading.Lock`` sleep at once too, and it is faster.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, cast

#: Whether a thread often finds the lock of the engine taken. With the GIL, only if its holder lost the GIL.
WAITS_ARE_COMMON: Final = "t" in sys.abiflags

new_lock: Callable[[], threading.Lock] = threading.Lock
_new_parking: Callable[[], threading.Lock] = threading.Lock
if sys.platform == "linux" and WAITS_ARE_COMMON:  # built without the GIL, also where it is enabled
    from spdl._processes._memory import ParkingLock, PostponingLock

    new_lock = cast("Callable[[], threading.Lock]", PostponingLock)
    _new_parking = cast("Callable[[], threading.Lock]", ParkingLock)


def new_wake_up() -> threading.Lock:
    """Return a lock that is taken. One thread sleeps in ``acquire`` until another calls ``release``."""
    lock = _new_parking()
    lock.acquire()
    return lock
