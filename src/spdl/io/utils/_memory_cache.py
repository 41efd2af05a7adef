"""Limits of the memory cache, which keeps the memory of freed large buffers for new ones."""

import operator

from spdl.io import _native


def get_memory_cache_limit() -> int:
    """The limit of this process's cache, in bytes. See :func:`set_memory_cache_limit`.

    Raises:
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
        ValueError: ``SPDL_IO_MEMORY_CACHE`` is not a number of bytes.
    """
    return _native.core.large_memory_limit()


def set_memory_cache_limit(num_bytes: int | None) -> None:
    """Set how much memory of freed large buffers this process keeps for new ones.

    The default is the environment variable ``SPDL_IO_MEMORY_CACHE``, in bytes, which also applies to worker
    processes. Without it, the default is 1 GiB or a sixteenth of the available memory (the least of the machine's, its
    control groups' and ``ulimit -v``), whichever is less. The system reclaims cached memory when it runs low.

    Args:
        num_bytes: Limit in bytes. Cached memory beyond it is freed now. 0: no cache. ``None``: the default.

    Raises:
        ValueError: ``num_bytes`` is negative; or it is ``None``, and ``SPDL_IO_MEMORY_CACHE`` is not a number of bytes.
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
    """
    limit = None if num_bytes is None else operator.index(num_bytes)
    if limit is not None and limit < 0:
        raise ValueError(f"num_bytes must be >= 0 or None, got {limit}")
    _native.core.set_large_memory_limit(_native.memory_cache_limit() if limit is None else min(limit, 2**63))


def release_memory_cache() -> None:
    """Return all cached memory to the system now, for example before a long phase without loading.

    Raises:
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
    """
    _native.core.release_large_memory()
