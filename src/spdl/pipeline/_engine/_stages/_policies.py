"""The policies of a call: random numbers, retries, a timeout, task hooks.

A call is an op with its policies. Each of them wraps the op, once, when the graph is built: a stage knows only the
wrapped op, and without a policy it pays nothing. From the op outwards: random numbers, retries, the timeout, hooks. Two
change a method of the stage as well: with random numbers, it wraps the item together with its place when it claims a
call (``with_place``); with a timeout, it watches the deadline of a call on a thread, which cannot be interrupted
(``CallStage.set_timeout``). For statistics and limits, all attempts together are one call.

Hooks are async, so with hooks every call is async, on the loop; a sync op runs on a worker thread, through a
``JobQueue``, or in its executor. An exception of the op is passed to the hooks and fails the item. An exception of a
hook, or a hook that suppresses the op's exception, drops the item.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import spdl.pipeline._asyncio as asyncio
from spdl._errors import StageTimeoutError
from spdl._failure_log import log_failed
from spdl._random import ItemPosition, Rng, RngKey, StageSeeds
from spdl._reports import add_note, note_attempts
from spdl.pipeline._engine._ending import stack_of
from spdl.pipeline._engine._places import Placed, bare
from spdl.pipeline._engine._thread import EngineThread, Task

from ._outcomes import WrongParameters, begin

if TYPE_CHECKING:
    from spdl.pipeline._engine._ticket import Ticket
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import Retry

_LOG = logging.getLogger("spdl.pipeline")
_END: Final = object()
#: Stateless: it does not change the user's random numbers, and gives different numbers in forked children.
_JITTER: Final = random.SystemRandom()

#: The op, or a wrapped op: it takes the item.
Op: TypeAlias = Callable[[Any], Any]
#: ``call(function, argument, item)`` awaits ``function(argument)``, which runs on some thread; ``item`` is for reports.
CallOnThread: TypeAlias = Callable[[Op, Any, Any], Awaitable[Any]]


# -- random numbers


class SeededOp:
    """Calls the user's op with an item and its random numbers. Pickles if the op pickles.

    The place of the item travels with it to wherever the op runs: a thread, an executor, another process. Each call
    makes a new ``Rng``, so another attempt gets the same numbers again.
    """

    __slots__ = ("op", "seeds")

    def __init__(self, op: Callable[..., Any], seeds: StageSeeds) -> None:
        self.op = op
        self.seeds = seeds

    def __call__(self, placed: Placed) -> Any:
        seeds, place = self.seeds, placed.place
        if type(place) is ItemPosition:
            seed = seeds.at(place.epoch, place.position, place.source)
        else:
            seed = seeds.of(place)
        return self.op(placed.item, rng=Rng(seed, RngKey(seeds.seed, seeds.stage, place)))


def with_place(take: Callable[[Any, float], Ticket]) -> Callable[[Any, float], Ticket]:
    """Swap ``take`` of a stage whose op takes random numbers: the item is wrapped together with its place."""

    def take_with_place(self: Any, now: float) -> Ticket:
        ticket = take(self, now)
        if type(ticket.value) is not Placed:  # already wrapped if this is the next step of a generator
            ticket.value = Placed(ticket.value, self.engine.places.of(ticket.origin))
        return ticket

    return take_with_place


# -- retries and timeouts. An op with many outputs is a function that begins its generator, and one that takes a step:
# ``begin(item)`` returns the first output and the generator. So what wraps a call of one output wraps its parts too.


def next_or_end(generator: Any) -> Any:
    """Run one step. Returns the next output, or a mark at the end."""
    return next(generator, _END)


def with_policies(
    op: Op, kind: str, stage: str, *, retry: Retry | None, timeout: float | None, wait: Callable[[float], bool]
) -> Op:
    """Return ``op`` with retries and, if it is async, its timeout.

    ``kind``: ``"sync"``, ``"generator"``, ``"async"`` or ``"async_generator"``. ``retry``: before the first output of a
    call, because emitted outputs cannot be revoked. ``timeout``: of an async call, or of each of its steps; it is
    cancelled when it is late. ``wait``: waits between the attempts of a sync op; if it returns true, the last exception
    is the outcome.
    """
    is_async, has_steps = kind.startswith("async"), kind.endswith("generator")
    if retry is None and (timeout is None or not is_async):
        return op
    call: Op
    if is_async:
        call = partial(_begin_async, op) if has_steps else partial(begin, op)
    else:
        call = partial(_begin, op) if has_steps else op
    if retry is not None:
        if retry.timeout_per_attempt is not None:
            call = partial(_in_time if is_async else _on_own_thread, call, retry.timeout_per_attempt, stage)
        call = partial(_retry_async, call, retry) if is_async else partial(_retry, call, retry, wait)
    if not is_async:
        return partial(_steps, call) if has_steps else call
    step: Op = _next_async
    if timeout is not None:
        call, step = partial(_in_time, call, timeout, stage), partial(_in_time, step, timeout, stage)
    return partial(_steps_async, call, step) if has_steps else call


def sleep(seconds: float) -> bool:
    """The ``wait`` of calls in another process, where a stop cannot interrupt it."""
    time.sleep(seconds)
    return False


def _begin(op: Op, item: Any) -> tuple[Any, Any]:
    generator = iter(op(item))
    return next(generator, _END), generator


async def _begin_async(op: Op, item: Any) -> tuple[Any, Any]:
    generator = begin(op, item)
    try:
        return await anext(generator, _END), generator
    except BaseException:
        await generator.aclose()
        raise


def _next_async(generator: Any) -> Awaitable[Any]:
    return anext(generator, _END)


def _steps(call: Op, item: Any) -> Iterator[Any]:
    first, generator = call(item)
    if first is not _END:
        yield first
        yield from generator


async def _steps_async(call: Op, step: Op, item: Any) -> AsyncIterator[Any]:
    value, generator = await call(item)
    try:
        while value is not _END:
            yield value
            value = await step(generator)
    finally:
        await generator.aclose()


def _delay_after(retry: Retry, attempt: int, exc: Exception) -> float | None:
    """Return the delay before the next attempt in seconds; ``None``: no more attempts, ``exc`` is the outcome."""
    if attempt < retry.attempts and retry.covers(exc):
        return retry.delay_before(attempt + 1, _JITTER.random)
    note_attempts(exc, attempt, retry.attempts)
    return None


def _retry(call: Op, retry: Retry, wait: Callable[[float], bool], item: Any) -> Any:
    """Call until it succeeds. Keeps its thread between attempts."""
    attempt = 1
    while True:
        try:
            return call(item)
        except Exception as exc:
            delay = _delay_after(retry, attempt, exc)
            if delay is None or wait(delay):
                raise
        attempt += 1


async def _retry_async(call: Op, retry: Retry, item: Any) -> Any:
    attempt = 1
    while True:
        try:
            return await call(item)
        except WrongParameters:
            raise
        except Exception as exc:
            delay = _delay_after(retry, attempt, exc)
            if delay is None:
                raise
        await asyncio.sleep(delay)
        attempt += 1


async def _in_time(call: Op, seconds: float, stage: str, item: Any) -> Any:
    return await in_time(call(item), seconds, stage)


async def in_time(awaitable: Any, seconds: float, stage: str) -> Any:
    """Await ``awaitable``, and cancel it after the timeout."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await awaitable
    except TimeoutError as exc:
        if not limit.expired():
            raise
        text = f"a call of stage {stage} has not returned within {seconds:g} s and was cancelled"
        raise StageTimeoutError(text, stage=stage, seconds=seconds) from exc


