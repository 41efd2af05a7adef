"""The iterators that read a ``Pipeline``: in threads, in coroutines, and with the origin of each item."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._errors import PipelineStateError

from ._engine._engine import END, EPOCH, Engine
from ._engine._graph import keep_places
from ._engine._stages._merge import CustomMergeStage

if TYPE_CHECKING:
    from ._pipeline import Pipeline
    from ._provenance._origin import BatchOrigin

T = TypeVar("T")


class PipelineIterator(Iterator[T]):
    """Iterates over the rest of the stream or epoch. Once exhausted, it stays exhausted.

    A failure does not exhaust it: every further ``next`` raises the failure. An iterator that is made after another one
    has reached the end of the stream is *late*: it raises, because it would otherwise look like an empty dataset.

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
            ending = pipeline._end_error(value)
            if not isinstance(ending, EOFError):
                raise ending
            if self._is_late:
                raise pipeline._over_error()
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
    """Reads for code that reads ahead: an item counts as consumed later, when the user gets it."""

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
            ending = await loop.run_in_executor(None, pipeline._end_error, value)  # joins threads
            if not isinstance(ending, EOFError):
                raise ending
            if self._is_late:
                raise pipeline._over_error()
            self._is_exhausted = True
            pipeline._was_iterated = pipeline._was_iterated or value is END
            raise StopAsyncIteration
        return value  # type: ignore[no-any-return]


def keep_origins(pipeline: Pipeline[Any]) -> None:
    """Make the engine record where items come from. Must be called before its start.

    Raises:
        PipelineStateError: The engine was started without this.
        ValueError: The pipeline has a custom merge op, so the origins of its outputs are not known.
    """
    engine = pipeline._engine
    if engine.places.failures is not None:
        return
    if pipeline._was_started:
        raise PipelineStateError(
            f"pipeline {engine.pipeline_id} was started before with_origins() was called, and has not recorded "
            "where its items come from. Call with_origins() before the first read"
        )
    if any(isinstance(node, CustomMergeStage) for node in engine.nodes):
        raise ValueError(
            f"pipeline {engine.pipeline_id} does not know the origins of its items: a custom merge op may keep, "
            "combine or create items. Use Merge without op"
        )
    keep_places(engine)
    engine.places.failures = {}


def iterate_with_origins(pipeline: Pipeline[T], timeout: float | None) -> Iterator[tuple[T, BatchOrigin]]:
    """Iterate as ``PipelineIterator`` does, with the origin of each item."""
    from ._provenance._origin import origin_of  # imported late: few pipelines need it

    engine = pipeline._engine
    is_late = pipeline._was_iterated
    while True:
        value, taken = pipeline._take(timeout)
        if isinstance(value, EOFError):
            pipeline._commit(taken)
            if is_late:
                raise pipeline._over_error()
            pipeline._was_iterated = engine.was_end_read
            return
        with engine.lock:
            origin = origin_of(engine, taken[1])
        pipeline._commit(taken)
        yield value, origin
