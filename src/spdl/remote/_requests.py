"""Requests to one store: over the connections of this process, with retries, and interruptible.

obstore's calls cannot be interrupted: by Ctrl-C in the main thread, or when native code no longer needs the result. A
request that runs in a separate thread can be abandoned, but costs two thread switches, as much as a small request. So
the caller makes its requests itself with a limit of one second. A request that takes longer is repeated in a thread,
and so are all requests for some time after a slow one.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._reports import log

from ._client import Client, Fetched
from ._errors import RemoteError, RemoteTimeoutError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Process:
    """The current process and its main thread, without a system call.

    ``os.getpid()`` is one, made with the GIL held: in 8 threads that read parts of 10 kB it costs each of them a tenth
    of its time. A forked child runs the hook below before any other code.

    Attributes:
        number: A different number in each forked child.
        main_thread: Ident of the main thread.
    """

    __slots__ = ("main_thread", "number")

    def __init__(self) -> None:
        self.number = 1
        self.main_thread = threading.main_thread().ident

    def forked(self) -> None:
        self.number += 1
        self.main_thread = threading.get_ident()


CURRENT = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CURRENT.forked)


T = TypeVar("T")
_LG = logging.getLogger("spdl.remote")
#: After this many seconds of failures, a warning is logged.
_REPORTED_AFTER = 10.0


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often a request is tried.

    Pauses are drawn from ``[0, pause * 2**n]`` ("full jitter", M. Brooker, Exponential Backoff and Jitter, 2015), so
    that many readers that failed together do not retry together.

    Attributes:
        most: Number of attempts. ``None``: as many as the time allows.
        seconds: Limit for all attempts of a request and the pauses between them.
        seconds_each: Limit for one attempt.
        pause: Longest pause after the first attempt, in seconds.
        longest_pause: Longest pause.
        clock, sleep: Functions of ``time``, or a test's replacements.
        first_limit: Limit for the first attempt, in seconds.
    """

    most: int | None = None
    seconds: float = 120.0
    seconds_each: float = 30.0
    pause: float = 0.1
    longest_pause: float = 10.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    first_limit: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_limit", min(self.seconds, self.seconds_each))

    def run(
        self,
        request: Callable[[float], T],
        *,
        start: float | None = None,
        failure: RemoteError | None = None,
        retry_after: Callable[[RemoteError], float | None] = lambda _: None,
    ) -> T:
        """Call ``request`` with its time limit in seconds until it succeeds or fails for a permanent reason.

        Args:
            start: When the first attempt began. ``None``: now.
            failure: The error of the first attempt, if it was already made.
            retry_after: How many seconds the server asks to wait after a failure.

        Raises:
            RemoteError: The error of the last attempt, with ``num_attempts``. ``RemoteTimeoutError`` has an earlier
                failure as its cause.
        """
        now = self.clock()
        deadline = (now if start is None else start) + self.seconds
        left = max(deadline - now, 0.001)
        number = 1
        is_reported = is_last = False
        may_ask = self.most is None
        while True:
            last = failure
            if last is None:
                try:
                    return request(min(left, self.seconds_each))
                except RemoteError as error:
                    last = error
            failure = None
            if not last._is_transient:
                last.num_attempts = number
                raise last
            if number == self.most:
                raise self._final(last, number, None)
            pause = random.uniform(0.0, min(self.pause * 2 ** min(number - 1, 30), self.longest_pause))
            left = deadline - self.clock()
            if pause >= left:
                if is_last or left <= 0.0:
                    raise self._final(last, number, 0.0)
                pause, is_last = left / 2, True
            if not is_reported and left < self.seconds - _REPORTED_AFTER:
                is_reported = True
                log(_LG, logging.WARNING, "%s (%d attempts so far; the limit is %g s)", last, number, self.seconds)
            self.sleep(pause)
            # The question is a request, so it comes in the place of the next attempt: not at once, not if the number of
            # requests is limited, nor again if the server does not say.
            asked = retry_after(last) if may_ask else None
            may_ask = may_ask and asked is not None
            if asked:
                left = deadline - self.clock()
                if asked >= left:
                    raise self._final(last, number, asked)
                self.sleep(asked + random.uniform(0.0, min(0.1 * asked + self.pause, (left - asked) / 2)))
            left = max(deadline - self.clock(), 0.001)
            number += 1

    def _final(self, error: RemoteError, number: int, asked: float | None) -> RemoteError:
        """The error to raise. ``asked``: the time was the limit, as the server asks to wait for this many seconds."""
        count = f"{number} attempt{'' if number == 1 else 's'}"
        if asked is None:
            kind, text = type(error), f"{error} (after {count}); the limit was attempts={self.most}"
        elif asked:
            kind = type(error)
            text = f"{error} (after {count}); it asks to wait {asked:.3g} s; the limit was timeout={self.seconds:g}"
        else:
            kind = RemoteTimeoutError
            text = f"{error} (after {self.seconds:g} s and {count}); the limit was timeout={self.seconds:g}"
        final = kind(text, url=error.url, action=error.action)
        final.num_attempts = number
        final.__cause__ = error.__cause__ or error
        return final


