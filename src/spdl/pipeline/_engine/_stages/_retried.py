"""Ops with retries: ``pipe(retry=...)``.

The op is wrapped once, when the graph is built; a stage without retries has no overhead. For hooks, statistics and
limits, all attempts together are one call. Between attempts, a sync op keeps its thread; a stop interrupts the delay.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import spdl.pipeline._asyncio as asyncio
from spdl._errors import StageTimeoutError
from spdl._reports import add_note, note_attempts
from spdl.pipeline._engine._ending import stack_of
from spdl.pipeline._engine._thread import EngineThread, Task

from ._outcomes import WrongParameters, begin
from ._timed import in_time

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import Retry

_END: Final = object()
#: Stateless: it does not change the user's random numbers, and gives different numbers in forked children.
_JITTER: Final = random.SystemRandom()


def retried(
    op: Callable[[Any], Any], kind: str, retry: Retry, info: StageInfo, stopped: threading.Event
) -> Callable[[Any], Any]:
    """Return ``op`` with retries.

    Args:
        op: User's op.
        kind: Kind of the op: ``"sync"``, ``"generator"``, ``"async"`` or ``"async_generator"``.
        retry: Retry policy.
        info: The stage.
        stopped: Event that interrupts delays; the call then fails with the exception of its last attempt.
    """
    policy = _Policy(retry)
    if kind == "async":
        call = _limited_async(lambda item: begin(op, item), retry, info)
        return lambda item: _retry_async(call, item, policy)
    if kind == "async_generator":

        async def begin_one(item: Any) -> tuple[Any, Any]:
            generator = begin(op, item)
            try:
                return await anext(generator, _END), generator
            except BaseException:
                await generator.aclose()
                raise

        call = _limited_async(begin_one, retry, info)
        return lambda item: _retry_async_generator(call, item, policy)
    if kind == "generator":
        first = _limited(_begin_generator(op), retry, str(info))
        return lambda item: _retry_generator(first, item, policy, stopped.wait)
    limited_op = _limited(op, retry, str(info))
    return lambda item: _retry(limited_op, item, policy, stopped.wait)


class RemoteRetried:
    """An op with retries for a process pool: picklable. It retries in the worker, where the exception type is known.

    A stop cannot interrupt the delays there.
    """

    def __init__(self, op: Callable[[Any], Any], kind: str, retry: Retry, stage: str) -> None:
        self.op, self.kind, self.retry, self.stage = op, kind, retry, stage

    def __call__(self, item: Any) -> Any:
        policy = _Policy(self.retry)
        if self.kind == "generator":
            first = _limited(_begin_generator(self.op), self.retry, self.stage)
            return _retry_generator(first, item, policy, _sleep)
        return _retry(_limited(self.op, self.retry, self.stage), item, policy, _sleep)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _limited(call: Callable[[Any], Any], retry: Retry, stage: str) -> Callable[[Any], Any]:
    return call if retry.timeout_per_attempt is None else limited(call, retry.timeout_per_attempt, stage)


def _limited_async(call: Callable[[Any], Any], retry: Retry, info: StageInfo) -> Callable[[Any], Any]:
    seconds = retry.timeout_per_attempt
    return call if seconds is None else lambda item: in_time(call(item), seconds, info)


class _Policy:
    def __init__(self, retry: Retry) -> None:
        self.retry = retry

    def delay_after(self, attempt: int, exc: Exception) -> float | None:
        """Return the delay before the next attempt in seconds; ``None``: no more attempts, ``exc`` is the outcome."""
        if attempt < self.retry.attempts and self.retry.covers(exc):
            return self.retry.delay_before(attempt + 1, _JITTER.random)
        note_attempts(exc, attempt, self.retry.attempts)
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


def _begin_generator(op: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    def begin_one(item: Any) -> tuple[Any, Any]:
        generator = iter(op(item))
        return next(generator, _END), generator

    return begin_one


def _retry_generator(
    begin_one: Callable[[Any], Any], item: Any, policy: _Policy, wait: Callable[[float], bool]
) -> Iterator[Any]:
    """Retry only before the first output: emitted outputs cannot be revoked."""
    first, generator = _retry(begin_one, item, policy, wait)
    if first is not _END:
        yield first
        yield from generator


async def _retry_async(call: Callable[[Any], Any], item: Any, policy: _Policy) -> Any:
    attempt = 1
    while True:
        try:
            return await call(item)
        except WrongParameters:
            raise
        except Exception as exc:
            delay = policy.delay_after(attempt, exc)
            if delay is None:
                raise
        await asyncio.sleep(delay)
        attempt += 1


async def _retry_async_generator(begin_one: Callable[[Any], Any], item: Any, policy: _Policy) -> AsyncIterator[Any]:
    first, generator = await _retry_async(begin_one, item, policy)
    try:
        while first is not _END:
            yield first
            first = await anext(generator, _END)
    finally:
        await generator.aclose()


def limited(op: Callable[[Any], Any], seconds: float, stage: str) -> Callable[[Any], Any]:
    """Return a function that calls ``op`` and raises :class:`StageTimeoutError` if it takes longer than ``seconds``."""

    def call(item: Any) -> Any:
        attempt = _Attempt(op, item)
        thread = EngineThread(f"spdl-attempt-{stage}", Task(None, attempt.run))
        thread.ticket = getattr(threading.current_thread(), "ticket", None)  # counts parts that the op leaves out
        thread.start()
        if not attempt.ended.wait(min(seconds, threading.TIMEOUT_MAX)):
            error = StageTimeoutError(
                f"an attempt of a call of stage {stage} has not returned within {seconds:g} s; it is given up",
                stage=stage,
                seconds=seconds,
            )
            add_note(error, f"it is at\n{stack_of(thread.ident)}")
            raise error
        return attempt.outcome()

    return call


class _Attempt:
    """A call on its own thread. The waiting thread reads the outcome after ``ended``."""

    def __init__(self, op: Callable[[Any], Any], item: Any) -> None:
        self.op = op
        self.item = item
        self.ended = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, thread: EngineThread) -> None:
        try:
            self.result = self.op(self.item)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code; raised where it is waited for
            self.error = exc
        self.ended.set()

    def outcome(self) -> Any:
        error, self.error = self.error, None
        if error is None:
            return self.result
        try:
            raise error
        finally:
            del error  # this frame is in its traceback
