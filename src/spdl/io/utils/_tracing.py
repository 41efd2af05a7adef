"""``tracing`` and the events that it records: traces for https://ui.perfetto.dev."""

import gc
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spdl._numbers import as_int
from spdl.io import _trace

NUM_COUNTERS = 8


@contextmanager
def tracing(
    output: int | str | os.PathLike[str],
    buffer_size: int = 4096,
    process_name: str | None = None,
    enable: bool = True,
) -> Iterator[None]:
    """Record events of all threads of this process until the end of the ``with`` block.

    Events are the calls of functions of :mod:`spdl.io` that read, decode, filter, convert and write, and those of
    :func:`trace_event`. The file is text in the Trace Event Format (JSON), which https://ui.perfetto.dev and
    ``chrome://tracing`` open. It is written incrementally: when the buffer is full, and about every second while
    there are events. If the process dies, the file can still be opened.

    Traces may overlap; each has its own file. A forked process does not write to it.

    Args:
        output: Path of the file, which is replaced if it exists, or an open file descriptor, which stays open.
        buffer_size: Size of the buffer, in KiB.
        process_name: Name of the process in the trace. Default: the name of the program.
        enable: Whether to record. With ``False``, nothing is done.

    Raises:
        OSError: The file cannot be written. (A failure to write later, such as a full disk, is logged, and the rest of
            the trace is lost.)
        ValueError: ``buffer_size`` is less than 1.
    """
    if not enable:
        yield
        return
    if buffer_size < 1:
        raise ValueError(f"buffer_size must be >= 1, got {buffer_size}")
    name = process_name if process_name is not None else os.path.basename(sys.argv[0] if sys.argv else "") or "python"
    with open(output, "wb", buffering=0, closefd=not isinstance(output, int)) as file:
        tracer = _trace.Tracer(file, buffer_size * 1024, name)
        _trace.add_tracer(tracer)
        try:
            yield
        finally:
            _trace.remove_tracer(tracer)
            tracer.close()
            _forget_gc()


def trace_event(name: str) -> _trace.Event:
    """Record a block, ``with trace_event("resize"): …``, or the calls of a function, ``@trace_event("resize")``.

    Events may be nested. An event that ends with an exception records its type. Does nothing outside :func:`tracing`.
    """
    return _trace.Event(name)


def trace_counter(i: int, val: int | float) -> None:
    """Record a value that changes, such as a queue's length. Does nothing outside :func:`tracing`.

    Args:
        i: Index of the counter, 0 to 7.
        val: New value. Infinity and NaN are ignored.

    Raises:
        RuntimeError: ``i`` is not the index of a counter.
    """
    i = as_int("i", i)
    if not 0 <= i < NUM_COUNTERS:
        raise RuntimeError(f"Counter {i} is not supported: i must be in the range [0, {NUM_COUNTERS - 1}]")
    for tracer in _trace.tracers():
        number = float(val)
        if math.isfinite(number):
            tracer.count(f"counter {i}", number)


def trace_gc() -> None:
    """Record Python's garbage collections as events until tracing ends. Does nothing outside :func:`tracing`."""
    if _trace.tracers() and _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def _on_gc(phase: str, info: dict[str, int]) -> None:
    for tracer in _trace.tracers():
        if phase == "start":
            tracer.begin(f"garbage collection {info['generation']}")
        else:
            tracer.end(collected=info["collected"], uncollectable=info["uncollectable"])


def _forget_gc() -> None:
    if not _trace.tracers() and _on_gc in gc.callbacks:
        gc.callbacks.remove(_on_gc)
