"""How a ``Pipeline`` is read: its iterators, in threads, coroutines and with origins, and the epochs that they read."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl._errors import PipelineFailure, PipelineStateError, StallError
from spdl._reports import log

from ._engine._ending import DEFAULT_JOIN_TIMEOUT, describe_stuck
from ._engine._engine import END, EPOCH, Engine
from ._engine._graph import keep_places
from ._engine._stages._merge import CustomMergeStage
from ._engine._stages._source import SourceNode

if TYPE_CHECKING:
    from ._provenance._origin import BatchOrigin

_LOG = logging.getLogger("spdl.pipeline")

T = TypeVar("T")


class Readable(Generic[T]):
    """What a ``Pipeline`` knows of its reads, and what the objects that read it use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._was_started = False
        self._was_iterated = False  # an iterator has reached the end of the stream
        self._failure_raised = False
        self._was_joined = False
        self._beginning = threading.Lock()  # several threads may make the first read; one starts the pipeline

    def _begin(self) -> None:
        """Start the pipeline if it was not started."""
        raise NotImplementedError

    def _take(self, timeout: float | None) -> tuple[Any, Any]:
        """Return the next item, and the token that ``_commit`` needs. For readers that pass the items on to the user.

        At the end of the stream or of an epoch, the item is the ``EOFError`` to raise. Raises the other errors of
        ``get_item``.
        """
        if not self._was_started or self._engine.is_forked:
            self._begin()
        taken = self._engine.take(timeout)
        if isinstance(taken, tuple):
            return taken[0], taken
        ending = self._end_error(taken)
        if not isinstance(ending, EOFError):
            raise ending
        return ending, taken

    def _commit(self, taken: Any) -> None:
        """Count an item as consumed, when the user has it. ``taken``: its token. Call in the order of the takes."""
        self._engine.commit(taken)

    def _check_process(self) -> None:
        if self._engine.is_forked:
            raise PipelineStateError(
                f"pipeline {self._engine.pipeline_id} was started before this process was forked; its threads are in "
                "the parent. Build the pipeline in the child"
            )

    def _end_error(self, what: object) -> BaseException:
        """Return the exception to raise when a read found no item."""
        if (stall := self._engine.stall) is not None:
            if not self._was_joined:
                self._was_joined = True
                self._engine.join(0.0)  # the report already shows what is stuck
            return StallError(str(stall), seconds=stall.seconds)
        if what is EPOCH:
            return EOFError(
                f"end of an epoch of pipeline {self._engine.pipeline_id}; the next read starts the next one"
            )
        if not self._was_joined:
            self._join(None)
        if self._engine.stage_failures:
            return self._failure()
        return EOFError(f"pipeline {self._engine.pipeline_id} has no more items")

    def _end_iteration(self, ending: BaseException, what: object, is_late: bool) -> None:
        """Note that an iterator has come to an end. Raises what a failed and a late one have to raise."""
        if not isinstance(ending, EOFError):
            raise ending
        if is_late:
            raise self._over_error()
        self._was_iterated = self._was_iterated or what is END

    def _over_error(self) -> PipelineStateError:
        """Return the error of iterating once more."""
        return PipelineStateError(
            f"pipeline {self._engine.pipeline_id} has ended, and all of its items have been read; iterating it again "
            "would give no items. Build another pipeline for each pass, which the same builder can do, or add the "
            "source with continuous=True, so that each iteration is an epoch"
        )

    def _failure(self) -> PipelineFailure:
        self._failure_raised = True
        return PipelineFailure(list(self._engine.stage_failures))  # type: ignore[arg-type]

    def _join(self, timeout: float | None) -> None:
        self._was_joined = True
        bound = DEFAULT_JOIN_TIMEOUT if timeout is None else timeout
        if timeout is None and self._engine.stall is not None:
            bound = 0.0
        stuck = self._engine.join(bound)
        if not stuck or (timeout is None and self._engine.stall is not None):  # the stall report shows it
            return
        text = f"pipeline {self._engine.pipeline_id} has stopped, but not all of it:\n{describe_stuck(stuck, bound)}"
        if timeout is not None:
            raise TimeoutError(text)
        log(_LOG, logging.WARNING, "%s", text)


class PipelineIterator(Iterator[T]):
    """Iterates over the rest of the stream or epoch. Once exhausted, it stays exhausted.

    A failure does not exhaust it: every further ``next`` raises the failure. An iterator that is made after another one
    has reached the end of the stream is *late*: it raises, because it would otherwise look like an empty dataset.

    For code that reads ahead for the user it implements ``spdl.dataloader._holding.Holding``.
    """

    __slots__ = ("_held", "_is_exhausted", "_is_late", "_pipeline", "_read", "_timeout")

    def __init__(self, pipeline: Readable[T], timeout: float | None) -> None:
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
            pipeline._end_iteration(pipeline._end_error(value), value, self._is_late)
            self._is_exhausted = True
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

    def __init__(self, pipeline: Readable[T]) -> None:
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
            pipeline._end_iteration(ending, value, self._is_late)
            self._is_exhausted = True
            raise StopAsyncIteration
        return value  # type: ignore[no-any-return]


def keep_origins(pipeline: Readable[Any]) -> None:
    """Make the engine record where items come from. Raises as ``Pipeline.with_origins``."""
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


def iterate_with_origins(pipeline: Readable[T], timeout: float | None) -> Iterator[tuple[T, BatchOrigin]]:
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


def rng_epoch_of(pipeline: Readable[Any]) -> int | None:
    """Return the epoch that ``set_rng_epoch`` set, here or in a loaded state. ``None``: the sources set it."""
    return next((node.passes.rng_epoch for node in _sources(pipeline)), None)


def set_rng_epoch(pipeline: Readable[Any], epoch: int) -> None:
    """Give ops the random numbers of this epoch, whatever epoch the sources have. For a pipeline with a single pass."""
    for node in _sources(pipeline):
        node.passes.rng_epoch = epoch


def continue_epochs(pipeline: Readable[Any], before: Readable[Any]) -> None:
    """Number the epochs of a pipeline from where those of the pipeline ``before`` ended."""
    for node, ended in zip(_sources(pipeline), _sources(before), strict=True):
        node.passes.first_epoch = ended.passes.next_epoch
        node.passes.number_epochs()


def _sources(pipeline: Readable[Any]) -> Iterator[SourceNode]:
    return (node for node in pipeline._engine.nodes if isinstance(node, SourceNode))
