"""``LoaderStates``: where the newest iteration of a ``DataLoader`` is, and what its next one goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from spdl.pipeline import Pipeline
from spdl.pipeline._epochs import set_rng_epoch
from spdl.resume._document import KEY

__all__ = ["LoaderStates"]


class Loader(Protocol):
    """What the states of a loader need of it."""

    _epoch: int | None

    def _build(self) -> Pipeline[Any]: ...

    def _tell_source(self, epoch: int) -> None: ...


class LoaderStates:
    """``state_dict`` and ``load_state_dict`` of a loader.

    The state is that of the pipeline of the newest iteration. Of this pipeline only the part is kept that knows
    positions: so an iteration that is left still ends when it is collected, and can be asked for its state afterwards.

    Args:
        loader: A copy of the loader, with the same source. The loader has these methods as attributes: with the loader
            itself there would be a cycle, and it would be freed late.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._newest: Any = None  # ``Resuming`` of the newest iteration
        self._previous: Any = None  # of the one before
        self._loaded: dict[str, str] | None = None  # what the next iteration goes on with
        self._prepared: Pipeline[Any] | None = None  # with ``_loaded``

    def state_dict(self) -> dict[str, str]:
        """See ``DataLoader``."""
        if self._loaded is not None:
            return dict(self._loaded)
        pipeline = self._loader._build()
        if self._newest is not None:
            state: dict[str, str] = self._newest.state(was_started=True)
            if self._previous is not None and _has_no_beginning(state):
                state = self._previous.state(was_started=True)
            if not _is_before_next_epoch(state):
                return state
            rng_epoch = json.loads(state[KEY]).get("rng_epoch")
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
        """The user has set the epoch. It replaces one that was loaded at its beginning, but not one in the middle."""
        if self._loaded is not None and _is_at_start(self._loaded):
            self._loaded = self._prepared = None
        self._loader._epoch = epoch

    @property
    def loaded(self) -> dict[str, str] | None:
        """The state that was loaded, if no iteration has begun since; for pickling."""
        return self._loaded

    def take_over(self, loaded: dict[str, str] | None) -> None:
        """Go on with what another loader had loaded."""
        self._loaded = loaded


def _sources(state: Mapping[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(state[KEY])["sources"]
    return found


def _is_before_next_epoch(state: Mapping[str, str]) -> bool:
    """Whether all is consumed, and the next iteration starts anew.

    What the next epoch is, the user says with ``set_epoch``, or the source itself. Sources that keep their place
    between iterations have it in the state.
    """
    return all(source["ended"] and source["kind"] == "indexed" for source in _sources(state))


def _has_no_beginning(state: Mapping[str, str]) -> bool:
    """Whether nothing is consumed of an iteration, and its source has not said yet where it begins."""
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
    """The epoch to go on with; ``None``: the source knows by itself."""
    (source,) = _sources(state)
    return None if source["ended"] or not source["epochs"] else source["epochs"][0]["epoch"]
