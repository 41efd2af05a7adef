"""Sources, and other things that run in other processes in these tests. Imports little: every child imports it."""

import itertools
import multiprocessing
import os
import random
import re
import select
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.timeouts import TIMEOUT as TIMEOUT

_notes: list[Any] = []


class Awkward(Exception):
    """Made of two arguments, so it cannot be unpickled from its ``args``."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class Epochs:
    """Iterable anew: the k-th time ``(k, 0) … (k, size - 1)``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_epochs = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.num_epochs
        self.num_epochs += 1
        return iter([(epoch, k) for k in range(self.size)])


class Unpicklable:
    """Refuses to be pickled, by name."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("this one stays at home")


# -- for iterate_in_subprocess


def give(items: Iterable[Any]) -> Iterable[Any]:
    """``items`` themselves, which can be iterated anew if they can."""
    return items


def numbers(num_items: int) -> Iterator[int]:
    """A generator, so it gives its items once only."""
    yield from range(num_items)


def endless() -> Iterator[int]:
    return itertools.count()


class process_ids:
    """The id of the process that iterates, ``num_items`` times, anew each time."""

    def __init__(self, num_items: int = 1) -> None:
        self.num_items = num_items

    def __iter__(self) -> Iterator[int]:
        return iter([os.getpid()] * self.num_items)


class fail_after:
    """Numbers, then an error."""

    def __init__(self, num_items: int, error: BaseException) -> None:
        self.num_items, self.error = num_items, error

    def __iter__(self) -> Iterator[int]:
        yield from range(self.num_items)
        raise self.error


def awkward_after(num_items: int) -> Iterator[int]:
    """Numbers, then an error that cannot be unpickled."""
    yield from range(num_items)
    raise Awkward("this", "that")


def break_down(how: int) -> None:
    """End this process: by that exit code, or by the signal -``how``."""
    if how >= 0:
        os._exit(how)
    with suppress(OSError, ValueError):  # SIGKILL; or not in the main thread
        signal.signal(-how, signal.SIG_DFL)  # a shell's job in the background ignores SIGINT and SIGQUIT
    os.kill(os.getpid(), -how)
    threading.Event().wait()  # a signal may take a moment


class die_after:
    """The id of the process, then its end."""

    def __init__(self, num_items: int, how: int) -> None:
        self.num_items, self.how = num_items, how

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.num_items):
            yield os.getpid()
        break_down(self.how)


def block_for_ever(num_items: int = 0) -> Iterator[int]:
    """The id of the process, then nothing any more."""
    for _ in range(num_items):
        yield os.getpid()
    threading.Event().wait()


def note(what: Any) -> None:
    """Remember something in this process."""
    _notes.append(what)


def noted() -> list[Any]:
    """What this process remembers, as it is when it is iterated."""
    return _notes


def append_to(path: Path, word: str) -> None:
    """Leave a word where the test can read it: one line."""
    with path.open("a") as file:
        file.write(word + "\n")


def append_process_id(path: Path) -> None:
    append_to(path, str(os.getpid()))


def fail_here(error: BaseException) -> None:
    raise error


class Endless:
    """Iterable anew: the k-th time ``(k, 0), (k, 1) …`` without an end."""

    num_epochs = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.num_epochs
        self.num_epochs += 1
        return ((epoch, k) for k in itertools.count())


class BreaksOnArrival:
    """Pickles, and cannot be made again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def counting_to(made: Any, num_items: int) -> Iterator[int]:
    """Numbers; each is announced by a semaphore when it is made."""
    for item in range(num_items):
        made.release()
        yield item


class Finishing:
    """A generator each time, which counts those that came to their ``finally``; gives the count, for ever."""

    num_finished = 0

    def __iter__(self) -> Iterator[int]:
        try:
            while True:
                yield self.num_finished
        finally:
            self.num_finished += 1


def pipeline_of(items: Iterable[Any]) -> Any:
    """A pipeline that doubles, and tells where."""
    from spdl.pipeline import PipelineBuilder
    from tests.support.ops import double, with_process_id

    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    return builder.add_source(items).pipe(double).pipe(with_process_id).add_sink(1).build(num_threads=1)


