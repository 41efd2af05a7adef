"""The registry of priority pools: one pool per identity and process.

This is necessarily process-wide: a pool that is unpickled twice, as part of two stages, must be one pool, and a pool
inherited by ``fork`` has lost its threads. The registry holds pools weakly.
"""

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar


class Registered(Protocol):
    """The interface of a pool that the registry uses."""

    def forget_parent(self) -> None:
        """Called in the child of a fork, before any other thread runs there: discard what exists only in the parent."""


PoolT = TypeVar("PoolT", bound=Registered)


class _Registry:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # garbage collection while it is held may remove a pool
        self.pools: weakref.WeakValueDictionary[str, Registered] = weakref.WeakValueDictionary()

    def after_fork(self) -> None:
        self.lock = threading.RLock()  # the inherited lock may be held by a thread that does not exist here
        for pool in list(self.pools.values()):
            pool.forget_parent()


_REGISTRY = _Registry()


def register(identity: str, pool: Registered) -> None:
    """Register a new pool under its identity."""
    _watch_forks()
    with _REGISTRY.lock:
        _REGISTRY.pools[identity] = pool


def restore(identity: str, cls: type[PoolT], make: Callable[[], PoolT]) -> PoolT:
    """Return the pool with this identity; make it if this process has none."""
    with _REGISTRY.lock:
        pool = _REGISTRY.pools.get(identity)
        if isinstance(pool, cls):
            return pool
        made = make()
        register(identity, made)
        return made


@functools.cache
def _watch_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_REGISTRY.after_fork)