#: Limit of a request that cannot be abandoned, in seconds.
_UNINTERRUPTED = 1.0
#: After a request that took this long, the next one may exceed the limit.
_LONG = 0.25
#: How long a slow request is remembered.
_MEMORY = 60.0
#: Interval of checks whether the result is still needed, in seconds.
_PATIENCE = 0.1


class Abandoned(Exception):
    """The caller no longer needs the result."""


class Interruptible:
    """Makes requests to one store for one thread at a time. In the main thread, signal handlers run.

    Args:
        is_over: Whether to give up; called in the calling thread. ``None``: only an exception of a signal handler ends
            a request.
    """

    def __init__(self, is_over: Callable[[], bool] | None = None) -> None:
        self.is_over = is_over
        self._is_slow_until = 0.0

    def short_limit(self, start: float, limit: float) -> float | None:
        """The limit of a request that the caller makes itself at this time. ``None``: use ``run`` instead."""
        if start < self._is_slow_until:
            return None
        return _UNINTERRUPTED if limit > _UNINTERRUPTED else limit

    def note(self, start: float) -> None:
        """Note that a request that the caller made itself has ended."""
        now = time.monotonic()
        if now - start > _LONG:
            self._is_slow_until = now + _MEMORY

    def run(self, request: Callable[[float], T], limit: float) -> T:
        """The result of ``request``, which gets a limit in seconds.

        If a signal handler raises during the request, that exception is raised, and the result is dropped.

        Raises:
            Abandoned: ``is_over`` returned true.
        """
        start = time.monotonic()
        short = self.short_limit(start, limit)
        if short is not None:
            try:
                return request(short)
            except RemoteTimeoutError:
                if short == limit:
                    raise
                limit -= time.monotonic() - start
            finally:
                self.note(start)
        return self.in_thread(lambda: request(limit))

    def sleep(self, seconds: float) -> None:
        """Wait. Raises ``Abandoned`` like ``run``."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._go_on()
            time.sleep(min(left, _PATIENCE))

    def _go_on(self) -> None:
        if self.is_over is not None and self.is_over():
            raise Abandoned

    def in_thread(self, call: Callable[[], T]) -> T:
        """The result of ``call``, which a thread makes. Ends early as ``run`` does."""
        outcome: list[Any] = []
        is_done = threading.Event()

        def run() -> None:
            try:
                outcome.extend((True, call()))
            except BaseException as exc:  # noqa: BLE001  # raised below
                outcome.extend((False, exc))
            finally:
                is_done.set()

        # Not a daemon: if the interpreter ended first, native code would return into a dead interpreter. It ends at its
        # time limit.
        thread = threading.Thread(target=run, name="spdl-remote-request")
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or (from Python 3.12 on) the interpreter exits
            self._go_on()
            return call()
        while not is_done.wait(None if self.is_over is None else _PATIENCE):
            self._go_on()
        thread.join()
        has_succeeded, value = outcome
        if not has_succeeded:
            try:
                raise value
            finally:
                del value, outcome  # the traceback refers to this frame
        result: T = value
        return result


@dataclass(slots=True)
class Span:
    """A range to request, and the wanted ranges in it.

    Attributes:
        members: Indices of the wanted ranges.
    """

    start: int
    stop: int
    members: list[int] = field(default_factory=list)


def coalesce(ranges: Sequence[tuple[int, int]], *, gap: int, largest: int) -> list[Span]:
    """Merge ranges ``(offset, length)`` whose distance is at most ``gap``.

    Each range is in exactly one span, except empty ones, which are in none. Ranges may overlap and come in any order.

    Args:
        gap: Most unneeded bytes to read between two ranges.
        largest: Most bytes of a span of several ranges, which bounds the memory for a request.
    """
    spans: list[Span] = []
    order = sorted((index for index, (_, length) in enumerate(ranges) if length > 0), key=lambda index: ranges[index])
    for index in order:
        start, stop = ranges[index][0], sum(ranges[index])
        last = spans[-1] if spans else None
        if last is not None and start - last.stop <= gap and max(stop, last.stop) - last.start <= largest:
            last.stop = max(last.stop, stop)
            last.members.append(index)
        else:
            spans.append(Span(start, stop, [index]))
    return spans


#: Most bytes per request, so that each ends within its time limit.
PART = 32 * 1024 * 1024


class Requests:
    """Requests from any number of threads and processes: each process connects at its first request.

    In the main thread, signal handlers can interrupt them.

    Args:
        connect: Function that makes the connections of a process.
        attempts: How often each request is tried.
        interruptible: How to make all requests, if only one thread at a time makes them. ``None``: chosen for each
            thread.
    """

    __slots__ = ("_connect", "_interruptible", "_made", "_main_thread", "_process", "attempts")

    def __init__(
        self, connect: Callable[[], Client], attempts: Attempts, interruptible: Interruptible | None = None
    ) -> None:
        self.attempts = attempts
        self._connect = connect
        self._interruptible = interruptible
        self._main_thread = Interruptible()
        self._process = 0
        self._made: Client | None = None

    def otherwise(self, attempts: Attempts, interruptible: Interruptible) -> "Requests":
        """Requests over the same connections, with other settings."""
        self._client()
        other = Requests(self._connect, attempts, interruptible)
        other._made, other._process = self._made, self._process
        return other

    def run(self, request: Callable[[Client, float], T]) -> T:
        """The result of the first attempt that succeeds. ``request`` gets the connections and the time limit."""
        client = self._client()
        attempts = self.attempts
        start = attempts.clock()
        first = attempts.first_limit
        failure = None
        how = self._interruptible
        if not self._must_be_interruptible():
            try:
                return request(client, first)
            except RemoteError as error:
                failure = error
            return self._again(request, start, failure)
        how = how or self._main_thread
        short = how.short_limit(start, first)
        if short is not None:
            try:
                return request(client, short)
            except RemoteError as error:
                if short == first or not isinstance(error, RemoteTimeoutError):
                    failure = error
            finally:
                how.note(start)
        run = how.run
        return attempts.run(
            lambda limit: run(lambda seconds: request(client, seconds), limit),
            start=start,
            failure=failure,
            retry_after=client.retry_after,
        )

    def run_long(self, request: Callable[[Client, float], T]) -> T:
        """Same as ``run``, for a request whose result is used by later ones, so that it is never made twice."""
        client = self._client()
        how = self._interruptible or self._main_thread
        if not self._must_be_interruptible():
            return self.attempts.run(lambda seconds: request(client, seconds), retry_after=client.retry_after)
        return self.attempts.run(
            lambda seconds: how.in_thread(lambda: request(client, seconds)), retry_after=client.retry_after
        )

    def fetch(
        self, path: str, span: tuple[int, int] | None, etag: str | None = None, unless: str | None = None
    ) -> Fetched:
        """The bytes of an object or a range, and the version. Errors and arguments are those of ``Client.fetch``."""
        return self.run(
            lambda client, seconds: client.fetch(path, span, etag=etag, unless=unless, most=PART, seconds=seconds)
        )

    def fetch_span(self, path: str, start: int, stop: int, etag: str | None) -> "Buffer":
        """A non-empty range of any size."""
        if stop - start <= PART and etag is None:
            return self.fetch_range(path, (start, stop))
        if stop - start <= PART:
            return self.fetch(path, (start, stop), etag).range_data
        whole = bytearray(stop - start)
        for first in range(start, stop, PART):
            fetched = self.fetch(path, (first, min(first + PART, stop)), etag)
            whole[first - start : first - start + PART] = memoryview(fetched.range_data)
            etag = etag if etag is not None else fetched.etag
        return whole

    # A loop over small objects or parts spends its time in these two methods, so they make the first attempt
    # themselves. Each intermediate call costs a hundredth of a request, and more if many threads wait for the GIL.

    def fetch_whole(self, path: str) -> "Buffer | None":
        """A whole object of any version. ``None``: it takes several requests."""
        made = self._made
        if made is None or self._process != CURRENT.number or self._must_be_interruptible():
            return self.run(lambda client, seconds: client.fetch_whole(path, PART, seconds))
        attempts = self.attempts
        start = attempts.clock()
        try:
            return made.fetch_whole(path, PART, attempts.first_limit)
        except RemoteError as error:
            return self._again(lambda client, seconds: client.fetch_whole(path, PART, seconds), start, error)

    def fetch_range(self, path: str, span: tuple[int, int]) -> "Buffer":
        """A range of any version, of at most ``PART`` bytes."""
        made = self._made
        if made is None or self._process != CURRENT.number or self._must_be_interruptible():
            return self.run(lambda client, seconds: client.fetch_range(path, span, seconds))
        attempts = self.attempts
        start = attempts.clock()
        try:
            return made.fetch_range(path, span, attempts.first_limit)
        except RemoteError as error:
            return self._again(lambda client, seconds: client.fetch_range(path, span, seconds), start, error)

    def _must_be_interruptible(self) -> bool:
        return self._interruptible is not None or get_ident() == CURRENT.main_thread

    def _again(self, request: Callable[[Client, float], T], start: float, failure: RemoteError) -> T:
        client = self._client()
        return self.attempts.run(
            lambda seconds: request(client, seconds), start=start, failure=failure, retry_after=client.retry_after
        )

    def _client(self) -> Client:
        """The connections of this process."""
        process = CURRENT.number
        made = self._made
        if made is None or self._process != process:
            made = self._connect()
            if self._process not in (0, process):
                _INHERITED.append(self._made)
            self._made, self._process = made, process
        return made


# Clients made by a parent process. Freeing them here could need the parent's threads.
_INHERITED: list[Any] = []
