"""Failures: how many may happen, what happens to the item, and when to try again."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Rational
from typing import Any, Literal, TypeAlias

from spdl._numbers import as_finite, as_int, as_timeout

from ._repr import describe_callable


@dataclass(frozen=True, slots=True, repr=False)
class Rate:
    """A failure limit over a window: the share of the newest ``per`` calls of a stage that may fail.

    A share of all calls, such as ``Fraction(1, 100)``, hardly changes when a source goes bad after a million good
    items. A rate does: ``Rate(1/100, per=1000)`` stops the stage when more than 10 of its newest 1000 calls have
    failed, at any point of the run. In ``build(max_failures=...)`` each stage has its own window.

    .. code-block:: python

        builder.build(max_failures=Rate(1 / 100, per=1000))

    Args:
        share: Share of the calls in the window that may fail, in (0, 1]. With 1, the stage never stops.
        per: Number of calls in the window, >= 1.

    Raises:
        ValueError: ``share`` or ``per`` is out of range.
        TypeError: ``share`` is not a number, or ``per`` is not an int.
    """

    share: float | Fraction
    per: int = 1000

    def __post_init__(self) -> None:
        share = self.share if isinstance(self.share, Rational) else as_finite("share", self.share)
        if isinstance(self.share, bool) or not 0 < share <= 1:
            raise ValueError(f"share of a Rate must be in range (0, 1], got {self.share!r}")
        object.__setattr__(self, "per", as_int("per of a Rate", self.per, 1))

    @property
    def most(self) -> int:
        """How many calls in a window may fail."""
        # Floats such as 1/100 are not exact: without the 1e-9, the result could be one too low.
        return int(self.share * self.per + 1e-9)

    def __repr__(self) -> str:
        return f"Rate({self.share}, per={self.per})"

    def __str__(self) -> str:
        return f"{float(self.share):.2%} of the newest {self.per} calls"


#: A number of failures, the share of all calls that may fail, or the share of the newest calls that may fail.
MaxFailures = int | Fraction | Rate


def check_max_failures(value: object) -> MaxFailures:
    """Return ``value`` as a failure limit. Checks only the type."""
    if isinstance(value, Fraction | Rate):
        return value
    try:
        return as_int("max_failures", value)
    except TypeError:
        raise TypeError(
            "max_failures must be an int (a number of failures), a fractions.Fraction (the share of calls that may "
            "fail, such as Fraction(1, 10)), or a spdl.pipeline.Rate (the share of the newest calls, such as "
            f"Rate(1/100, per=1000)), got {value!r} of type {type(value).__qualname__}"
        ) from None


def validate_max_failures(value: object, where: str = "") -> MaxFailures:
    """Return ``value`` as a failure limit, checking type and range. ``where``: its owner, as ``"stage 'decode'"``."""
    limit = check_max_failures(value)
    if isinstance(limit, Fraction) and not 0 < limit <= 1:
        of = f" of {where}" if where else ""
        raise ValueError(f"max_failures{of}, when a Fraction, must be in range (0, 1], got {limit}")
    return limit


#: Drop the item, fail the pipeline, or call a function that returns a substitute for the output.
OnError: TypeAlias = Literal["skip", "raise"] | Callable[[Any, Exception], Any]


def check_on_error(value: Any, kind_of: Callable[[Any], str]) -> OnError:
    """Return ``value`` if ``on_error`` accepts it."""
    accepted = "on_error must be 'skip', 'raise', or a function (item, error) -> substitute"
    if isinstance(value, str):
        if value not in ("skip", "raise"):
            raise ValueError(f"{accepted}, got {value!r}")
        return value  # type: ignore[return-value] # one of the two
    if not callable(value):
        raise TypeError(f"{accepted}, got {value!r} of type {type(value).__qualname__}")
    if (kind := kind_of(value)) != "sync":
        what = {"async": "an async function", "generator": "a generator function"}.get(kind, "an async generator")
        raise ValueError(f"{accepted}, got {what}: {describe_callable(value)}")
    return value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, repr=False)
class Retry:
    """Retry policy of a stage: calls the op again with an item on which it raised.

    Before the k-th attempt (k >= 2) the stage waits ``min(max_delay, delay * backoff ** (k - 2))`` seconds, less a
    random share of it of up to ``jitter``, so that calls that failed together are not retried together. If the last
    attempt fails, the item fails with that exception, and a note on it gives the number of attempts. A generator is
    retried only if it has not yielded anything.

    .. code-block:: python

        PipelineBuilder().add_source(paths).pipe(load, concurrency=8, retry=Retry(5, on=ConnectionError, delay=1.0))

    Args:
        attempts: Maximum number of calls per item, including the first.
        on: Exception class, or tuple of classes, to retry after; or a function that takes the exception and returns
            whether to retry. Other exceptions fail the item at once. A function runs where the op runs, so it must
            pickle if the op must.
        delay: Delay before the second attempt, in seconds.
        backoff: Factor by which each delay grows, >= 1.
        max_delay: Maximum delay, in seconds.
        jitter: Maximum random share of a delay, in [0, 1].
        timeout_per_attempt: Maximum time of one attempt in seconds; for a generator, until its first output. An attempt
            that takes longer fails with :class:`~spdl.pipeline.StageTimeoutError`, and is retried if ``on`` covers that
            error. Async attempts are cancelled, an isolated process is killed. On threads, each attempt runs on its own
            thread, which is abandoned when the time is over. ``call_timeout`` of the stage limits all attempts
            together, except in an isolated stage, where it limits each attempt too.

    Raises:
        ValueError: A number is out of range.
        TypeError: An argument has the wrong type; ``on`` contains something other than subclasses of ``Exception``, or
            is an async function.
    """

    attempts: int
    on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] = (Exception,)
    delay: float = 0.1
    backoff: float = 2.0
    max_delay: float = 30.0
    jitter: float = 0.5
    timeout_per_attempt: float | None = None

    def __post_init__(self) -> None:
        if (attempts := as_int("attempts", self.attempts)) < 1:
            raise ValueError(f"attempts must be >= 1, got {attempts}: it counts the first call too")
        object.__setattr__(self, "attempts", attempts)
        object.__setattr__(self, "on", _as_condition(self.on))
        limit = as_timeout("timeout_per_attempt", self.timeout_per_attempt, positive=True)
        object.__setattr__(self, "timeout_per_attempt", limit)
        for name, lowest, highest in (
            ("delay", 0.0, math.inf),
            ("backoff", 1.0, math.inf),
            ("max_delay", 0.0, math.inf),
            ("jitter", 0.0, 1.0),
        ):
            value = as_finite(name, getattr(self, name))
            if not lowest <= value <= highest:
                accepted = f">= {lowest:g}" if highest == math.inf else f"in [{lowest:g}, {highest:g}]"
                raise ValueError(f"{name} must be {accepted}, got {value:g}")
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        given = [str(self.attempts)]
        for field in fields(self)[1:]:
            if (value := getattr(self, field.name)) != field.default:
                shown = _describe_condition(value) if field.name == "on" else f"{value:g}"
                given.append(f"{field.name}={shown}")
        return f"Retry({', '.join(given)})"

    def covers(self, error: BaseException) -> bool:
        """Return whether to retry a call that raised ``error``."""
        if isinstance(self.on, tuple | type):
            return isinstance(error, self.on)
        return isinstance(error, Exception) and bool(self.on(error))

    def delay_before(self, attempt: int, random: Callable[[], float]) -> float:
        """Return the delay before an attempt, in seconds.

        Args:
            attempt: Number of the attempt, >= 2: there is no delay before the first.
            random: Function that returns numbers in [0, 1), like :func:`random.random`.
        """
        try:
            longest = min(self.max_delay, self.delay * self.backoff ** (attempt - 2))
        except OverflowError:  # the power exceeds the range of floats
            longest = self.max_delay if self.delay > 0 else 0.0
        return longest * (1.0 - self.jitter * random())


def as_retry(value: object) -> Retry | None:
    """Convert the argument ``retry=``: ``None``, a number of attempts, or a :class:`Retry`."""
    if value is None or isinstance(value, Retry):
        return value
    try:
        attempts = as_int("retry", value)
    except TypeError:
        raise TypeError(
            "retry must be an int (number of attempts, including the first) or a spdl.pipeline.defs.Retry, "
            f"got {value!r} of type {type(value).__qualname__}"
        ) from None
    if attempts < 1:
        raise ValueError(f"retry must be >= 1, got {attempts}: it counts the first call too")
    return Retry(attempts)


def _describe_condition(on: Any) -> str:
    return " | ".join(cls.__name__ for cls in on) if isinstance(on, tuple) else describe_callable(on)


def _as_condition(value: Any) -> tuple[type[Exception], ...] | Callable[[Exception], bool]:
    if callable(value) and not isinstance(value, type):
        if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value):
            raise TypeError(f"on must not be an async or a generator function, got {describe_callable(value)}")
        return value  # type: ignore[no-any-return]
    classes = value if isinstance(value, tuple) else (value,)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, Exception)):
            raise TypeError(f"on must be a subclass of Exception, a tuple of subclasses, or a function, got {cls!r}")
    if not classes:
        raise ValueError("on must name at least one class of exceptions, got none")
    return classes