def nested(num_items: int) -> Any:
    from spdl.pipeline import iterate_in_subprocess

    return iterate_in_subprocess(partial(numbers, num_items), timeout=TIMEOUT)


def daemonic() -> list[bool]:
    return [multiprocessing.current_process().daemon]


class Sizes:
    """Iterable anew: the k-th time ``(k, 0) … (k, sizes[k] - 1)``; the last size repeats."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.num_epochs = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.num_epochs
        self.num_epochs += 1
        return iter([(epoch, k) for k in range(self.sizes[min(epoch, len(self.sizes) - 1)])])


class Shuffling:
    """Numbers in another order each time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_epochs = 0

    def __iter__(self) -> Iterator[int]:
        items = list(range(self.size))
        random.Random(self.num_epochs).shuffle(items)
        self.num_epochs += 1
        return iter(items)


class NotToday:
    """Raises when it is iterated."""

    def __iter__(self) -> Iterator[int]:
        raise ValueError("not today")


def unpicklable_at(index: int) -> Iterator[Any]:
    """Numbers; one thing that does not pickle; numbers."""
    yield from range(index)
    yield Unpicklable()
    yield from range(index)


class BreakingOnArrival:
    """The second of three items cannot be made again; iterable anew."""

    def __iter__(self) -> Iterator[Any]:
        return iter([1, BreaksOnArrival(), 2])


def views() -> Iterator[memoryview]:
    """Large and small, writable or not, with strides and shapes."""
    data = bytes(range(256)) * 100
    yield memoryview(data)
    yield memoryview(bytearray(data))
    yield memoryview(data)[100:200]
    yield memoryview(data)[::2]
    yield memoryview(data).cast("I")
    yield memoryview(data).cast("B", (256, 100))
    yield memoryview(b"")


def bytes_likes() -> list[Any]:
    """Large and small ones of each type; views are made where they are iterated."""
    data = bytes(range(256)) * 100
    return [data, bytearray(data), memoryview(data), memoryview(bytearray(data)), b"small", bytearray(b"small"), b""]


class mixed:
    """Two large leaves in one item, an array in another, none in the last; iterable anew."""

    def __iter__(self) -> Iterator[Any]:
        from tests.support import remote_arrays

        yield b"a" * 5000, bytearray(b"b" * 4096)
        yield {"array": remote_arrays.large("f4")}
        yield b"small"


def large_then_unpicklable() -> Iterator[Any]:
    yield b"a" * 5000, 1
    yield b"b" * 5000, Unpicklable()


def with_id_of_process(items: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    return ((item, os.getpid()) for item in items)


def call(function: Callable[[], Any]) -> Any:
    return function()


def in_a_list(item: Any) -> list[Any]:
    return [item]


def ids_for_ever() -> Iterator[int]:
    return itertools.repeat(os.getpid())


def ids_with_ballast(num_items: int, num_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The id of the process, each time with a new large item."""
    for k in range(num_items):
        yield os.getpid(), bytes([k]) * num_bytes


def circumstances() -> list[tuple[int | None, int, list[Any]]]:
    """Who asked for this process, who started it, and what it remembers."""
    parent = multiprocessing.parent_process()
    return [(None if parent is None else parent.pid, os.getppid(), list(_notes))]


def announce(event: Any, queue: Any) -> list[str]:
    queue.put("hello")
    event.set()
    return ["announced"]


def stuck_holding_the_gil() -> Iterator[int]:
    """The id of the process; then nothing that ever lets another thread run."""
    yield os.getpid()
    re.match(r"(a*)*b", "a" * 64)  # takes longer than anybody can wait, in C


def interrupted_once() -> Iterator[str]:
    """What is left of a process after Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    yield "still here"


# -- on either side


def await_end(pid: int) -> None:
    """Wait until a process, which need not be a child, has ended; fail rather than hang."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], TIMEOUT)[0], f"process {pid} has not ended"
    finally:
        os.close(descriptor)


def name_of(how: int) -> str:
    """How an end is told in a message."""
    return str(how) if how >= 0 else signal.Signals(-how).name
