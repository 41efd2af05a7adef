"""Random resumable pipelines."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.pipeline.resume.graphs import Agg, Graph, InRegion, Op, Paths, Source

__all__ = ["graphs"]


@st.composite
def graphs(draw: st.DrawFn, *, most: int = 9, in_processes: bool = False) -> Graph:
    """Any resumable pipeline of these sources and stages; ``in_processes``: with a region of worker processes."""
    number = 100

    def next_id() -> int:
        nonlocal number
        number += 1
        return number

    keeps_order = not in_processes and draw(st.booleans())
    hooks = draw(st.sampled_from([False, False, False, True]))

    def op(kind: Any = None) -> Op:
        kind = kind or draw(st.sampled_from(["call", "call", "generator"]))
        lane = draw(st.sampled_from(["sync", "sync", "async", "executor"]))
        concurrency = draw(st.sampled_from([1, 2, 3]))
        order = "input" if keeps_order else draw(st.sampled_from(["completion", "input"]))
        if kind == "generator" and (lane == "async" or hooks):
            concurrency, order = (1 if keeps_order else concurrency), "completion"
        outcomes = draw(st.sampled_from([("ok",), ("ok",), ("ok", "ok", "drop"), ("ok", "ok", "fail")]))
        fanout = draw(st.sampled_from([(1,), (0, 2, 3), (3,)]))
        return Op(next_id(), kind, lane, concurrency, order, outcomes, fanout)  # type: ignore[arg-type] # literals

    def per_item(least: int, num: int, *, with_paths: bool) -> tuple[Any, ...]:
        found: list[Any] = []
        for _ in range(draw(st.integers(least, num))):
            if with_paths and not keeps_order and draw(st.integers(0, 3)) == 0:
                paths = tuple(per_item(1, 2, with_paths=False) for _ in range(draw(st.integers(1, 3))))
                found.append(Paths(next_id(), paths))
            else:
                found.append(op())
        return tuple(found)

    def source(place: int, *, alone: bool, continuous: bool) -> Source:
        kinds = ["indexed", "indexed", "mix", "stateful", "iterator", "iterable", "async"]
        if not continuous:
            kinds += ["list", "list"]
        sizes = tuple(draw(st.lists(st.integers(0, most), min_size=1, max_size=3 if continuous else 1)))
        stages = () if alone else per_item(0, 1, with_paths=False)
        return Source(place, draw(st.sampled_from(kinds)), sizes, stages)

    continuous = draw(st.booleans())
    num_sources = 1 if keeps_order else draw(st.sampled_from([1, 1, 2, 3]))
    sources = tuple(source(place, alone=num_sources == 1, continuous=continuous) for place in range(num_sources))
    stages = [*per_item(0, 2, with_paths=True)]
    if not keeps_order and (in_processes or draw(st.integers(0, 5)) == 0):
        inside = tuple(replace(op("call"), order="completion") for _ in range(draw(st.integers(1, 2))))
        num_workers, input_size, output_size = (draw(st.integers(1, 3)) for _ in range(3))
        stages.append(InRegion(inside, num_workers, input_size, output_size, in_processes))
        stages += per_item(0, 1, with_paths=True)
    if draw(st.booleans()):
        kinds = ["collate", "users", "budget", "waiting"] + ([] if keeps_order else ["buckets", "packing"])
        kind = draw(st.sampled_from(kinds))
        drop_last = keeps_order and kind in ("collate", "users", "waiting") and draw(st.booleans())
        stages.append(Agg(kind, draw(st.integers(1, 4)), drop_last))  # type: ignore[arg-type] # a literal
        if kind != "packing" and draw(st.integers(0, 3)) == 0:
            paths = tuple((op("batch"),) for _ in range(draw(st.integers(1, 3))))
            if not keeps_order:
                stages.append(Paths(next_id(), paths, batched=True))
        stages += [op("batch") for _ in range(draw(st.integers(0, 2)))]
        if not drop_last and draw(st.integers(0, 3)) == 0:
            stages.append(Agg("collate", draw(st.integers(1, 3))))
    return Graph(
        sources,
        tuple(stages),
        continuous,
        sink=draw(st.integers(1, 4)),
        num_threads=draw(st.integers(1, 4)),
        hooks=hooks,
        keeps_order=keeps_order,
    )
