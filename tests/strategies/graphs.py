"""Random graphs: plain descriptions from which both the model and the real pipeline are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from .items import Token, Value, label_of, number_of, positions_of

__all__ = [
    "Agg",
    "Disagg",
    "Graph",
    "Merged",
    "Op",
    "Outcome",
    "Paths",
    "Source",
    "Stage",
    "Sub",
    "graphs",
    "stages_of",
    "sources_of",
    "steps",
]

Outcome: TypeAlias = Literal["ok", "none", "error"]
Lane: TypeAlias = Literal["sync", "async", "executor"]


@dataclass(frozen=True)
class Op:
    """A pipe. ``call``: one output; ``split``: a list; ``map``: list to list; ``generator``: one yield per child."""

    id: int
    shape: Literal["call", "split", "map", "generator"]
    lane: Lane = "sync"
    concurrency: int = 1
    order: Literal["completion", "input"] = "completion"
    plan: tuple[Outcome, ...] = ("ok",)
    fanout: tuple[int, ...] = (1,)
    max_failures: int | Fraction | None = None

    @property
    def keeps_order(self) -> bool:
        return self.concurrency == 1 or self.order == "input"


@dataclass(frozen=True)
class Agg:
    """An aggregate of ``size``: the built-in one, or a user's ``Aggregator``."""

    id: int
    size: int
    is_users: bool = False
    drop_last: bool = False


@dataclass(frozen=True)
class Disagg:
    id: int


@dataclass(frozen=True)
class Paths:
    """Path variants; the router goes by ``number_of``."""

    id: int
    paths: tuple[tuple[Stage, ...], ...]
    is_async: bool = False
    batched: bool = False


Stage: TypeAlias = "Op | Agg | Disagg | Paths"


@dataclass(frozen=True)
class Source:
    """A source. ``sizes``: the numbers of items of the epochs, repeated; without ``continuous`` only the first counts.

    ``error_at``: the index at which it raises instead of giving the item.
    """

    id: int
    kind: Literal["generator", "iterator", "async"] = "generator"
    sizes: tuple[int, ...] = (3,)
    continuous: bool = False
    error_at: int | None = None


@dataclass(frozen=True)
class Merged:
    """Several sub-pipelines. ``drain``: a user's merge op that reads one input after the other."""

    subs: tuple[Sub, ...]
    drain: bool = False


@dataclass(frozen=True)
class Sub:
    src: Source | Merged
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class Graph:
    src: Source | Merged
    stages: tuple[Stage, ...]
    sink: int = 2
    num_threads: int = 2
    max_failures: int | Fraction = -1
    hooks: bool = False

    @property
    def continuous(self) -> bool:
        return sources_of(self.src)[0].continuous


def sources_of(src: Source | Merged) -> list[Source]:
    """The stages in the order in which the engine numbers them."""
    if isinstance(src, Source):
        return [src]
    return [source for sub in src.subs for source in sources_of(sub.src)]


def stages_of(where: Graph | Sub | tuple[Stage, ...]) -> list[Stage]:
    """All stages, including those of sub-pipelines and paths."""
    found: list[Stage] = []
    if not isinstance(where, tuple):
        if isinstance(where.src, Merged):
            for sub in where.src.subs:
                found += stages_of(sub)
        where = where.stages
    for stage in where:
        found.append(stage)
        if isinstance(stage, Paths):
            for path in stage.paths:
                found += stages_of(path)
    return found


def steps(op: Op, value: Value) -> list[tuple[Outcome, Value]]:
    """The steps of ``op`` on ``value``. A generator may have any number of steps; other ops have one."""
    number = number_of(value)

    def planned(k: int) -> Outcome:
        return op.plan[(number + k) % len(op.plan)]

    if op.shape == "generator":
        taken: list[tuple[Outcome, Value]] = []
        for k in range(op.fanout[number % len(op.fanout)]):
            taken.append((planned(k), Token((op.id, label_of(value), k), positions_of(value), number + k)))
            if taken[-1][0] == "error":
                break
        return taken
    result: Value
    if op.shape == "split":
        count = op.fanout[number % len(op.fanout)]
        # An empty list would end the trace of the item inside disaggregate; it has a test of its own.
        result = [Token((op.id, label_of(value), k), positions_of(value), number + k) for k in range(max(1, count))]
    elif op.shape == "map":
        assert isinstance(value, list)
        kept = [one for one in value if op.fanout[number_of(one) % len(op.fanout)]]
        result = [Token((op.id, label_of(one)), positions_of(one), number_of(one)) for one in kept]
    else:
        result = Token((op.id, label_of(value)), positions_of(value), number)
    return [(planned(0), result)]


# -- strategies

_OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(["ok", "ok", "ok", "none", "error"])
_PLANS = st.one_of(st.just(("ok",)), st.lists(_OUTCOMES, min_size=1, max_size=5).map(tuple))
_PIPELINE_LIMITS: st.SearchStrategy[int | Fraction] = st.sampled_from([-1, -1, 0, 1, 4, Fraction(1, 3)])
_FANOUTS = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)


class _Ids:
    def __init__(self) -> None:
        self.next = 100  # sources count from 0, so labels of sources and stages differ

    def __call__(self) -> int:
        self.next += 1
        return self.next


