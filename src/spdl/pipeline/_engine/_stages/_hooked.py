"""Ops with task hooks. Hooks are async, so such a stage runs on the loop; a sync op still runs on a worker thread,
through a ``JobQueue``, or in its executor.

An exception of the op is passed to the hooks and fails the item. An exception of a hook, or a hook that suppresses the
op's exception, drops the item.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import spdl.pipeline._asyncio as asyncio
from spdl._errors import StageTimeoutError
from spdl._failure_log import log_failed

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

_LOG = logging.getLogger("spdl.pipeline")
_END: Final = object()


#: ``call(function, argument, item)`` awaits ``function(argument)``, which runs on some thread; ``item`` is for reports.
CallOnThread: TypeAlias = Callable[[Callable[[Any], Any], Any, Any], Awaitable[Any]]


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


class HookedOp:
    """An async op that runs ``call(item)`` between the hooks. Returns ``None``, a drop, if a hook lost the result."""

    def __init__(self, log: HookLog, hooks: list[Any], call: Callable[[Any], Awaitable[Any]]) -> None:
        self.hooks = hooks
        self.log = log
        self.call = call

    async def __call__(self, item: Any) -> Any:
        try:
            result, completed = await _between(self.hooks, self.log, item, lambda: self.call(item))
        except _HookFailed as exc:
            self.log("a task hook of stage %s dropped an item", exc.__cause__)
            return None
        return result if completed else None


class HookedGenerator:
    """An async generator function that runs each step between the hooks. They see its end as ``StopAsyncIteration``."""

    def __init__(self, log: HookLog, hooks: list[Any], make: Callable[[Any], AsyncIterator[Any]]) -> None:
        self.hooks = hooks
        self.log = log
        self.make = make

    async def __call__(self, item: Any) -> AsyncIterator[Any]:
        generator = self.make(item)
        try:
            while True:
                ran = False

                async def step() -> Any:
                    nonlocal ran
                    ran = True
                    return await anext(generator)

                try:
                    value, completed = await _between(self.hooks, self.log, item, step)
                except StopAsyncIteration:
                    return
                except _HookFailed as exc:
                    self.log("a task hook of stage %s dropped an output", exc.__cause__)
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


async def to_its_end(call: Awaitable[Any]) -> Any:
    """Await a call on a thread. It cannot be interrupted: a cancellation takes effect when it has returned."""
    running = asyncio.ensure_future(_outcome_of(call))
    try:
        result, error = await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.done():
            await asyncio.wait([running])
        raise
    if error is not None:
        raise error
    return result


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


async def steps_on_thread(call: CallOnThread, op: Callable[[Any], Any], item: Any) -> AsyncIterator[Any]:
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


def next_or_end(generator: Any) -> Any:
    """Run one step. Returns the next output, or a mark at the end."""
    return next(generator, _END)
