"""Ops that end their process, hang, or fail, on the items that say so. Importable in a child."""

import ctypes
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def double(item: int) -> int:
    return item * 2


def _segfault() -> None:
    ctypes.string_at(0)


def _abort() -> None:
    os.abort()


def _exit() -> None:
    os._exit(3)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


DEATHS = {"segfault": _segfault, "abort": _abort, "exit": _exit, "kill": _kill}


def die_or_double(item: Any) -> Any:
    """A word is a way to die."""
    if isinstance(item, str):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        DEATHS[item]()
    return item * 2


def pid_or_die(item: Any) -> tuple[Any, int]:
    die_or_double(item)
    return item, os.getpid()


def spin_on_three(item: int) -> int:
    while item == 3:
        pass
    return item


def wait_on_three(item: int) -> int:
    if item == 3:
        threading.Event().wait()
    return item


def match_for_ever_on_three(item: int) -> int:
    """Catastrophic backtracking: C code that never lets go of the interpreter."""
    if item == 3:
        re.match("(a+)+$", "a" * 64 + "b")
    return item


def yield_twice(item: int) -> Iterator[int]:
    yield item
    yield -item


def yield_then_raise_on_three(item: int) -> Iterator[int]:
    yield item
    if item == 3:
        raise ValueError("after one")
    yield -item


def yield_then_die_on_three(item: int) -> Iterator[int]:
    yield item
    if item == 3:
        os._exit(1)
    yield -item


class OwnError(Exception):
    """Its constructor needs arguments, and it does not pickle."""

    def __init__(self, one: int, *, two: str) -> None:
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


def raise_on_three(item: int) -> int:
    if item == 3:
        raise OwnError(1, two="2")
    return item


def unpicklable_on_three(item: int) -> Any:
    return threading.Lock() if item == 3 else item


def allocate_on_three(item: int) -> int:
    """Under a limit of memory, as a container sets it for its processes."""
    if item == 3:
        import resource  # not on Windows

        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 26), resource.RLIM_INFINITY))
        bytearray(1 << 30)
    return item


class FailsToArrive:
    """Pickles, and cannot be put together on the other side."""

    def __reduce__(self) -> Any:
        return _refuse, ()

    def __call__(self, item: Any) -> Any:
        return item


def _refuse() -> None:
    raise ValueError("refused to arrive")


class DiesOnArrival:
    """Kills the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (7,)

    def __call__(self, item: Any) -> Any:
        return item


def refuse_in_parent_on_three(item: int) -> Any:
    return FailsToArrive() if item == 3 else item


class FailsUntil:
    """Fails, or dies, on the first calls with an item; a file counts them across processes."""

    def __init__(self, folder: Path, num_failures: int, how: str) -> None:
        self.folder, self.num_failures, self.how = folder, num_failures, how

    def __call__(self, item: int) -> tuple[int, int]:
        with open(self.folder / str(item), "ab") as count:
            count.write(b"x")
            count.flush()
            num_calls = count.tell()
        if num_calls <= self.num_failures:
            if self.how == "raise":
                raise KeyError(item)
            if self.how == "hang":
                threading.Event().wait()
            os._exit(9)
        return item, num_calls


class StartsSlowly:
    """Takes longer to arrive than a call may take."""

    def __setstate__(self, state: Any) -> None:
        threading.Event().wait(1.0)

    def __getstate__(self) -> Any:
        return True

    def __call__(self, item: Any) -> Any:
        return die_or_double(item)


def note_and_wait(path: Path) -> None:
    """Says that it runs, in a named pipe, and never returns; deaf to polite signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path.write_text(str(os.getpid()), encoding="ascii")
    threading.Event().wait()


def tell_and_raise(fifo: Path) -> None:
    """Says that it runs, and fails."""
    fifo.write_text("here", encoding="ascii")
    raise KeyError


def die_by_chance(item: tuple[int, str]) -> Any:
    """What a property test has drawn for the item."""
    number, fate = item
    if fate in DEATHS:
        die_or_double(fate)
    if fate == "raise":
        raise ValueError(number)
    return None if fate == "drop" else number


def yield_by_chance(item: tuple[int, str]) -> Iterator[Any]:
    """The same as a generator of one output, which is there before it dies."""
    number, fate = item
    if fate != "drop":
        yield number
    if fate in DEATHS:
        die_or_double(fate)
    if fate == "raise":
        raise ValueError(number)


def sum_in_own_child(item: int) -> int:
    """Runs a pipeline with an isolated stage of its own."""
    from spdl.pipeline import PipelineBuilder

    pipeline = PipelineBuilder[int, int]().add_source(range(item)).pipe(double, isolate=True).add_sink().build()
    with pipeline.auto_stop():
        return sum(pipeline)


def send_sum(connection: Any) -> None:
    """Main function of a process."""
    connection.send(sum_in_own_child(3))
