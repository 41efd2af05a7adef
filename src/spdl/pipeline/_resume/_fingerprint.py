"""What a state depends on: how a source is resumed, and the fingerprint, which must be equal to load the state.

A source is resumed depending on its methods and attributes:

- ``__len__`` and ``__getitem__``: the items are found by position. ``for`` must give the same items in the same order.
  ``iterate_from(position)``, if defined, is a faster way to get the items from a position on.
- ``state_dict()`` and ``load_state_dict()``, of the source or of its iterators: its states are saved at intervals.
- ``set_epoch(epoch)``: called before each pass. ``epoch``: the number of the next pass.
- ``rank`` and ``world_size`` (or ``num_replicas``): the source gives a share of an order that all ranks agree on: of
  its global positions ``rank``, ``rank + world_size``, and so on.
- ``num_global``: number of items of all ranks in an epoch; ``drop_last``: whether the last incomplete round is dropped;
  ``at_global(position)``: the item at a global position.
- ``seed``: must be the same where the state is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from spdl._reports import name_of
from spdl.pipeline._engine._passes import Passes, SourceKind, rank_and_world
from spdl.pipeline._engine._source_state import has_state
from spdl.pipeline.defs import (
    AggregateConfig,
    Collate,
    ExecutorConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    PlacementConfig,
    SourceConfig,
)

#: torch's ``Dataset`` defines a ``__getitem__`` that subclasses without their own inherit.
_TORCH_DEFAULT: Final = ("torch.utils.data.dataset", "Dataset.__getitem__")


class SourceFacts(NamedTuple):
    """What a state says about a source, besides its positions."""

    rank: int
    world: int
    length: int | None  #: of an epoch, of all ranks
    drop_last: bool
    seed: int | None


def prepare_source(source: Any, passes: Passes) -> SourceFacts:
    """Find out how ``source`` is resumed, and set up its passes."""
    passes.kind = kind_of(source)
    passes.is_watched = passes.kind != "indexed"
    rank, world = rank_and_world(source)
    length = None
    if world > 1:
        length = getattr(source, "num_global", None)
    elif passes.kind == "indexed":
        length = len(source)
    at_global = getattr(source, "at_global", None)
    if callable(at_global):
        passes.get_at = at_global
    elif passes.kind == "indexed" and world == 1:
        passes.get_at = source.__getitem__
    drop_last = world > 1 and getattr(source, "drop_last", False) is True
    seed = getattr(source, "seed", None)
    return SourceFacts(
        rank,
        world,
        length if type(length) is int else None,
        drop_last,
        seed if type(seed) is int else None,
    )


def kind_of(source: Any) -> SourceKind:
    of = type(source)
    if not hasattr(of, "__iter__"):
        return "iterable"
    get = getattr(of, "__getitem__", None)
    where = getattr(get, "__module__", None), getattr(get, "__qualname__", None)
    if get is not None and where != _TORCH_DEFAULT and hasattr(of, "__len__") and not hasattr(of, "keys"):
        return "indexed"
    return "stateful" if has_state(source) else "iterable"


def fingerprint_of(config: PipelineConfig[Any], facts: Sequence[SourceFacts], seed: int) -> list[Any]:
    """Describe sources and stages, each by a list of plain values.

    Args:
        config: Description of the pipeline.
        facts: Facts of all sources, in order.
        seed: Seed of the random numbers of ops; part of the description of each stage with ``rng``.
    """
    of_sources = iter(facts)

    def describe(pipeline: PipelineConfig[Any], merged: list[list[Any]]) -> list[Any]:
        src = pipeline.src
        if isinstance(src, MergeConfig):
            begin = ["merge", None if src.op is None else name_of(src.op), *merged]
        else:
            begin = _source(src, next(of_sources))
        return [begin, *_stages(pipeline.pipes, seed)]

    return config._fold(describe)


def _source(src: SourceConfig[Any], own: SourceFacts) -> list[Any]:
    found: list[Any] = ["source", type(src.source).__name__, own.length]
    if own.seed is not None:
        found.append(f"seed {own.seed}")
    if src.continuous:
        found.append("continuous")
    if getattr(src.source, "refill", False) is True:
        found.append("refill")
    return found


def _stages(stages: Sequence[Any], seed: int) -> list[Any]:
    return [_stage(stage, seed) for stage in stages]


def _stage(stage: Any, seed: int) -> list[Any]:
    if isinstance(stage, PipeConfig):
        found = ["pipe", stage.name, stage._kind] if stage._kind != "sync" else ["pipe", stage.name]
        return found if stage._rng is None else [*found, f"rng {stage._rng}", f"seed {seed}"]
    if isinstance(stage, AggregateConfig):
        return ["aggregate", _aggregator(stage.op), stage.drop_last]
    if isinstance(stage, PathVariantsConfig):
        kind = "batched path_variants" if stage.batched else "path_variants"
        return [kind, stage.name, *(_stages(path, seed) for path in stage.paths)]
    if isinstance(stage, PlacementConfig):
        return ["to", "workers" if isinstance(stage.target, ExecutorConfig) else "main"]
    return [stage.name]


def _aggregator(op: Any) -> Any:
    if type(op) is Collate:
        return op.num_items
    # The repr of this package's aggregators shows their arguments. A user's repr may contain an address or items.
    return repr(op) if type(op).__module__.startswith("spdl.") else type(op).__qualname__
