"""Requests to one store: over the connections of this process, with retries, and interruptible."""

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from ._attempts import Attempts
from ._client import Client, Fetched
from ._errors import RemoteError, RemoteTimeoutError
from ._interruptible import Interruptible
from ._process import CURRENT

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

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
