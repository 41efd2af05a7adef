"""Tracing: write events of all threads to files for Perfetto.

The file is JSON in the array form of the Trace Event Format (Google, "Trace Event Format", "JSON Array Format"): one
event per line. Readers accept a truncated file. Writing it needs no library.

While no trace is recorded, ``Event`` and ``traced`` cost one variable lookup. That variable is the module's only state:
events from anywhere in the program must reach the active tracers, in any thread.
"""

import functools
import gc
import json
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from types import TracebackType
from typing import IO, Any, ParamSpec, TypeVar

from spdl._numbers import as_int
from spdl._reports import log

_LG = logging.getLogger("spdl.io")

_P = ParamSpec("_P")
_T = TypeVar("_T")

# A crash loses the events of at most this many seconds.
_MAX_DELAY = 1.0
_NUM_COUNTERS = 8

# Replaced as a whole under the lock, never modified; read without the lock.
_tracers: tuple["Tracer", ...] = ()
_tracers_lock = threading.Lock()


class Tracer:
    """One trace file. Thread-safe; after ``close``, events are dropped.

    ``file`` is unbuffered, and the caller closes it. ``buffer_size``: bytes to buffer before writing.
    """

    def __init__(self, file: IO[bytes], buffer_size: int, process_name: str) -> None:
        self._file: IO[bytes] | None = file
        self._buffer_size = buffer_size
        self._pid = os.getpid()
        self._start = time.perf_counter_ns()
        # Reentrant, because garbage collection and signal handlers may add events while the lock is held.
        self._lock = threading.RLock()
        self._waiting = [f'[\n{{"ph":"M","name":"process_name","pid":{self._pid},"args":{_args(name=process_name)}}}']
        self._num_waiting = 0  # characters
        self._written = self._start
        self._known = threading.local()
        self._write()  # raises now if the file cannot be written

    def begin(self, name: str) -> None:
        self._add(f'"ph":"B","name":{json.dumps(name)}')

    def end(self, **details: Any) -> None:
        self._add(f'"ph":"E","args":{_args(**details)}' if details else '"ph":"E"')

    def count(self, name: str, value: float) -> None:
        self._add(f'"ph":"C","name":{json.dumps(name)},"args":{_args(value=value)}')

    def close(self) -> None:
        """Write the buffered events and the end of the file. Later events are dropped."""
        with self._lock:
            self._waiting.append("\n]\n")
            self._write_or_stop()
            self._file = None

    def _add(self, event: str) -> None:
        now = time.perf_counter_ns()
        thread = threading.get_native_id()
        if not hasattr(self._known, "thread"):
            self._known.thread = thread
            self._put(f'"ph":"M","name":"thread_name","args":{_thread_args()}', thread, now)
        self._put(event, thread, now)

    def _put(self, event: str, thread: int, now: int) -> None:
        microseconds = (now - self._start) / 1000
        line = f',\n{{{event},"ts":{microseconds:.3f},"pid":{self._pid},"tid":{thread}}}'
        with self._lock:
            if self._file is None:
                return
            self._waiting.append(line)
            self._num_waiting += len(line)
            if self._num_waiting >= self._buffer_size or now - self._written > _MAX_DELAY * 1e9:
                self._write_or_stop()
                self._written = now

    def _write(self) -> None:
        # Take the list before writing, because reentrant calls may append to it.
        waiting, self._waiting, self._num_waiting = self._waiting, [], 0
        data = memoryview("".join(waiting).encode())
        while self._file is not None and data:
            data = data[self._file.write(data) :]

    def _write_or_stop(self) -> None:
        try:
            self._write()
        except OSError as exc:
            # The traced program must not fail because of the trace.
            self._file = None
            log(_LG, logging.ERROR, "cannot write the trace: %s. The rest of the trace is lost.", exc)


