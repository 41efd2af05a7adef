"""Which priority pool is the one of its identity in this process.

This is state of the process by its nature: a pool that arrives twice by pickle, as part of two stages, must be one
pool, and a pool inherited by ``fork`` has none of the threads it was built with. The registry holds pools weakly.
"""

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["register", "restore"]


class Registered(Protocol):
    """A pool, as the registry sees it."""

    def forget_parent(self) -> None:
        """Called in the child of a fork, before any other thread runs there: drop what exists in the parent only."""


PoolT = TypeVar("PoolT", bound=Registered)


class _Registry:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # a collection that runs inside may drop a pool
        self.pools: weakref.WeakValueDictionary[str, Registered] = weakref.WeakValueDictionary()

    def after_fork(self) -> None:
        self.lock = threading.RLock()  # the inherited one may be held by a thread that does not exist here
        for pool in list(self.pools.values()):
            pool.forget_parent()


_REGISTRY = _Registry()


def register(identity: str, pool: Registered) -> None:
    """Make a new pool the one of its identity in this process."""
    _watch_forks()
    with _REGISTRY.lock:
        _REGISTRY.pools[identity] = pool


def restore(identity: str, cls: type[PoolT], make: Callable[[], PoolT]) -> PoolT:
    """Get the pool of an identity in this process; make it if it is the first time that it is seen here."""
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