def _on_own_thread(call: Op, seconds: float, stage: str, item: Any) -> Any:
    """Run an attempt on its own thread, because a thread cannot be interrupted: if it is late, it is abandoned.

    The thread ends when the op returns.
    """
    ended = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []

    def run(_: EngineThread) -> None:
        outcome.append(outcome_of(call, item))
        ended.set()

    thread = EngineThread(f"spdl-attempt-{stage}", Task(None, run))
    thread.ticket = getattr(threading.current_thread(), "ticket", None)  # counts parts that the op leaves out
    thread.start()
    if not ended.wait(min(seconds, threading.TIMEOUT_MAX)):
        text = f"an attempt of a call of stage {stage} has not returned within {seconds:g} s; it is given up"
        late = StageTimeoutError(text, stage=stage, seconds=seconds)
        add_note(late, f"it is at\n{stack_of(thread.ident)}")
        raise late
    return result_of(outcome.pop())


def outcome_of(function: Op, argument: Any) -> tuple[Any, BaseException | None]:
    """Run a call where an exception cannot be raised to its caller. Returns its result or its error."""
    try:
        return function(argument), None
    except BaseException as exc:  # noqa: BLE001 - the boundary to user code; raised where it is waited for
        return None, exc


def result_of(outcome: tuple[Any, BaseException | None]) -> Any:
    value, error = outcome
    if error is None:
        return value
    try:
        raise error
    finally:
        del error, outcome  # this frame is in its traceback


