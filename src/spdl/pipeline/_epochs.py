"""The epoch of a pipeline that has not been started, as loaders and subprocesses set it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._engine._stages._source import SourceNode

if TYPE_CHECKING:
    from ._pipeline import Pipeline


def rng_epoch_of(pipeline: Pipeline[Any]) -> int | None:
    """Return the epoch that ``set_rng_epoch`` set, here or in a loaded state. ``None``: the sources set it."""
    return next((node.passes.rng_epoch for node in _sources(pipeline)), None)


def set_rng_epoch(pipeline: Pipeline[Any], epoch: int) -> None:
    """Give ops the random numbers of this epoch, whatever epoch the sources have. For a pipeline with a single pass."""
    for node in _sources(pipeline):
        node.passes.rng_epoch = epoch


def continue_epochs(pipeline: Pipeline[Any], before: Pipeline[Any]) -> None:
    """Number the epochs of a pipeline from where those of the pipeline ``before`` ended."""
    for node, ended in zip(_sources(pipeline), _sources(before), strict=True):
        node.passes.first_epoch = ended.passes.next_epoch
        node.passes.number_epochs()


def _sources(pipeline: Pipeline[Any]) -> Iterator[SourceNode]:
    return (node for node in pipeline._engine.nodes if isinstance(node, SourceNode))
