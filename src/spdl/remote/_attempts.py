"""Retries: pauses with jitter, a limit on attempts, and one deadline for all of them."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from spdl._reports import log

from ._errors import RemoteError, RemoteTimeoutError

T = TypeVar("T")
_LG = logging.getLogger("spdl.remote")
#: After this many seconds of failures, a warning is logged.
_LONG = 10.0


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
            if not is_reported and left < self.seconds - _LONG:
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
        """The error to raise.

        Args:
            asked: ``None``: the number of attempts was the limit. Else the time was, and the server asks to wait for
                this many seconds.
        """
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
