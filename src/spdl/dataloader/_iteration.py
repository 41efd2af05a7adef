"""One pass over a ``DataLoader``, and the states that save its position and let the next one resume from it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from spdl._reports import log
from spdl.pipeline import Pipeline, PipelineFailure, PipelineStats
from spdl.pipeline._reading import set_rng_epoch
from spdl.resume._document import KEY

from ._holding import Holding, hold

_LOG = logging.getLogger("spdl.dataloader")

Output = TypeVar("Output")


class Iteration(Iterator[Output]):
    """One pass over a loader. When it is collected, so is the pipeline, which then stops."""

    def __init__(
        self, pipeline: Pipeline[Output], timeout: float | None, warn: Callable[[PipelineStats], None]
    ) -> None:
        self._pipeline: Pipeline[Output] | None = pipeline
        self._warn = warn
        self._outputs = pipeline.get_iterator(timeout=timeout)
        self._held: Holding | None = None

    def __next__(self) -> Output:
        if self._pipeline is None:
            raise StopIteration
        try:
            return next(self._outputs)
        except StopIteration:
            stats = self._pipeline.stats()
            self.close()
            self._warn(stats)
            raise
        except BaseException:  # a failure, a timeout or Ctrl-C: each ends the iteration
            self.close()
            raise

    def close(self) -> None:
        """Stop the pipeline and wait for its threads."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None:
            return
        try:
            pipeline.stop()
        except PipelineFailure as exc:
            text = "a loader's source failed; the iterator was closed before it could raise the error"
            log(_LOG, logging.ERROR, text, exc_info=exc)


class ResumableIteration(Iteration[Output]):
    """An ``Iteration`` with a state; see ``Holding``."""

    def hold(self) -> None:
        self._held = hold(self._outputs)

    def token(self) -> Any:
        return None if self._held is None else self._held.token()

    def commit(self, token: Any) -> None:
        if self._held is not None:
            self._held.commit(token)


class Loader(Protocol):
    """The methods of a loader that its states need."""

    _epoch: int | None

    def _build(self) -> Pipeline[Any]: ...

    def _tell_source(self, epoch: int) -> None: ...


class LoaderStates:
    """``state_dict`` and ``load_state_dict`` of a loader.

    The state is that of the pipeline of the newest iteration. Only the part of this pipeline that knows positions is
    kept. So an abandoned iteration still ends when it is collected, and its state is available afterwards.

    Args:
        loader: A copy of the loader, with the same source. The loader has these methods as attributes; a reference to
            the loader itself would be a cycle, and the loader would be freed late.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._newest: Any = None  # ``Resuming`` of the newest iteration
        self._previous: Any = None  # of the iteration before it
        self._loaded: dict[str, str] | None = None  # the state that the next iteration resumes from
        self._prepared: Pipeline[Any] | None = None  # a pipeline that has loaded ``_loaded``

    def state_dict(self) -> dict[str, str]:
        """See ``DataLoader``."""
        if self._loaded is not None:
            return dict(self._loaded)
        rng_epoch = None
        if self._newest is not None:
            state: dict[str, str] = self._newest.state(was_started=True)
            if self._previous is not None and _has_no_beginning(state):
                state = self._previous.state(was_started=True)
            if not _is_before_next_epoch(state):
                return state  # without a pipeline, which would take several times as long
            rng_epoch = json.loads(state[KEY]).get("rng_epoch")
        pipeline = self._loader._build()
        if rng_epoch is not None:
            set_rng_epoch(pipeline, rng_epoch)
        return pipeline.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``DataLoader``."""
        loader = self._loader
        pipeline = loader._build()
        pipeline.load_state_dict(state)
        self._previous = self._newest = None
        self._loaded, self._prepared = pipeline.state_dict(), pipeline
        epoch = _epoch_of(self._loaded)
        if epoch is not None:
            loader._tell_source(epoch)

    def begin(self) -> Pipeline[Any]:
        """Return the pipeline of the next iteration."""
        pipeline, self._prepared = self._prepared, None
        if pipeline is None:
            pipeline = self._loader._build()
            if self._loaded is not None:
                pipeline.load_state_dict(self._loaded)
        self._loaded = None
        self._previous, self._newest = self._newest, pipeline._resuming
        return pipeline

    def set_epoch(self, epoch: int) -> None:
        """Note the user's epoch. It replaces a loaded state that is at the start of an epoch, not one in the middle."""
        if self._loaded is not None and _is_at_start(self._loaded):
            self._loaded = self._prepared = None
        self._loader._epoch = epoch

    @property
    def loaded(self) -> dict[str, str] | None:
        """The state that was loaded, if no iteration has begun since; for pickling."""
        return self._loaded

    def take_over(self, loaded: dict[str, str] | None) -> None:
        """Take over the state that another loader had loaded."""
        self._loaded = loaded


def _sources(state: Mapping[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(state[KEY])["sources"]
    return found


def _is_before_next_epoch(state: Mapping[str, str]) -> bool:
    """Whether everything is consumed, so that the next iteration begins a new epoch.

    The user chooses the next epoch with ``set_epoch``, or the source does. Sources that keep their position between
    iterations have it in the state.
    """
    return all(source["ended"] and source["kind"] == "indexed" for source in _sources(state))


def _has_no_beginning(state: Mapping[str, str]) -> bool:
    """Whether an iteration has consumed nothing, and the state does not have the start of its source yet."""
    (source,) = _sources(state)
    (epoch,) = source["epochs"]
    nothing = epoch.get("high", 0) == sum(stop - start for start, stop in epoch.get("holes", []))
    return source["kind"] != "indexed" and nothing and epoch.get("iterator") is None and not source["ended"]


def _is_at_start(state: Mapping[str, str]) -> bool:
    return all(
        not source["ended"]
        and len(source["epochs"]) == 1
        and not {"todo", "iterator"} & {key for key, value in source["epochs"][0].items() if value is not None}
        and source["epochs"][0].get("high", 0) == 0
        for source in _sources(state)
    )


def _epoch_of(state: Mapping[str, str]) -> int | None:
    """The epoch to resume; ``None``: the source determines it."""
    (source,) = _sources(state)
    return None if source["ended"] or not source["epochs"] else source["epochs"][0]["epoch"]
