"""The iterators that read a ``Pipeline``: in threads, and in coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ._engine import END, EPOCH, Engine

if TYPE_CHECKING:
    from ._pipeline import Pipeline

__all__ = ["PipelineAsyncIterator", "PipelineIterator"]

T = TypeVar("T")


class PipelineIterator(Iterator[T]):
    """Exhausted at the end of the stream or of an epoch, and stays so.

    A failure does not exhaust it: every further ``next`` raises the failure. One that is made after another
    has come to the end of the stream is *late*: it raises, because it would look like one over nothing.

    For code that reads ahead for the user it implements ``spdl.dataloader._holding.Holding``.
    """

    __slots__ = ("_held", "_is_exhausted", "_is_late", "_pipeline", "_read", "_timeout")

    def __init__(self, pipeline: Pipeline[T], timeout: float | None) -> None:
        self._pipeline = pipeline
        self._read: Callable[[float | None], Any] = pipeline._engine.read
        self._held: _HeldReads | None = None
        self._timeout = timeout
        self._is_exhausted = False
        self._is_late = pipeline._was_iterated

    def __next__(self) -> T:
        pipeline = self._pipeline
        if not pipeline._was_started or pipeline._engine.is_forked:
            pipeline._begin()
        if self._is_exhausted:
            raise StopIteration
        value = self._read(self._timeout)
        if value is END or value is EPOCH:
            ending = pipeline._ending(value)
            if not isinstance(ending, EOFError):
                raise ending
            if self._is_late:
                raise pipeline._over()
            self._is_exhausted = True
            pipeline._was_iterated = pipeline._was_iterated or value is END
            raise StopIteration
        return value  # type: ignore[no-any-return]

    def hold(self) -> None:
        self._held = _HeldReads(self._pipeline._engine)
        self._read = self._held.read

    def token(self) -> Any:
        if self._held is None:
            return None
        taken, self._held.taken = self._held.taken, None
        return taken

    def commit(self, token: Any) -> None:
        self._pipeline._commit(token)


class _HeldReads:
    """Reads that count as consumed later."""

    __slots__ = ("engine", "taken")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.taken: Any = None  # what the last read took

    def read(self, timeout: float | None) -> Any:
        self.taken = taken = self.engine.take(timeout)
        return taken[0] if isinstance(taken, tuple) else taken


class PipelineAsyncIterator(AsyncIterator[T]):
    __slots__ = ("_is_exhausted", "_is_late", "_pipeline")

    def __init__(self, pipeline: Pipeline[T]) -> None:
        self._pipeline = pipeline
        self._is_exhausted = False
        self._is_late = pipeline._was_iterated

    async def __anext__(self) -> T:
        import asyncio

        pipeline = self._pipeline
        loop = asyncio.get_running_loop()
        if not pipeline._was_started or pipeline._engine.is_forked:
            await loop.run_in_executor(None, pipeline._begin)  # entering stage hooks may block
        if self._is_exhausted:
            raise StopAsyncIteration
        value = await pipeline._engine.read_async(None)
        if value is EPOCH:  # no await here: a cancellation cannot lose the mark
            self._is_exhausted = True
            raise StopAsyncIteration
        if value is END:
            ending = await loop.run_in_executor(None, pipeline._ending, value)  # joins threads
            if not isinstance(ending, EOFError):
                raise ending
            if self._is_late:
                raise pipeline._over()
            self._is_exhausted = True
            pipeline._was_iterated = pipeline._was_iterated or value is END
            raise StopAsyncIteration
        return value  # type: ignore[no-any-return]