# -- task hooks


class HookLog:
    """Logs failures of the task hooks of a stage, which may fail for every item."""

    def __init__(self, info: StageInfo) -> None:
        self._info = info
        self._seen: Counter[str] = Counter()

    def __call__(self, text: str, error: BaseException | None) -> None:
        assert error is not None
        log_failed(_LOG, self._seen, "hook", text, self._info, error=error)


class _HookFailed(Exception):
    """A hook raised; the cause is its exception."""


async def _between(hooks: list[Any], log: HookLog, item: Any, call: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    """Await ``call`` between the task hooks. Returns its result and whether it completed without an exception."""
    error: BaseException | None = None
    completed = False
    result: Any = None
    try:
        async with AsyncExitStack() as stack:
            for hook in hooks:
                await stack.enter_async_context(hook.task_hook(item))
            try:
                result = await call()
                completed = True
            except BaseException as exc:
                error = exc
                raise
    except asyncio.CancelledError:
        raise
    except BaseException as exc:
        if error is not None:
            if exc is not error:
                log("a task hook of stage %s failed", exc)
            raise error from error.__cause__
        raise _HookFailed from exc
    return result, completed


async def hooked(log: HookLog, hooks: list[Any], op: Op, item: Any) -> Any:
    """Await ``op(item)`` between the hooks. Returns ``None``, a drop, if a hook lost the result."""
    try:
        result, completed = await _between(hooks, log, bare(item), partial(op, item))
    except _HookFailed as exc:
        log("a task hook of stage %s dropped an item", exc.__cause__)
        return None
    return result if completed else None


async def hooked_steps(log: HookLog, hooks: list[Any], op: Op, item: Any) -> AsyncIterator[Any]:
    """Run each step of an async generator between the hooks. They see its end as ``StopAsyncIteration``."""
    generator = op(item)
    try:
        while True:
            ran = False

            async def step() -> Any:
                nonlocal ran
                ran = True
                return await anext(generator)

            try:
                value, completed = await _between(hooks, log, bare(item), step)
            except StopAsyncIteration:
                return
            except _HookFailed as exc:
                log("a task hook of stage %s dropped an output", exc.__cause__)
                if not ran:
                    return  # every further step would fail too
                yield None
                continue
            if not completed:
                return  # a hook suppressed the op's error, or the end
            yield value
    finally:
        if (aclose := getattr(generator, "aclose", None)) is not None:
            await aclose()


# -- sync ops on the loop


async def to_its_end(call: Awaitable[Any]) -> Any:
    """Await a call on a thread. It cannot be interrupted: a cancellation takes effect when it has returned."""
    running = asyncio.ensure_future(_outcome_of(call))
    try:
        outcome = await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.done():
            await asyncio.wait([running])
        raise
    return result_of(outcome)


async def _outcome_of(call: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Await a call and return its result or its exception.

    A task must not end with ``SystemExit`` or ``KeyboardInterrupt``, because asyncio lets these end the loop.
    """
    try:
        return await call, None
    except asyncio.CancelledError:
        raise
    except BaseException as exc:  # noqa: BLE001 - the boundary to user code
        return None, exc


async def steps_on_thread(call: CallOnThread, op: Op, item: Any) -> AsyncIterator[Any]:
    """Turn a sync generator into an async one: every step is a ``call(function, argument, item)`` on some thread."""
    generator = await to_its_end(call(op, item, item))
    try:
        while (value := await to_its_end(call(next_or_end, generator, item))) is not _END:
            yield value
    except StageTimeoutError:  # the step is still running: its thread closes the generator
        generator = None
        raise
    finally:
        if (close := getattr(generator, "close", None)) is not None:
            close()
