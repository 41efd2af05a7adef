"""Retries: pauses with jitter, a limit on attempts, and one deadline for all of them."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ._errors import RemoteError, RemoteTimeoutError

__all__ = ["Attempts"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often a request is tried.

    Pauses are drawn from ``[0, pause * 2**n]`` ("full jitter", M. Brooker, Exponential Backoff and Jitter, 2015), so
    that many readers that failed together do not retry together.

    Attributes:
        most: Number of attempts.
        seconds: Limit for all attempts of a request and the pauses between them.
        seconds_each: Limit for one attempt.
        pause: Longest pause after the first attempt, in seconds.
        longest_pause: Longest pause.
        clock, sleep: Functions of ``time``, or a test's replacements.
        first_limit: Limit for the first attempt, in seconds.
    """

    most: int = 6
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
        self, request: Callable[[float], T], *, start: float | None = None, failure: RemoteError | None = None
    ) -> T:
        """Call ``request`` with its time limit in seconds until it succeeds or fails for a permanent reason.

        Args:
            start: When the first attempt began. ``None``: now.
            failure: The error of the first attempt, if it was already made.

        Raises:
            RemoteError: The error of the last attempt, with ``num_attempts``. ``RemoteTimeoutError`` has an earlier
                failure as its cause.
        """
        now = self.clock()
        deadline = (now if start is None else start) + self.seconds
        left = max(deadline - now, 0.001)
        number = 1
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
            pause = random.uniform(0.0, min(self.pause * 2 ** (number - 1), self.longest_pause))
            left = deadline - self.clock()
            if number >= self.most or pause >= left:
                raise self._final(last, number, is_late=pause >= left)
            self.sleep(pause)
            left = max(deadline - self.clock(), 0.001)
            number += 1

    def _final(self, error: RemoteError, number: int, *, is_late: bool) -> RemoteError:
        count = f"{number} attempt{'' if number == 1 else 's'}"
        text = f"{error} (after {self.seconds:g} s and {count})" if is_late else f"{error} (after {count})"
        kind = RemoteTimeoutError if is_late else type(error)
        final = kind(text, url=error.url, action=error.action)
        final.num_attempts = number
        final.__cause__ = error.__cause__ or error
        return final
