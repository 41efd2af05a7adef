"""The state of a pipeline: the engine's knowledge of its positions as a document and back; what it depends on.

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

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from spdl._reports import name_of
from spdl.pipeline._engine._passes import CapturedSource, Passes, Plan, SourceKind, rank_and_world
from spdl.pipeline._engine._source_state import has_state, snapshot_before
from spdl.pipeline._engine._stages._aggregate import AggregateStage
from spdl.pipeline._engine._stages._source import SourceNode
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
from spdl.resume._document import decode, describe_difference, encode
from spdl.resume._ranges import RangeChain, Ranges, numbers_to_json
from spdl.resume._values import ResumeError

if TYPE_CHECKING:
    from spdl.pipeline._engine._engine import Engine

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
        rank, world, length if type(length) is int else None, drop_last, seed if type(seed) is int else None
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
    """Describe sources and stages, each by a list of plain values. ``facts``: of all sources, in order."""
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


def make_resumable(
    config: PipelineConfig[Any], engine: Engine, approximate: list[str], seed: int, steps: Steps | None = None
) -> Resuming:
    """Make an engine that has not been started keep track of what a state needs.

    ``approximate``: what cannot be resumed exactly, and was accepted. A resumed run continues the numbers of ``steps``.
    """
    engine.ledger.track()
    sources = [
        _Source(node, prepare_source(node.iterable, node.passes))
        for node in engine.nodes
        if isinstance(node, SourceNode)
    ]
    for node in engine.nodes:
        if isinstance(node, AggregateStage):
            node.may_keep_newest = not node.aggregator.is_exact
            node.must_be_exact = not approximate
    return Resuming(
        engine, sources, fingerprint_of(config, [source.facts for source in sources], seed), approximate, steps
    )


class _Source(NamedTuple):
    node: SourceNode
    facts: SourceFacts


class Steps(Protocol):
    """Numbers the items that are read."""

    step: int  #: of the next one


class Resuming:
    """The state of one pipeline. It can be saved at any time, and loaded before the start."""

    def __init__(
        self,
        engine: Engine,
        sources: list[_Source],
        fingerprint: list[Any],
        approximate: list[str],
        steps: Steps | None = None,
    ) -> None:
        self._engine = engine
        self._sources = sources
        self._fingerprint = fingerprint
        self._approximate = approximate
        self._steps = steps
        self._loaded: dict[str, str] | None = None

    def state(self, *, was_started: bool) -> dict[str, str]:
        """Return the current state. Thread-safe."""
        if not was_started:
            if self._loaded is not None:
                return dict(self._loaded)
            for source in self._sources:
                source.node.passes.number_epochs()
        engine = self._engine
        with engine.lock:
            step = None if self._steps is None else self._steps.step
            captured = [source.node.passes.capture() for source in self._sources]
            parts = engine.ledger.done_parts()
            ended = engine.was_end_read and all(
                source.node.ended and not source.node.cancelled and not source.node.positions.pending
                for source in self._sources
            )
        documents = []
        for number, (source, positions) in enumerate(zip(self._sources, captured, strict=True)):
            own = {key[1:]: done for key, done in parts.items() if key[0] == number}
            documents.append(_source_document(source, positions, own, ended=ended))
        found: dict[str, Any] = {
            "kind": "pipeline",
            "fingerprint": self._fingerprint,
            "approximate": self._approximate,
            "sources": documents,
        }
        if step is not None:
            found["step"] = step
        rng_epoch = next((each.node.passes.rng_epoch for each in self._sources), None)
        if rng_epoch is not None:
            found["rng_epoch"] = rng_epoch + ended
        return encode(found)

    def number_epochs(self, first: int) -> None:
        """Number the epochs of sources without an ``epoch``, from ``first`` on. Call before the start."""
        for source in self._sources:
            source.node.passes.first_epoch = first
            source.node.passes.number_epochs()

    def load(self, state: object) -> None:
        """Continue from ``state``. Call before the start. Raises ``ResumeError``: nothing has changed."""
        document = decode(state, "this pipeline")
        if document["kind"] == "gathered":
            # Imported late: needed only if the number of ranks changes.
            from spdl.resume._elastic import document_for

            document = document_for(document, *self._rank_and_world())
        if document["kind"] != "pipeline":
            raise ResumeError(f"cannot load the state of a {document['kind']} into a pipeline")
        difference = describe_difference(document["fingerprint"], self._fingerprint)
        if difference is not None:
            raise ResumeError(
                f"cannot load the state of another pipeline: {difference}. Build the pipeline that saved it, with a "
                "source of the same length"
            )
        if len(document["sources"]) != len(self._sources):
            raise ResumeError(
                f"cannot load a state of {len(document['sources'])} sources into a pipeline of {len(self._sources)}"
            )
        plans = [
            _plans(number, source, saved)
            for number, (source, saved) in enumerate(zip(self._sources, document["sources"], strict=True))
        ]
        rng_epoch = document.get("rng_epoch")
        if rng_epoch is not None and type(rng_epoch) is not int:
            raise ResumeError(f"cannot load the state: its epoch of random numbers is {rng_epoch!r}; it is damaged")
        for source in self._sources:
            source.node.passes.number_epochs()  # the epochs that are limited are counted from the first one
        with self._engine.lock:
            for source, own in zip(self._sources, plans, strict=True):
                source.node.passes.resume(own)
                source.node.passes.rng_epoch = rng_epoch
        self._loaded = encode(document)
        step = document.get("step", 0)
        if self._steps is not None and type(step) is int:
            self._steps.step = step
        for source, own in zip(self._sources, plans, strict=True):
            _warn_if_it_takes_long(source, own)

    def _rank_and_world(self) -> tuple[int, int]:
        """Return the rank and world size of the sources that have them."""
        found = {(source.facts.rank, source.facts.world) for source in self._sources if source.facts.world > 1}
        if len(found) > 1:
            raise ResumeError(f"cannot load a gathered state: the sources have different ranks and worlds: {found}")
        return found.pop() if found else (0, 1)


# From the engine to the document


def _source_document(
    source: _Source, captured: CapturedSource, parts: dict[Any, list[tuple[int, int]]], *, ended: bool
) -> dict[str, Any]:
    facts = source.facts
    pending = sorted(captured.pending)
    plans = {plan.epoch: plan for plan in captured.plans}
    epochs: list[dict[str, Any]] = []
    for place, start in enumerate(captured.starts):
        number = captured.epoch + place
        plan = plans.pop(number, None)
        if plan is not None and (captured.entered is None or number > captured.entered):
            epochs.append(plan.document)
            continue
        is_last = place == len(captured.starts) - 1
        stop = captured.next_index if is_last else captured.starts[place + 1]
        if plan is not None:
            stop = max(stop, start + plan.high)
        epochs.append(_epoch_document(captured, number, range(start, stop), pending, parts, plan, ended=ended))
    epochs += [plan.document for number, plan in sorted(plans.items()) if number > epochs[-1]["epoch"]]
    found = {
        "kind": source.node.passes.kind,
        "rank": facts.rank,
        "world": facts.world,
        "length": facts.length,
        "lockstep": False,
        "epochs": epochs,
        "ended": ended,
    }
    return {**found, "drop_last": True} if facts.drop_last else found


def _epoch_document(
    captured: CapturedSource,
    number: int,
    indices: range,
    pending: list[int],
    parts: dict[Any, list[tuple[int, int]]],
    plan: Plan | None,
    *,
    ended: bool,
) -> dict[str, Any]:
    start = indices.start
    own = pending[bisect_left(pending, start) : bisect_left(pending, indices.stop)]
    holes = numbers_to_json(own, start)
    low = own[0] if own else indices.stop
    # At the end, the state is the one from which the next epoch begins.
    saved = snapshot_before(captured.snapshots, number + ended, low)
    iterator = None
    if saved is not None:
        iterator = {"position": saved.next_index - start, **saved.state}
    elif not ended and plan is not None and plan.iterator is not None and plan.iterator[0] <= low - start:
        iterator = {"position": plan.iterator[0], **plan.iterator[1]}
    found: dict[str, Any] = {}
    if plan is not None:
        found |= {key: plan.document[key] for key in ("todo", "dropped", "dropped_parts") if key in plan.document}
    return {
        **found,
        "epoch": number,
        "high": indices.stop - start,
        "holes": holes,
        "parts": {
            ".".join(map(str, (index - start, *path))): [list(each) for each in done]
            for (index, *path), done in parts.items()
            if index in indices
        },
        "iterator": iterator,
        **({"lost": lost} if (lost := captured.lost.get(number, 0)) else {}),
    }


# From the document to the engine


def _plans(number: int, source: _Source, saved: dict[str, Any]) -> list[Plan]:
    """Return the passes to continue, in order; at least one."""
    facts = source.facts
    if (saved["rank"], saved["world"]) != (facts.rank, facts.world) and not (
        saved["lockstep"] and saved["world"] == facts.world
    ):
        raise ResumeError(
            f"cannot load the state of rank {saved['rank']} of {saved['world']} in rank {facts.rank} of {facts.world}: "
            f"source {number} issues other positions there. Save what spdl.resume.gather() makes of the states of all "
            "ranks, and load that"
        )
    epochs = saved["epochs"]
    for one, other in pairwise(epochs):
        if other["epoch"] != one["epoch"] + 1:
            raise ResumeError(
                f"cannot load the state: source {number} goes from epoch {one['epoch']} to {other['epoch']}"
            )
    if not epochs:
        raise ResumeError(f"cannot load the state: source {number} has no epoch")
    if saved["ended"]:
        last = epochs[-1]
        epochs = [{"epoch": last["epoch"] + 1, "high": 0, "holes": [], "parts": {}, "iterator": last.get("iterator")}]
        if epochs[0]["iterator"] is not None:
            epochs[0]["iterator"] = {**epochs[0]["iterator"], "position": 0}
    return [_plan(number, source, epoch) for epoch in epochs]


def _plan(number: int, source: _Source, epoch: dict[str, Any]) -> Plan:
    passes = source.node.passes
    order = None
    if "todo" in epoch:
        order = RangeChain.from_json(epoch["todo"])
        if passes.kind != "indexed" or passes.get_at is None:
            raise ResumeError(
                f"cannot load a state of other ranks: source {number}, {name_of(source.node.iterable)}, does not find "
                "items by their global position. Use spdl.source.DistributedKeyedSampler"
            )
    length = source.facts.length
    if order is not None and length is not None and order and order[-1] >= length:
        raise ResumeError(f"cannot load the state: source {number} has {length} items, and it has position {order[-1]}")
    num_lost = epoch.get("lost", 0)
    if type(num_lost) is not int or num_lost < 0 or (num_lost and passes.refill is None):
        raise ResumeError(f"cannot load the state: source {number} has lost {num_lost!r} positions; it is damaged")
    own_length = len(order) if order is not None else length if source.facts.world == 1 else None
    if own_length is not None:
        own_length += num_lost
    if own_length is not None and (order is not None or passes.set_epoch is None) and epoch.get("high", 0) > own_length:
        raise ResumeError(
            f"cannot load the state: it says that source {number} has issued {epoch['high']} positions of an epoch of "
            f"{own_length}"
        )
    holes = Ranges.from_json(epoch.get("holes", []))
    parts = {
        tuple(map(int, key.split("."))): tuple(range(*each) for each in Ranges.from_json(done).pairs)
        for key, done in epoch.get("parts", {}).items()
    }
    iterator = epoch.get("iterator")
    saved = None
    if iterator is not None and passes.kind != "indexed":
        position = iterator.get("position")
        low = holes.pairs[0][0] if holes else epoch.get("high", 0)
        if type(position) is not int or not 0 <= position <= low or not _is_packed(iterator):
            raise ResumeError(f"cannot load the state: the iterator's state of source {number} is damaged")
        beside = iterator.get("iterator")
        if beside is not None and not _is_packed(beside):
            raise ResumeError(f"cannot load the state: the iterator's state of source {number} is damaged")
        saved = (position, {key: iterator[key] for key in ("state", "pickled", "iterator") if key in iterator})
    return Plan(
        epoch["epoch"],
        epoch.get("high", 0),
        tuple(range(start, stop) for start, stop in holes.pairs),
        parts,
        saved,
        order,
        epoch,
        num_lost,
    )


def _is_packed(state: Any) -> bool:
    return isinstance(state, dict) and ("state" in state or "pickled" in state)


def _warn_if_it_takes_long(source: _Source, plans: list[Plan]) -> None:
    passes = source.node.passes
    if passes.kind == "indexed":
        return
    # Items that are read and dropped, not items that are issued again.
    num = sum(plan.high - sum(map(len, plan.holes)) for plan in plans if plan.iterator is None)
    if not num:
        return
    name = name_of(source.node.iterable)
    reason = (
        f"no state of source {name} was saved before its oldest item in flight"
        if passes.kind == "stateful"
        else f"source {name} has neither __len__ and __getitem__ nor state_dict() and load_state_dict()"
    )
    warnings.warn(f"{reason}: to resume, it is iterated from its beginning, past {num} items", stacklevel=4)
