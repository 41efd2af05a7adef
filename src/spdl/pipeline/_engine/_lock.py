"""The locks of the engine: that of its scheduling state, and those that its threads sleep on.

On Python without the GIL, a ``threading.Lock`` that is taken yields its core 40 times before it sleeps, so that beside
other load every wake-up waits for many time slices. There the engine has a lock of its own, whose waiters sleep at
once. With the GIL, ``threading.Lock`` does that, and takes less time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import cast

__all__ = ["new_lock", "new_wake_up"]

new_lock: Callable[[], threading.Lock] = threading.Lock
_new_parking: Callable[[], threading.Lock] = threading.Lock
if sys.platform == "linux" and "t" in sys.abiflags:  # built without the GIL, also where it is enabled
    from spdl._processes._memory import ParkingLock, PostponingLock

    new_lock = cast("Callable[[], threading.Lock]", PostponingLock)
    _new_parking = cast("Callable[[], threading.Lock]", ParkingLock)


def new_wake_up() -> threading.Lock:
    """Return a lock that is taken. One thread sleeps in ``acquire`` until another calls ``release``."""
    lock = _new_parking()
    lock.acquire()
    return lock
