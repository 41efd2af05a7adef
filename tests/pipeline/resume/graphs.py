"""Random resumable pipelines: what they are, what they must give, and how they are built.

An item is the tuple ``(source, epoch, position)``; the k-th output of a generator for ``item`` is ``(*item, k)``. What
an op does with an item depends on the item alone, so a run that goes on elsewhere does the same.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, TypeAlias

from spdl.pipeline import Pipeline, TaskHook, build_pipeline
from spdl.pipeline.batching import CostBudget, LengthBuckets, MaxWait, PackSequences
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Aggregator,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)
from spdl.source import KeyedMix
from tests.pipeline.regions.threads import ThreadWorkersConfig

__all__ = ["Agg", "Graph", "InRegion", "Op", "Paths", "Source", "build", "describe", "executor", "expected", "leaves"]

Item: TypeAlias = tuple[int, ...]
SourceKind: TypeAlias = Literal["list", "indexed", "mix", "stateful", "iterator", "iterable", "async"]
#: Runs the calls of all stages with an executor, in ``executor()``; without, they have none.
_executors: list[ThreadPoolExecutor] = []


@dataclass(frozen=True)
class Source:
    number: int
    kind: SourceKind
    sizes: tuple[int, ...]  # of the epochs, repeated
    stages: tuple[Any, ...] = ()  # of its sub-pipeline


@dataclass(frozen=True)
class Op:
    """A call or a generator on items, or, behind an aggregate, a call that keeps batches as they are."""

    id: int
    kind: Literal["call", "generator", "batch"]
    lane: Literal["sync", "async", "executor"]
    concurrency: int
    order: Literal["completion", "input"]
    outcomes: tuple[Literal["ok", "drop", "fail"], ...] = ("ok",)
    fanout: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Paths:
    id: int
    paths: tuple[tuple[Op, ...], ...]
    batched: bool = False


@dataclass(frozen=True)
class InRegion:
    """Calls in a region, whose workers are threads or processes."""

    stages: tuple[Op, ...]
    num_workers: int
    input_size: int
    output_size: int
    in_processes: bool = False


@dataclass(frozen=True)
class Agg:
    kind: Literal["collate", "users", "budget", "buckets", "waiting", "packing"]
    size: int
    drop_last: bool = False


@dataclass(frozen=True)
class Graph:
    sources: tuple[Source, ...]
    stages: tuple[Any, ...]
    continuous: bool
    sink: int
    num_threads: int
    hooks: bool
    keeps_order: bool


def pick(item: object, salt: int, among: tuple[Any, ...]) -> Any:
    """One of ``among``, by the item."""
    return among[zlib.crc32(repr((item, salt)).encode()) % len(among)]


@contextmanager
def executor() -> Iterator[None]:
    """Around everything that builds and reads pipelines with an executor."""
    with ThreadPoolExecutor(max_workers=2) as made:
        _executors.append(made)
        yield
        _executors.remove(made)


# -- what must come out


def expected(graph: Graph, epoch: int) -> list[Item]:
    """The leaves of one epoch: source by source, in order."""
    found: list[Item] = []
    for source in graph.sources:
        if source.kind == "mix":
            items: list[Item] = list(mixed(source, epoch))
        else:
            size = source.sizes[epoch % len(source.sizes)]
            items = [(source.number, epoch, position) for position in range(size)]
        found += _through(source.stages, items)
    return _through(graph.stages, found)


def _through(stages: tuple[Any, ...], items: list[Item]) -> list[Item]:
    for stage in stages:
        if isinstance(stage, Op):
            items = [output for item in items for output in _outputs(stage, item)]
        elif isinstance(stage, InRegion):
            items = _through(stage.stages, items)
        elif isinstance(stage, Paths) and not stage.batched:
            items = [output for item in items for output in _through(pick(item, stage.id, stage.paths), [item])]
        elif isinstance(stage, Agg) and stage.drop_last:
            items = items[: len(items) - len(items) % stage.size]
        elif isinstance(stage, Agg) and stage.kind == "packing":
            items = [item for item in items for _ in range(num_tokens(item))]
    return items


def _outputs(op: Op, item: Item) -> list[Item]:
    if op.kind == "batch":
        return [item]
    if op.kind == "call":
        return [item] if pick(item, op.id, op.outcomes) == "ok" else []
    found = []
    for k in range(pick(item, op.id, op.fanout)):
        outcome = pick((item, k), op.id, op.outcomes)
        if outcome == "fail":
            break
        if outcome == "ok":
            found.append((*item, k))
    return found


def num_tokens(item: Item) -> int:
    return int(pick(item, 0, (1, 2, 3, 7)))


def leaves(value: Any) -> Iterator[Item]:
    """The items in an output of a pipeline, however they are nested."""
    if hasattr(value, "tokens"):
        value = value.tokens[: value.num_tokens]
    if isinstance(value, list):
        for each in value:
            yield from leaves(each)
    else:
        yield value


# -- sources


class Listed:
    """Its items by position; iterating it gives the same."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def items(self) -> list[Item]:
        source = self.source
        size = source.sizes[self.epoch % len(source.sizes)]
        return [(source.number, self.epoch, position) for position in range(size)]