class Event(ContextDecorator):
    """A span of time in this thread, recorded by the tracers that are active when it starts."""

    __slots__ = ("_name", "_tracers")

    def __init__(self, name: str) -> None:
        self._name = name
        self._tracers: tuple[Tracer, ...] = ()

    def _recreate_cm(self) -> "Event":
        # When used as a decorator, each call is a separate event.
        return Event(self._name)

    def __enter__(self) -> None:
        self._tracers = _tracers
        for tracer in self._tracers:
            tracer.begin(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for tracer in self._tracers:
            tracer.end(**({} if kind is None else {"error": kind.__name__}))
        self._tracers = ()


def traced(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function to record each call as an event with its name."""
    name = function.__qualname__

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not _tracers:
            return function(*args, **kwargs)
        with Event(name):
            return function(*args, **kwargs)

    return call


@contextmanager
def tracing(
    output: int | str | os.PathLike[str], buffer_size: int = 4096, process_name: str | None = None, enable: bool = True
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
    num_bytes = as_int("buffer_size", buffer_size, 1) * 1024
    name = process_name if process_name is not None else os.path.basename(sys.argv[0] if sys.argv else "") or "python"
    with open(output, "wb", buffering=0, closefd=not isinstance(output, int)) as file:
        tracer = Tracer(file, num_bytes, name)
        _add(tracer)
        try:
            yield
        finally:
            _remove(tracer)
            tracer.close()
            _forget_gc()


def trace_event(name: str) -> Event:
    """Record a block, ``with trace_event("resize"): …``, or the calls of a function, ``@trace_event("resize")``.

    Events may be nested. An event that ends with an exception records its type. Does nothing outside :func:`tracing`.
    """
    return Event(name)


def trace_counter(i: int, val: int | float) -> None:
    """Record a value that changes, such as a queue's length. Does nothing outside :func:`tracing`.

    Args:
        i: Index of the counter, 0 to 7.
        val: New value. Infinity and NaN are ignored.

    Raises:
        RuntimeError: ``i`` is not the index of a counter.
    """
    i = as_int("i", i)
    if not 0 <= i < _NUM_COUNTERS:
        raise RuntimeError(f"Counter {i} is not supported: i must be in the range [0, {_NUM_COUNTERS - 1}]")
    for tracer in _tracers:
        number = float(val)
        if math.isfinite(number):
            tracer.count(f"counter {i}", number)


def trace_gc() -> None:
    """Record Python's garbage collections as events until tracing ends. Does nothing outside :func:`tracing`."""
    if _tracers and _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def _on_gc(phase: str, info: dict[str, int]) -> None:
    for tracer in _tracers:
        if phase == "start":
            tracer.begin(f"garbage collection {info['generation']}")
        else:
            tracer.end(collected=info["collected"], uncollectable=info["uncollectable"])


def _forget_gc() -> None:
    if not _tracers and _on_gc in gc.callbacks:
        gc.callbacks.remove(_on_gc)


def _add(tracer: Tracer) -> None:
    """Record events that start from now on."""
    global _tracers
    _forget_in_children()
    with _tracers_lock:
        _tracers = (*_tracers, tracer)


def _remove(tracer: Tracer) -> None:
    """Stop recording events; the ends of events that have started are still recorded."""
    global _tracers
    with _tracers_lock:
        _tracers = tuple(other for other in _tracers if other is not tracer)


@functools.cache
def _forget_in_children() -> None:
    """Ensure that a forked process does not write to its parent's files."""

    def forget() -> None:
        global _tracers, _tracers_lock
        for tracer in _tracers:
            tracer._file = None  # drops the ends of events that have started
            tracer._lock = threading.RLock()
        _tracers = ()
        _tracers_lock = threading.Lock()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def _args(**values: Any) -> str:
    return json.dumps(values, separators=(",", ":"))


def _thread_args() -> str:
    # threading.current_thread() would create and keep a dummy object for a thread that Python did not start.
    ident = threading.get_ident()
    names = (thread.name for thread in threading.enumerate() if thread.ident == ident)
    return _args(name=next(names, "native thread"))
