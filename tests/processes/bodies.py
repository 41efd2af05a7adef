"""What the tests of this folder run in children. Imports little, because every child imports it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from spdl._processes._transport._link import Link
from tests.support.timeouts import TIMEOUT as TIMEOUT


def answer(link: Link, *args: Any) -> None:
    """Do what the messages say, until the parent is gone. Kind 1: send it back, with ``args``."""
    while True:
        try:
            frame = link.recv()
        except EOFError:
            return
        actions: dict[int, Callable[[Link, Any], None]] = {2: end, 3: fail, 4: hang, 5: leave_behind, 6: tell}
        do = actions.get(frame.kind)
        if do is None:
            link.send(frame.kind, frame.number, (*args, frame.load()))
        else:
            do(link, frame.load())


def end(link: Link, how: int) -> None:
    """By that exit code, or by the signal -``how``, having said a word."""
    link.send(9)
    if how >= 0:
        os._exit(how)
    os.kill(os.getpid(), -how)
    threading.Event().wait()


def fail(link: Link, error: BaseException) -> None:
    raise error


def hang(link: Link, how: str) -> None:
    """Never look at the connection again."""
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


def leave_behind(link: Link, seconds: float) -> None:
    """Die, and leave a process that holds the connection."""
    command = [sys.executable, "-c", f"import select; select.select([], [], [], {seconds})"]
    process = subprocess.Popen(command, pass_fds=[link.fileno()], start_new_session=True)
    link.send(9, process.pid)
    os._exit(5)


def tell(link: Link, what: str) -> None:
    """Send the value of an expression."""
    link.send(6, 0, eval(what))


def silent(link: Link) -> None:
    """Return at once."""


def reused_buffer(num_items: int, num_bytes: int) -> Iterator[bytearray]:
    """One buffer, filled anew for each item."""
    buffer = bytearray(num_bytes)
    for item in range(num_items):
        buffer[:] = bytes([item]) * num_bytes
        yield buffer


class Range:
    """Iterable anew."""

    def __init__(self, *args: int) -> None:
        self.args = args

    def __iter__(self) -> Iterator[int]:
        return iter(range(*self.args))


def modules() -> list[str]:
    """What is imported here."""
    return sorted(sys.modules)


class Refuses(Exception):
    """Has nothing to say, and says so badly."""

    def __str__(self) -> str:
        raise ValueError("no text")


def refuse() -> Iterator[int]:
    yield 0
    raise Refuses


def large(sizes: list[int]) -> Iterator[Any]:
    """Buffers of these sizes, as bytes, as bytearray, and in a list."""
    for size in sizes:
        yield b"\1" * size
        yield bytearray(b"\2" * size)
        yield [b"\3" * size, size]


def pid_then_nothing() -> Iterator[int]:
    """The id of the process, then a wait that holds nothing."""
    yield os.getpid()
    threading.Event().wait()


def fork_and_go_on() -> Iterator[int]:
    """A grandchild lives while items are made, and is gone afterwards."""
    pid = os.fork()
    if pid == 0:
        threading.Event().wait()
    yield 0
    os.kill(pid, signal.SIGKILL)
    yield os.waitpid(pid, 0)[1]


class Blocks:
    """So many buffers of so many bytes each."""

    def __init__(self, count: int, num_bytes: int) -> None:
        self.count = count
        self.num_bytes = num_bytes

    def __iter__(self) -> Iterator[bytes]:
        return iter([bytes(self.num_bytes)] * self.count)


def exit_at_once() -> list[int]:
    os._exit(1)


class ExitsOnArrival:
    """Unpickling it asks for the end of the process."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)

    def __call__(self) -> list[int]:
        return []


class ExitsOnDeparture(ExitsOnArrival):
    """Pickling it does."""

    def __reduce__(self) -> Any:
        sys.exit(3)


def one_that_exits_on_arrival() -> list[Any]:
    return [1, ExitsOnArrival()]


_signals: list[int] = []


def count_signals(number: int) -> int:
    """Set a handler, as an initializer of the user's may."""
    signal.signal(number, lambda number, _: _signals.append(number))
    return len(_signals)


def num_signals(at_least: int) -> int:
    """How many came, once there are so many."""
    while len(_signals) < at_least:
        signal.sigtimedwait([], 0.01)
    return len(_signals)


def fork_and_end(number: int) -> int:
    """How a forked copy ends that gets a signal."""
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), number)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run_and_end(number: int) -> int:
    """How a program ends that gets a signal."""
    return subprocess.run([sys.executable, "-c", f"import os; os.kill(os.getpid(), {number})"]).returncode


def wait_for_ever() -> None:
    threading.Event().wait()


def some_numbers() -> Range:
    return Range(5)


class Tokens:
    """The renewed variable, and one that the process has set for itself."""

    def __init__(self) -> None:
        os.environ["SPDL_TEST_OWN"] = "mine"

    def __iter__(self) -> Iterator[tuple[str | None, str]]:
        yield os.environ.get("SPDL_TEST_TOKEN"), os.environ["SPDL_TEST_OWN"]


class TokenDataset:
    """The renewed variable, for each index."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> str | None:
        return os.environ.get("SPDL_TEST_TOKEN")


class Renewing:
    """A source that changes a variable before each item."""

    def __iter__(self) -> Iterator[int]:
        for number in range(1, 9):
            os.environ["SPDL_TEST_TOKEN"] = str(number)
            yield number


def with_token(number: int) -> tuple[int, int]:
    """The item, and the variable where the op runs."""
    return number, int(os.environ.get("SPDL_TEST_TOKEN", "0"))