@st.composite
def _ops(draw: st.DrawFn, ids: _Ids, shape: str | None = None, limits: bool = False) -> Op:
    shape = shape or draw(st.sampled_from(["call", "call", "generator"]))
    lane: Lane = draw(st.sampled_from(["sync", "sync", "async", "executor"]))
    concurrency = draw(st.sampled_from([1, 1, 2, 3, 5]))
    order = "completion"
    if not (shape == "generator" and lane == "async"):
        order = draw(st.sampled_from(["completion", "input"]))
    limit = draw(st.sampled_from([None, None, -1, 0, 1, 3, Fraction(1, 2)])) if limits else None
    return Op(ids(), shape, lane, concurrency, order, draw(_PLANS), draw(_FANOUTS), limit)  # type: ignore[arg-type]


@st.composite
def _stage_lists(draw: st.DrawFn, ids: _Ids, depth: int, least: int, most: int, limits: bool) -> tuple[Stage, ...]:
    found: list[Stage] = []
    for _ in range(draw(st.integers(least, most))):
        kind = draw(st.sampled_from(["op", "op", "op", "agg", "split", "paths", "batched"]))
        if kind in ("paths", "batched") and depth == 0:
            kind = "op"
        if kind == "op":
            found.append(draw(_ops(ids, None, limits)))
        elif kind == "agg":
            found.append(Agg(ids(), draw(st.integers(1, 4)), draw(st.booleans()), draw(st.booleans())))
            if draw(st.booleans()):
                found.append(Disagg(ids()))
        elif kind == "split":
            found += [draw(_ops(ids, "split", limits)), Disagg(ids())]
        elif kind == "paths":
            paths = draw(st.lists(_stage_lists(ids, depth - 1, 1, 2, limits), min_size=1, max_size=3))
            found.append(Paths(ids(), tuple(paths), draw(st.booleans())))
        else:
            found.append(Agg(ids(), draw(st.integers(1, 4))))
            found.append(draw(_batched(ids, depth - 1, limits)))
            if draw(st.booleans()):
                found.append(Disagg(ids()))
    return tuple(found)


@st.composite
def _batched(draw: st.DrawFn, ids: _Ids, depth: int, limits: bool) -> Paths:
    paths: list[tuple[Stage, ...]] = []
    for _ in range(draw(st.integers(1, 3))):
        path: list[Stage] = [draw(_ops(ids, "map", limits)) for _ in range(draw(st.integers(1, 2)))]
        if depth > 0 and draw(st.booleans()):
            path.append(draw(_batched(ids, depth - 1, limits)))
        paths.append(tuple(path))
    return Paths(ids(), tuple(paths), draw(st.booleans()), batched=True)


@st.composite
def graphs(
    draw: st.DrawFn, *, continuous: bool | None = None, limits: bool = False, max_items: int = 12, merges: bool = True
) -> Graph:
    """A graph of any shape.

    Args:
        continuous: Whether the sources are continuous; ``None`` for either.
        limits: Whether stages and pipeline may have ``max_failures``, and sources may raise.
        max_items: The maximum number of items of a source in an epoch.
        merges: Whether there may be several sources.
    """
    ids = _Ids()
    is_continuous = draw(st.booleans()) if continuous is None else continuous
    num_sources = 0

    def source() -> Source:
        nonlocal num_sources
        sizes = draw(st.lists(st.integers(0, max_items), min_size=1, max_size=3 if is_continuous else 1))
        error_at = draw(st.sampled_from([None, None, None, 0, 3])) if limits and not is_continuous else None
        made = Source(num_sources, draw(st.sampled_from(["generator", "iterator", "async"])), tuple(sizes),
                      is_continuous, error_at)  # fmt: skip
        num_sources += 1
        return made

    def src(depth: int) -> Source | Merged:
        if depth == 0 or draw(st.integers(0, 3)):
            return source()
        subs = [Sub(src(depth - 1), draw(_stage_lists(ids, 0, 0, 2, limits))) for _ in range(draw(st.integers(1, 3)))]
        return Merged(tuple(subs), draw(st.booleans()))

    made = src(2 if merges else 0)
    stages = draw(_stage_lists(ids, 2, 0, 4, limits))
    limit: int | Fraction = draw(_PIPELINE_LIMITS) if limits else -1
    graph = Graph(
        made,
        stages,
        sink=draw(st.integers(1, 4)),
        num_threads=draw(st.integers(1, 4)),
        max_failures=limit,
        hooks=draw(st.sampled_from([False, False, True])),
    )
    return _without_ordered_generators(graph) if graph.hooks else graph


def _without_ordered_generators(graph: Graph) -> Graph:
    """Generators under task hooks in completion order only: how they are ordered has a test of its own."""

    def plain(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        found: list[Stage] = []
        for stage in stages:
            if isinstance(stage, Paths):
                stage = replace(stage, paths=tuple(map(plain, stage.paths)))
            elif isinstance(stage, Op) and stage.shape == "generator":
                stage = replace(stage, order="completion")
            found.append(stage)
        return tuple(found)

    def plain_src(src: Source | Merged) -> Source | Merged:
        if isinstance(src, Source):
            return src
        return replace(src, subs=tuple(Sub(plain_src(sub.src), plain(sub.stages)) for sub in src.subs))

    return replace(graph, src=plain_src(graph.src), stages=plain(graph.stages))
