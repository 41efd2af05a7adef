"""How much memory of large buffers that are gone is kept for those to come."""

import operator

from spdl.io import _native


def get_memory_cache_limit() -> int:
    """How many bytes may be kept in this process. See :func:`set_memory_cache_limit`.

    Raises:
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
        ValueError: ``SPDL_IO_MEMORY_CACHE`` is no number of bytes.
    """
    return _native.core.large_memory_limit()


def set_memory_cache_limit(num_bytes: int | None) -> None:
    """Choose how much memory of large buffers that are gone this process keeps, for buffers to come.

    Without this call, it is what the environment variable ``SPDL_IO_MEMORY_CACHE`` says, in bytes, also in worker
    processes; and without that, 1 GiB or a sixteenth of the memory that the process can have (that of the machine, of
    its control groups, of ``ulimit -v``), whichever is less. The system takes memory that is kept whenever it runs low.

    Args:
        num_bytes: What is kept beyond it is given back now. 0: keep nothing. ``None``: the same as without this call.

    Raises:
        ValueError: ``num_bytes`` is negative; or it is ``None``, and ``SPDL_IO_MEMORY_CACHE`` is no number of bytes.
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
    """
    limit = None if num_bytes is None else operator.index(num_bytes)
    if limit is not None and limit < 0:
        raise ValueError(f"num_bytes must be >= 0 or None, got {limit}")
    _native.core.set_large_memory_limit(_native.memory_cache_limit() if limit is None else min(limit, 2**63))


def release_memory_cache() -> None:
    """Give all memory that is kept back to the system now, such as before a long time without loading.

    Raises:
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
    """
    _native.core.release_large_memory()
