"""A process dies, or stands still, between any two steps of the protocol of rings: nothing hangs, nothing twice.

The one that dies counts each call to its rings and its socket, and ends at the chosen one, before it or in the middle
of it. What it has sent arrives as far as it has got: once each, in order, whole, and then the end of the stream.
"""

import contextlib
import itertools
import os
import signal
from collections.abc import Callable
from typing import Any, Self

import pytest

from spdl._processes._transport import _frame
from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._link import Link

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

CAPACITY = 4096  # refuses more than an eighth of it, so both ways are taken
ITEMS = [bytes([number]) * size for number, size in enumerate((10, 400, 3000, 0, 20, 9000, 30, 500, 1, 700, 5))]
ECHO = 2
DONE = 7  # exit code of one that was not ended before


class Ending:
    """Stands before an object, and sends this process a signal at call number ``step`` to it, counted for all."""

    counted = 0
    step = 0
    signal = signal.SIGKILL

    def __init__(self, of: Any) -> None:
        self._of = of

    @classmethod
    def count(cls) -> None:
        cls.counted += 1
        if cls.counted == cls.step:
            os.kill(os.getpid(), cls.signal)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if not callable(value) or name in ("fileno", "close", "shutdown"):
            return value

        def call(*args: Any) -> Any:
            self.count()
            return value(*args)

        return call

    def sendall(self, data: Any) -> None:
        """In two halves, so that one can be missing."""
        data = bytes(data)
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            self.count()
            self._of.sendall(part)

    def sendmsg(self, pieces: Any) -> int:
        data = b"".join(pieces)
        self.sendall(data)
        return len(data)


def echo(link: Link) -> None:
    """Answer each item with itself, until the other end is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            frame = link.recv()
            link.send(ECHO, frame.number, frame.load())


def ask(link: Link) -> None:
    """Send all items, two ahead, and take the answers."""
    for number, item in enumerate(ITEMS):
        link.send(1, number, item)
        if number >= 2:
            link.recv().load()


class Other:
    """A process at the other end of ``link``, which sends itself a signal at one step of ``body``."""

    def __init__(self, body: Callable[[Link], None], step: int, number: signal.Signals) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_frame, "_CAPACITY", CAPACITY)
            self.link, end = link_pair(1 << 20, has_rings=True)
        self.link.store = None  # large items through the socket: arenas have tests of their own
        self._code: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                _run(body, end.open(), step, number)
                code = DONE
            os._exit(code)
        end.close()

    def wait(self, options: int = 0) -> int | None:
        """Its exit code; with ``WUNTRACED`` ``None`` if it stands still."""
        if self._code is None:
            _, status = os.waitpid(self._pid, options)
            if os.WIFSTOPPED(status):
                return None
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()
        if self._code is None:
            os.kill(self._pid, signal.SIGKILL)
            self.wait()


def _run(body: Callable[[Link], None], link: Link, step: int, number: signal.Signals) -> None:
    link.store = None
    Ending.step, Ending.signal = step, number
    rings: Any = link._rings
    rings.inbound, rings.outbound = Ending(rings.inbound), Ending(rings.outbound)
    link._socket = Ending(link._socket)  # type: ignore[assignment] # it does what is asked of one
    body(link)


def take(link: Link, numbers: list[int], timeout: float = 100) -> bool:
    """Take a frame and check that it is the next, and whole. False if there is none now."""
    try:
        frame = link.recv(timeout)
    except TimeoutError:
        assert timeout == 0, "it hangs"
        return False
    assert frame.number == len(numbers)
    assert frame.load() == ITEMS[frame.number]
    numbers.append(frame.number)
    return True


def take_all(link: Link, numbers: list[int]) -> None:
    """Take frames until the end of the stream."""
    with contextlib.suppress(EOFError):
        while take(link, numbers):
            pass


def send_to_nobody(link: Link) -> None:
    """What the ring has room for is lost; then there is an error."""
    for _ in range(2 * CAPACITY // 600):
        link.send(1, 0, b"x" * 600)


def check_each_death(run: Callable[[int], int | None]) -> None:
    """Run with a death at each step, until one run gets to its end."""
    for step in itertools.count(1):
        code = run(step)
        if code == DONE:
            assert step > 2 * len(ITEMS)
            return
        assert code == -signal.SIGKILL


@pytest.mark.slow
def test_who_asks_survives_the_death_of_who_answers() -> None:
    """At each step: the answers before it, then the end of the stream, and what is sent then is refused."""

    def run(step: int) -> int | None:
        numbers: list[int] = []
        with Other(echo, step, signal.SIGKILL) as other:
            link = other.link
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for number, item in enumerate(ITEMS):
                    link.send(1, number, item)
                for _ in ITEMS:
                    with contextlib.suppress(EOFError):
                        take(link, numbers)
                link.end_sending()
            take_all(link, numbers)
            code = other.wait()
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                send_to_nobody(link)
        assert code != DONE or len(numbers) == len(ITEMS)
        return code

    check_each_death(run)


@pytest.mark.slow
def test_who_answers_survives_the_death_of_who_asks() -> None:
    """At each step: what was sent before it comes, then the end of the stream."""

    def run(step: int) -> int | None:
        numbers: list[int] = []
        with Other(ask, step, signal.SIGKILL) as other:
            link = other.link
            with contextlib.suppress(EOFError):
                while take(link, numbers):
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # there may be more to take
                        link.send(ECHO, numbers[-1], ITEMS[numbers[-1]])
            code = other.wait()
        assert code != DONE or len(numbers) == len(ITEMS)
        return code

    check_each_death(run)


@pytest.mark.slow
def test_one_that_stands_still_goes_on_where_it_was() -> None:
    """At each step: what it had sent comes, then nothing, and when it goes on all of the rest."""
    for step in range(1, 4 * len(ITEMS)):
        numbers: list[int] = []
        with Other(echo, step, signal.SIGSTOP) as other:
            link = other.link
            for number, item in enumerate(ITEMS):
                link.send(1, number, item)
            link.end_sending()
            if other.wait(os.WUNTRACED) is None:
                with contextlib.suppress(EOFError):
                    while take(link, numbers, 0):
                        pass
                other.go_on()
            take_all(link, numbers)
            assert len(numbers) == len(ITEMS)
            assert other.wait() == DONE
