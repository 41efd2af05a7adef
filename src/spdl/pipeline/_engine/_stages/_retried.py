"""Ops with retries: ``pipe(retry=...)``.

The op is wrapped once, when the graph is built; a stage without retries has no overhead. For hooks, statistics and
limits, all attempts together are one call. Between attempts, a sync op keeps its thread; a stop interrupts the delay.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from spdl._reports import add_note

from ._call import WrongParameters, begin

if TYPE_CHECKING:
    from spdl.pipeline.defs import Retry

__all__ = ["RemoteRetried", "retried"]

_END: Final = object()
#: Has no state: it neither changes the numbers that users draw, nor is the same in the children of a fork.
_JITTER: Final = random.SystemRandom()


def retried(op: Callable[[Any], Any], kind: str, retry: Retry, stopped: threading.Event) -> Callable[[Any], Any]:
    """Return ``op`` with retries.

    Args:
        op: User's op.
        kind: Kind of the op: ``"sync"``, ``"generator"``, ``"async"`` or ``"async_generator"``.
        retry: Retry policy.
        stopped: Event that interrupts delays; the call then fails with the exception of its last attempt.
    """
    policy = _Policy(retry)
    if kind == "async":
        return lambda item: _retry_async(op, item, policy)
    if kind == "async_generator":
        return lambda item: _retry_async_generator(op, item, policy)
    if kind == "generator":
        return lambda item: _retry_generator(op, item, policy, stopped.wait)
    return lambda item: _retry(op, item, policy, stopped.wait)


class RemoteRetried:
    """An op with retries for a process pool: picklable. It retries in the worker, where the exception type is known.

    A stop cannot interrupt the delays there.
    """

    def __init__(self, op: Callable[[Any], Any], kind: str, retry: Retry) -> None:
        self.op, self.kind, self.retry = op, kind, retry

    def __call__(self, item: Any) -> Any:
        call = _retry_generator if self.kind == "generator" else _retry
        return call(self.op, item, _Policy(self.retry), _sleep)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class _Policy:
    def __init__(self, retry: Retry) -> None:
        self.retry = retry

    def delay_after(self, attempt: int, exc: Exception) -> float | None:
        """Return the delay before the next attempt in seconds; ``None``: no more attempts, ``exc`` is the outcome."""
        if self.retry.covers(exc) and attempt < self.retry.attempts:
            return self.retry.delay_before(attempt + 1, _JITTER.random)
        if attempt > 1:
            add_note(exc, f"attempt {attempt} of {self.retry.attempts}; those before failed too")
        return None


def _retry(op: Callable[[Any], Any], item: Any, policy: _Policy, wait: Callable[[float], bool]) -> Any:
    attempt = 1
    while True:
        try:
            return op(item)
        except Exception as exc:
            delay = policy.delay_after(attempt, exc)
            if delay is None or wait(delay):
                raise
        attempt += 1


def _retry_generator(
    op: Callable[[Any], Any], item: Any, policy: _Policy, wait: Callable[[float], bool]
) -> Iterator[Any]:
    """Retry only before the first output: emitted outputs cannot be revoked."""

    def begin_one(item: Any) -> tuple[Any, Any]:
        generator = iter(op(item))
        return next(generator, _END), generator

    first, generator = _retry(begin_one, item, policy, wait)
    if first is not _END:
        yield first
        yield from generator


async def _retry_async(op: Callable[[Any], Any], item: Any, policy: _Policy) -> Any:
    attempt = 1
    while True:
        try:
            return await begin(op, item)
        except WrongParameters:
            raise
        except Exception as exc:
            delay = policy.delay_after(attempt, exc)
            if delay is None:
                raise
        await asyncio.sleep(delay)
        attempt += 1


async def _retry_async_generator(op: Callable[[Any], Any], item: Any, policy: _Policy) -> AsyncIterator[Any]:
    async def begin_one(item: Any) -> tuple[Any, Any]:
        generator = begin(op, item)
        return await anext(generator, _END), generator

    first, generator = await _retry_async(begin_one, item, policy)
    try:
        while first is not _END:
            yield first
            first = await anext(generator, _END)
    finally:
        await generator.aclose()
