"""``Pipeline``: the handle that owns an engine. Starting, reading, stopping; what a user holds."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from spdl._reports import log

from ._engine import Engine
from ._engine._ending import DEFAULT_JOIN_TIMEOUT, abandon, describe_stuck
from ._engine._scheduler import END, EPOCH
from ._errors import PipelineFailure, PipelineStateError
from ._numbers import as_timeout
from ._observe import PipelineStats
from ._snapshot import take_stats

__all__ = ["Pipeline"]

_LOG = logging.getLogger("spdl.pipeline")

T = TypeVar("T")


class Pipeline(Generic[T]):
    """A built pipeline. Made by ``PipelineBuilder.build`` or ``build_pipeline``.

    Neither ``start`` nor ``stop`` is needed: the first read starts it; exhaustion, collection and interpreter exit
    stop it. All methods are thread-safe. Where several threads read, each item goes to one of them; of the end, and of
    a failure, all are told.

    A pipeline that nobody refers to any more is stopped, also if its ops are methods of the object that held it. Async
    sources, merge ops, stage hooks, background tasks and stages in other processes keep what they belong to: stop such
    a pipeline.

    .. code-block:: python

        pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
        for item in pipeline:
            print(item)
    """

    def __init__(self, engine: Engine, description: str) -> None:
        self._engine = engine
        self._description = description
        self._was_started = False
        self._was_stopped = False
        self._failure_raised = False
        self._was_joined = False
        self._beginning = threading.Lock()  # of several threads whose read is the first, one starts

    def __del__(self) -> None:
        # Neither the engine nor its threads know the handle, so it can be collected while they run. A finalizer of
        # ``weakref`` would hold the engine, with the user's ops, and these may hold the handle. The interpreter's exit
        # stops all engines together, and before this is called.
        engine = getattr(self, "_engine", None)
        if engine is not None:
            abandon(engine)

    def __str__(self) -> str:
        return f"<Pipeline {self._engine.pipeline_id}, {self._engine.state.value}>\n{self._description}"

    # -- start and stop

    def start(self, *, timeout: float | None = None, **kwargs: Any) -> None:
        """Start the pipeline; return when it runs.

        Args:
            timeout: Seconds to wait for the stage hooks to be entered; ``None``: as long as it takes.
            **kwargs: ``daemon`` is accepted with a warning and has no effect: the engine's threads always are.

        Raises:
            PipelineStateError: The pipeline was started or stopped before.
            TimeoutError: It was not up in time. The pipeline is finished.
        """
        if kwargs.pop("daemon", None) is not None:
            warnings.warn("start(daemon=) has no effect: the engine's threads are always daemons", stacklevel=2)
        if kwargs:
            raise TypeError(f"start() got unexpected keyword arguments: {', '.join(kwargs)}")
        self._check_process()
        if self._was_started:
            what = "stopped" if self._was_stopped else "started"
            raise PipelineStateError(
                f"cannot start pipeline {self._engine.pipeline_id}: it was {what} before; build another"
            )
        timeout = as_timeout("timeout", timeout)
        self._was_started = True
        try:
            is_up = self._engine.start(timeout)
        except RuntimeError as exc:
            self._was_stopped = True
            self._engine.request_stop()
            self._engine.join(0)
            raise PipelineStateError(
                f"cannot start pipeline {self._engine.pipeline_id}: {exc}. Are there too many threads, or does the "
                "interpreter exit?"
            ) from exc
        if not is_up:
            self._was_stopped = True
            self._engine.request_stop()
            self._engine.join(0)
            raise TimeoutError(
                f"pipeline {self._engine.pipeline_id} was not up within {timeout} s: a stage hook has not been "
                "entered; the pipeline is finished"
            )

    def stop(self, *, timeout: float | None = None) -> None:
        """Stop the pipeline and wait for its threads. Nothing happens before a start, or when repeated.

        What is in the sink stays readable; what calls in flight hold is discarded.

        Args:
            timeout: Seconds given to sync ops that still run. ``None``: 10, and a warning instead of the error.

        Raises:
            TimeoutError: An op has not returned in the given time. The message names it, its item and its stack. Its
            thread is
                left behind as a daemon, its result is discarded.
            PipelineFailure: A stage has failed and no read has raised it. Raised once.
        """
        timeout = as_timeout("timeout", timeout)
        self._check_process()
        if not self._was_started or self._was_stopped:
            return
        self._was_stopped = True
        self._engine.request_stop()
        self._join(timeout)
        if self._engine.stage_failures and not self._failure_raised:
            raise self._failure()

    @contextmanager
    def auto_stop(self, *, timeout: float | None = None) -> Iterator[None]:
        """Start on entry, stop on exit. An exception of the body is not replaced by one of the stop.

        Args:
            timeout: As in ``start`` and in ``stop``.
        """
        timeout = as_timeout("timeout", timeout)
        self.start(timeout=timeout)
        try:
            yield
        except BaseException:
            try:
                self.stop(timeout=timeout)
            except Exception as exc:  # noqa: BLE001 - the body's exception is what the caller must see
                text = "stopping pipeline %d failed as well"
                log(_LOG, logging.ERROR, text, self._engine.pipeline_id, exc_info=exc)
            raise
        self.stop(timeout=timeout)

    # -- reading

    def get_item(self, *, timeout: float | None = None) -> T:
        """The next item. Starts the pipeline if needed.

        Args:
            timeout: Seconds to wait; 0 looks without waiting; ``None`` waits for ever.

        Raises:
            TimeoutError: Nothing came in time. Nothing is lost; a later call gets the item.
            EOFError: The end of the stream, on this and every later call; or, with a continuous source, the end of an
                epoch: the next call starts the next one.
            PipelineFailure: A stage failed, and everything before the failure has been read.
        """
        if timeout is not None:
            timeout = as_timeout("timeout", timeout)
        if not self._was_started or self._engine.is_forked:
            self._begin()
        value = self._engine.read(timeout)
        if value is END or value is EPOCH:
            raise self._ending(value)
        return value  # type: ignore[no-any-return]

    def get_iterator(self, *, timeout: float | None = None) -> Iterator[T]:
        """Iterate over the rest of the stream, or of the epoch. A new iterator goes on where the last one stopped.

        Args:
            timeout: Seconds to wait for each item.
        """
        return _PipelineIterator(self, as_timeout("timeout", timeout))

    def __iter__(self) -> Iterator[T]:
        return self.get_iterator()

    def __aiter__(self) -> AsyncIterator[T]:
        """Iterate in a coroutine: waits without blocking the event loop. Ending the loop early loses no item."""
        return _PipelineAsyncIterator(self)

    def stats(self) -> PipelineStats:
        """What the pipeline has measured of itself up to now. At any time, from any thread."""
        self._check_process()
        return take_stats(self._engine)

    # -- parts

    def _begin(self) -> None:
        self._check_process()
        with self._beginning:
            if not self._was_started:
                self.start()

    def _check_process(self) -> None:
        if self._engine.is_forked:
            raise PipelineStateError(
                f"pipeline {self._engine.pipeline_id} was started before this process was forked; its threads are in "
                "the parent. Build the pipeline in the child"
            )

    def _ending(self, what: object) -> BaseException:
        """The exception for a read that found no item."""
        if what is EPOCH:
            return EOFError(
                f"end of an epoch of pipeline {self._engine.pipeline_id}; the next read starts the next one"
            )
        if not self._was_joined:
            self._join(None)
        if self._engine.stage_failures:
            return self._failure()
        return EOFError(f"pipeline {self._engine.pipeline_id} has no more items")

    def _failure(self) -> PipelineFailure:
        self._failure_raised = True
        return PipelineFailure(list(self._engine.stage_failures))  # type: ignore[arg-type]

    def _join(self, timeout: float | None) -> None:
        self._was_joined = True
        bound = DEFAULT_JOIN_TIMEOUT if timeout is None else timeout
        stuck = self._engine.join(bound)
        if not stuck:
            return
        text = f"pipeline {self._engine.pipeline_id} has stopped, but not all of it:\n{describe_stuck(stuck, bound)}"
        if timeout is not None:
            raise TimeoutError(text)
        log(_LOG, logging.WARNING, "%s", text)


class _PipelineIterator(Iterator[T]):
    """Exhausted for good at the end of the stream or of an epoch.

    Never after a failure, which every ``next`` raises.
    """

    __slots__ = ("_is_exhausted", "_pipeline", "_timeout")

    def __init__(self, pipeline: Pipeline[T], timeout: float | None) -> None:
        self._pipeline = pipeline
        self._timeout = timeout
        self._is_exhausted = False

    def __next__(self) -> T:
        pipeline = self._pipeline
        if not pipeline._was_started or pipeline._engine.is_forked:
            pipeline._begin()
        if self._is_exhausted:
            raise StopIteration
        value = pipeline._engine.read(self._timeout)
        if value is END or value is EPOCH:
            ending = pipeline._ending(value)
            if not isinstance(ending, EOFError):
                raise ending
            self._is_exhausted = True
            raise StopIteration
        return value  # type: ignore[no-any-return]


class _PipelineAsyncIterator(AsyncIterator[T]):
    __slots__ = ("_is_exhausted", "_pipeline")

    def __init__(self, pipeline: Pipeline[T]) -> None:
        self._pipeline = pipeline
        self._is_exhausted = False

    async def __anext__(self) -> T:
        import asyncio

        pipeline = self._pipeline
        loop = asyncio.get_running_loop()
        if not pipeline._was_started or pipeline._engine.is_forked:
            await loop.run_in_executor(None, pipeline._begin)  # stage hooks may take their time
        if self._is_exhausted:
            raise StopAsyncIteration
        value = await pipeline._engine.read_async(None)
        if value is EPOCH:  # nothing to wait for, so a cancellation cannot come between the mark and its effect
            self._is_exhausted = True
            raise StopAsyncIteration
        if value is END:
            ending = await loop.run_in_executor(None, pipeline._ending, value)  # joins threads
            if not isinstance(ending, EOFError):
                raise ending
            self._is_exhausted = True
            raise StopAsyncIteration
        return value  # type: ignore[no-any-return]