class Indexed(Listed):
    def __len__(self) -> int:
        return len(self.items())

    def __getitem__(self, position: int) -> Item:
        return self.items()[position]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items())


def mixed(source: Source, epoch: int = 0) -> KeyedMix[Item]:
    """Two datasets, of which one has twice the weight; the items of an epoch may repeat. All epochs have one size."""
    length = max(1, source.sizes[0])
    parts = [[(source.number, part, position) for position in range(length)] for part in range(2)]
    return KeyedMix(parts, [2, 1], at_end="repeat", length=length, seed=source.number, epoch=epoch)


class Iterable(Listed):
    def __iter__(self) -> Iterator[Item]:
        yield from self.items()


class Async(Listed):
    async def __aiter__(self) -> AsyncIterator[Item]:
        for item in self.items():
            yield item


class Stateful:
    """Like a dataset that has a state and counts its epochs itself: it has neither positions nor ``set_epoch``."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.epoch = 0
        self.position = 0
        self.is_resumed = False

    def __iter__(self) -> Iterator[Item]:
        if not self.is_resumed:
            self.position = 0
        self.is_resumed = False
        while self.position < self.source.sizes[self.epoch % len(self.source.sizes)]:
            self.position += 1
            yield (self.source.number, self.epoch, self.position - 1)
        self.epoch += 1
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]
        self.is_resumed = True


class StatefulIterators(Listed):
    def __iter__(self) -> Iterator[Item]:
        return _StatefulIterator(self.items())


class _StatefulIterator(Iterator[Item]):
    def __init__(self, items: list[Item]) -> None:
        self.rest = items

    def __next__(self) -> Item:
        if not self.rest:
            raise StopIteration
        item, *self.rest = self.rest
        return item

    def state_dict(self) -> tuple[Item, ...]:
        return tuple(self.rest)  # JSON would make lists of it

    def load_state_dict(self, state: tuple[Item, ...]) -> None:
        self.rest = list(state)


_SOURCES: dict[str, Callable[[Source], Any]] = {
    "list": lambda source: Listed(source).items(),
    "indexed": Indexed,
    "mix": mixed,
    "stateful": Stateful,
    "iterator": StatefulIterators,
    "iterable": Iterable,
    "async": Async,
}


# -- the pipeline


class Failed(Exception):
    """Raised by an op whose description says so."""


def build(graph: Graph) -> Pipeline[Any]:
    """Build a resumable pipeline of it, with sources and aggregators of its own."""
    config, options = describe(graph)
    return build_pipeline(config, **options)


def describe(graph: Graph) -> tuple[PipelineConfig[Any], dict[str, Any]]:
    """The pipeline, and the options of its build."""
    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(
            SourceConfig(_SOURCES[source.kind](source), graph.continuous), _stages(source.stages), SinkConfig(1)
        )
        for source in graph.sources
    ]
    src = subs[0].src if len(subs) == 1 and not graph.sources[0].stages else Merge(subs)
    return PipelineConfig(src, _stages(graph.stages), SinkConfig(graph.sink)), {
        "num_threads": graph.num_threads,
        "task_hook_factory": (lambda _: [_Hook()]) if graph.hooks else None,
        "resumable": True,
        "max_failures": Fraction(1),  # never trips, and lets all calls of a stage fail
    }


class _Hook(TaskHook):
    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


def _stages(stages: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for stage in stages:
        if isinstance(stage, Op):
            found.append(_pipe(stage))
        elif isinstance(stage, InRegion):
            workers = ProcessPoolExecutorConfig if stage.in_processes else ThreadWorkersConfig
            found.append(PlacementConfig(workers(stage.num_workers), buffer_size=stage.input_size))
            found += [_pipe(op, in_region=True) for op in stage.stages]
            found.append(PlacementConfig(MAIN_PROCESS, buffer_size=stage.output_size))
        elif isinstance(stage, Paths):
            found.append(
                PathVariants(_router(stage), [_stages(path) for path in stage.paths], f"{stage.id}", stage.batched)
            )
        else:
            if stage.kind == "packing":
                found.append(Pipe(_tokens, name="tokens"))
            found.append(Aggregate(_aggregator(stage), drop_last=stage.drop_last))
    return found


def _tokens(item: Item) -> list[Item]:
    return [item] * num_tokens(item)


def _router(stage: Paths) -> Callable[[Any], Any]:
    among = tuple(range(len(stage.paths)))
    if stage.batched:
        return lambda batch: [pick(item, stage.id, among) for item in batch]
    return lambda item: pick(item, stage.id, among)


def _aggregator(stage: Agg) -> Any:
    size = stage.size
    if stage.kind == "collate":
        return size
    if stage.kind == "users":
        return _Reversed(size)
    if stage.kind == "budget":
        return CostBudget(2 * size, cost=_length, oversized="alone")
    if stage.kind == "buckets":
        return LengthBuckets([1, 2], size, length=_length)
    if stage.kind == "waiting":
        return MaxWait(size, float("inf"))
    return PackSequences(size + 1, open_bins=2, too_long="split", pad_id=0)


def _length(item: Any) -> int:
    return int(pick(item, 1, (1, 2, 3)))


class _Reversed(Aggregator[Any, list[Any]]):
    """A user's aggregator that holds nothing back."""

    is_exact = True

    def __init__(self, size: int) -> None:
        self.size = size
        self.items: list[Any] = []

    def accumulate(self, item: Any) -> list[Any] | None:
        self.items.append(item)
        return self.flush() if len(self.items) == self.size else None

    def flush(self) -> list[Any] | None:
        items, self.items = self.items, []
        return items or None


def _call(op: Op, item: Any) -> Any:
    outcome = "ok" if op.kind == "batch" else pick(item, op.id, op.outcomes)
    if outcome == "fail":
        raise Failed(item)
    return item if outcome == "ok" else None


async def _call_async(op: Op, item: Any) -> Any:
    return _call(op, item)


def _pipe(op: Op, *, in_region: bool = False) -> Any:
    def generate(item: Item) -> Iterator[Item | None]:
        for k in range(pick(item, op.id, op.fanout)):
            outcome = pick((item, k), op.id, op.outcomes)
            if outcome == "fail":
                raise Failed(item)
            yield (*item, k) if outcome == "ok" else None

    async def generate_async(item: Item) -> AsyncIterator[Item | None]:
        for output in generate(item):
            yield output

    if op.kind == "generator":
        function: Any = generate_async if op.lane == "async" else generate
    else:
        function = partial(_call_async if op.lane == "async" else _call, op)  # it pickles, for worker processes
    return Pipe(
        function,
        name=f"op{op.id}",
        concurrency=op.concurrency,
        output_order=op.order,
        executor=_executors[-1] if op.lane == "executor" and _executors and not in_region else None,
    )
