"""Makes a logged batch again.

The stages between two aggregates are a *segment*. A replay runs one pipeline per segment, with the items that the log
names and with their places, so that ops get the same random numbers. The order in which these pipelines emit does not
matter: their outputs are put into the logged order before they are given to the aggregator.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl._random import ItemPart, ItemPosition
from spdl._reports import name_of, shown
from spdl.pipeline._build import build_pipeline
from spdl.pipeline._engine._origin import path_of
from spdl.pipeline._engine._passes import rank_and_world
from spdl.pipeline._engine._source_state import has_state
from spdl.pipeline._engine._stages._source import SourceNode
from spdl.pipeline._exactness import first_mixing
from spdl.pipeline._state import kind_of
from spdl.pipeline.defs import (
    AggregateConfig,
    Aggregator,
    Collate,
    Merge,
    MergeConfig,
    Outputs,
    PathVariantsConfig,
    PipelineConfig,
    Region,
    SinkConfig,
    SourceConfig,
    split_regions,
)
from spdl.resume._document import describe_difference
from spdl.resume._values import ResumeError

from ._log import LoggedBatch, fingerprint_for_log

if TYPE_CHECKING:
    from spdl._random import ItemPlace

_EXHAUSTED: Final = object()


def replay_batch(config: PipelineConfig[Any], candidates: list[LoggedBatch], num_threads: int | None) -> Any:
    """Make the first batch of ``candidates`` that the pipeline of ``config`` has made.

    Raises:
        ResumeError: The batch was made by another pipeline, or cannot be made again.
    """
    segments = _split(config)
    engine = build_pipeline(config, num_threads=1)._engine  # never started: for the fingerprint
    differences = [
        describe_difference(logged.fingerprint, fingerprint_for_log(config, engine, logged.seed))
        for logged in candidates
    ]
    if None not in differences:
        raise ResumeError(
            f"cannot replay step {candidates[0].step}: the log is of another pipeline: {differences[0]}. Give the "
            "pipeline that wrote it, with a source of the same length"
        )
    logged = candidates[differences.index(None)]
    replay = _Replay(config.src, segments, logged, num_threads)
    (value,) = replay.make([logged.place], len(segments) - 1)
    return value


class _Segment(NamedTuple):
    """An aggregate (none in the first segment) and the stages behind it."""

    aggregate: AggregateConfig[Any] | None
    stages: list[Any]


def _split(config: PipelineConfig[Any]) -> list[_Segment]:
    """Return the segments of a pipeline. Raises ``ResumeError``: the pipeline cannot be replayed."""
    for each in config._walk():
        _check(each, each is not config)
    segments = [_Segment(None, [])]
    for stage in config.pipes:
        if isinstance(stage, AggregateConfig):
            segments.append(_Segment(stage, []))
        else:
            segments[-1].stages.append(stage)
    return segments


def _check(config: PipelineConfig[Any], is_merged: bool) -> None:
    for stage in split_regions(config.pipes):
        if isinstance(stage, Region) and (mixing := first_mixing(stage.stages)) is not None:
            raise ResumeError(
                f"cannot replay a batch: a region with stage {mixing!r}, which gives aggregates or several outputs, "
                "does not tell their order. Put that stage before or behind the region"
            )
        if isinstance(stage, PathVariantsConfig) and _has_aggregate(stage):
            raise ResumeError(
                f"cannot replay a batch: there is an aggregate in a path of {stage.name!r}. Put it behind the path "
                "variants"
            )
    for stage in config.pipes:
        if isinstance(stage, AggregateConfig) and not stage.op.is_exact:
            raise ResumeError(
                f"cannot replay a batch: {type(stage.op).__qualname__} of stage {stage.name!r} may hold items back "
                "for a later output, so that the log does not tell which are in a batch. If it holds none back, "
                "declare is_exact = True in the class; if it does, return Outputs with inputs, and declare it too"
            )
        if isinstance(stage, AggregateConfig) and is_merged:
            raise ResumeError(
                f"cannot replay a batch: {stage.name!r} aggregates before a merge. Put it behind the merge"
            )


def _has_aggregate(variants: PathVariantsConfig[Any]) -> bool:
    return any(
        isinstance(stage, AggregateConfig) or (isinstance(stage, PathVariantsConfig) and _has_aggregate(stage))
        for path in variants.paths
        for stage in path
    )


def _sources(src: SourceConfig[Any] | MergeConfig) -> list[SourceConfig[Any]]:
    """Return the sources, in the order of their numbers."""
    if isinstance(src, SourceConfig):
        return [src]
    return [source for sub in src.pipeline_configs for source in _sources(sub.src)]


def _replaced(src: SourceConfig[Any] | MergeConfig, values: Iterator[list[Any]]) -> Any:
    """Return ``src`` with other values in place of its sources."""
    if isinstance(src, SourceConfig):
        return SourceConfig(next(values))
    return Merge([PipelineConfig(_replaced(sub.src, values), sub.pipes, sub.sink) for sub in src.pipeline_configs])


class _Replay:
    def __init__(
        self,
        src: SourceConfig[Any] | MergeConfig,
        segments: list[_Segment],
        logged: LoggedBatch,
        num_threads: int | None,
    ) -> None:
        self.src = src
        self.sources = _sources(src)
        self.segments = segments
        self.logged = logged
        self.num_threads = num_threads

    def error(self, reason: str) -> ResumeError:
        return ResumeError(f"cannot replay step {self.logged.step}: {reason}")

    def make(self, wanted: Sequence[ItemPlace], level: int) -> list[Any]:
        """Return the outputs of the segment with this number at these places, in their order."""
        segment = self.segments[level]
        unwrapped = [_unwrap(place) for place in wanted]
        bases = [base for base, _ in unwrapped]
        paths = [path for _, path in unwrapped]
        if segment.aggregate is not None:
            values = self.aggregate(segment.aggregate, bases, level)
            return self.run(SourceConfig(()), segment.stages, values, bases, paths)
        return self.run(self.src, segment.stages, self.fetch(bases), bases, paths)

    def aggregate(self, config: AggregateConfig[Any], bases: Sequence[ItemPlace], level: int) -> list[Any]:
        members: list[ItemPlace] = []
        for base in bases:
            if isinstance(base, ItemPosition | ItemPart):
                raise self.error(f"the log has a single item where stage {config.name!r} makes aggregates")
            members += base
        values = iter(self.make(members, level - 1))
        found = []
        for base in bases:
            assert isinstance(base, tuple)
            found.append(self.collect(config, [next(values) for _ in base]))
        return found

    def collect(self, config: AggregateConfig[Any], values: list[Any]) -> Any:
        """Give the aggregator the items of one output, in their order."""
        op: Aggregator[Any, Any] = config.op
        if type(op) is Collate:
            return values
        op = copy.deepcopy(op)
        outputs: list[Any] = []
        for value in values:
            outputs += _outputs(op.accumulate(value))
        outputs += _outputs(op.flush())
        if len(outputs) != 1:
            raise self.error(
                f"{type(op).__qualname__} of stage {config.name!r} makes {len(outputs)} outputs of the items of one. "
                "Aggregators that split items, or whose outputs depend on items in other outputs, cannot be replayed"
            )
        return outputs[0]

    def run(
        self,
        src: SourceConfig[Any] | MergeConfig,
        stages: list[Any],
        values: list[Any],
        bases: Sequence[ItemPlace],
        paths: Sequence[tuple[int, ...]],
    ) -> list[Any]:
        """Run stages on values with these places. Of calls with several outputs, take those that ``paths`` name.

        The values replace the sources in ``src``; if it is a merge, those sources that the places name.
        """
        is_merge = isinstance(src, MergeConfig)
        if not stages and not is_merge:
            if any(paths):
                raise self.error(
                    "the log has parts of an item where no stage makes any; an aggregator that splits items cannot be "
                    "replayed"
                )
            return values
        if not values:
            return []
        # By the number of the source, and that of an item there: the index in ``values``.
        indices: list[list[int]] = [[] for _ in _sources(src)]
        for index, base in enumerate(bases):
            indices[base.source if is_merge and isinstance(base, ItemPosition) else 0].append(index)
        given = ([values[index] for index in own] for own in indices)
        config: PipelineConfig[Any] = PipelineConfig(_replaced(src, given), list(stages), SinkConfig(len(values)))
        pipeline = build_pipeline(config, num_threads=self.num_threads, seed=self.logged.seed)
        engine = pipeline._engine
        engine.judges_stages = False  # a single failed call is reported below
        for node in engine.nodes:
            if isinstance(node, SourceNode):
                node.passes.given = [bases[index] for index in indices[node.number]]
        engine.ledger.track()
        for source, own in enumerate(indices):
            for number, index in enumerate(own):
                for depth, part in enumerate(paths[index]):
                    others = range(part), range(part + 1, sys.maxsize)
                    engine.ledger.rest[source, number, *paths[index][:depth]] = others
        found: list[Any] = [_EXHAUSTED] * len(values)
        num_left = len(values)
        with pipeline.auto_stop():
            while num_left:
                value, taken = pipeline._take(None)
                if isinstance(value, EOFError):
                    break
                path = path_of(taken[1])
                pipeline._commit(taken)
                index = 0 if path is None else indices[path[0]][path[1]]
                if path is None or found[index] is not _EXHAUSTED or path[2:] != paths[index]:
                    raise self.error(
                        f"the stages make other outputs of {shown(bases[index])} than the log has. If an aggregator "
                        "splits items or makes several outputs at once, its batches cannot be replayed"
                    )
                found[index] = value
                num_left -= 1
        if num_left:
            missing = bases[next(index for index, value in enumerate(found) if value is _EXHAUSTED)]
            failures = [failed for stage in pipeline.stats().stages for failed in stage.failures]
            raise self.error(
                f"the stages make no output of {shown(missing)}. "
                + ("A call has failed" if failures else "It was dropped, so an op depends on more than its item")
            ) from (failures[0].error if failures else None)
        return found

    # -- items of the source

    def fetch(self, bases: Sequence[ItemPlace]) -> list[Any]:
        """Return the source items at these positions."""
        for base in bases:
            if not isinstance(base, ItemPosition):
                raise self.error("the log has an aggregate where no stage makes any")
        positions: list[ItemPosition] = list(bases)  # type: ignore[arg-type] # as was just checked
        found: dict[ItemPosition, Any] = {}
        for number in dict.fromkeys(each.source for each in positions):
            own = [each for each in positions if each.source == number]
            if not 0 <= number < len(self.sources):
                raise self.error(f"the log has items of source {number}, and there are {len(self.sources)} sources")
            found.update(zip(own, self.fetch_from(self.sources[number].source, own), strict=True))
        return [found[each] for each in positions]

    def fetch_from(self, source: Any, positions: list[ItemPosition]) -> list[Any]:
        """Return the items of one source at these positions."""
        set_epoch = getattr(source, "set_epoch", None)
        if not callable(set_epoch):
            epoch = max((each.epoch for each in positions), default=0)
            if epoch > 0 and has_state(source):
                raise self.error(
                    f"source {name_of(source)} has a state and no set_epoch(), so its order in epoch {epoch} is not "
                    "known. Use a source with set_epoch()"
                )
            return self.fetch_epoch(source, [each.position for each in positions])
        old = getattr(source, "epoch", None)
        found: dict[ItemPosition, Any] = {}
        try:
            for epoch in dict.fromkeys(each.epoch for each in positions):
                own = [each for each in positions if each.epoch == epoch]
                set_epoch(epoch)
                values = self.fetch_epoch(source, [each.position for each in own])
                found.update(zip(own, values, strict=True))
        finally:
            if type(old) is int:
                set_epoch(old)
        return [found[each] for each in positions]

    def fetch_epoch(self, source: Any, positions: list[int]) -> list[Any]:
        """Return the items at global positions of the epoch that the source is in."""
        at_global = getattr(source, "at_global", None)
        if callable(at_global):
            return self.looked_up(source, at_global, positions)
        rank, world = rank_and_world(source)
        own = [(position - rank) // world for position in positions]
        if [rank + world * each for each in own] != positions:
            raise self.error(f"the batch is of another rank than source {name_of(source)}. Give that of its rank")
        if kind_of(source) == "indexed":
            return self.looked_up(source, source.__getitem__, own)
        if not isinstance(source, Iterable):
            raise self.error(f"source {name_of(source)} is async. Give a source that can be iterated here")
        iterator = iter(source)
        if iterator is source:
            raise self.error(
                f"source {name_of(source)} is an iterator, which cannot begin again. Give a source that can be "
                "iterated anew"
            )
        wanted = set(own)
        found: dict[int, Any] = {}
        for position, value in enumerate(iterator):
            if position in wanted:
                found[position] = value
                if len(found) == len(wanted):
                    break
        if len(found) < len(wanted):
            raise self.error(f"source {name_of(source)} has no item {min(wanted - found.keys())}")
        return [found[each] for each in own]

    def looked_up(self, source: Any, get: Callable[[int], Any], positions: list[int]) -> list[Any]:
        try:
            return [get(position) for position in positions]
        except LookupError as exc:
            raise self.error(f"source {name_of(source)} does not have all items: {exc}") from exc


def _unwrap(place: ItemPlace) -> tuple[ItemPlace, tuple[int, ...]]:
    """Return the input of a segment, and the number of the output at each call with several outputs."""
    numbers: list[int] = []
    while isinstance(place, ItemPart):
        numbers.append(place.number)
        place = place.of
    return place, tuple(reversed(numbers))


def _outputs(result: Any) -> list[Any]:
    if isinstance(result, Outputs):
        return list(result.values)
    return [] if result is None else [result]
