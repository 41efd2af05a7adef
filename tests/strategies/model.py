"""The expected output of a graph, computed one item after the other.

The order of the result is a list of *strands*: items of a strand keep their order, and strands interleave in any way. A
stage that keeps order keeps the strands. One that does not makes a strand of each item's outputs. Paths and merges
combine the strands of their inputs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

from .graphs import Agg, Disagg, Graph, Merged, Op, Paths, Source, Stage, steps
from .items import Token, Value, label_of, number_of

__all__ = ["Counts", "Expected", "check_mix", "expect"]

Strand: TypeAlias = "list[Value]"


@dataclass
class Counts:
    """The expected counts of a stage."""

    num_calls: int = 0
    num_emitted: int = 0
    num_dropped: int = 0
    num_failures: int = 0


@dataclass
class Expected:
    """The expectation for one epoch.

    Attributes:
        strands: The outputs.
        is_exact: False if items are grouped in an undefined order; ``strands`` is then meaningless.
        counts: The counts of each op, by stage id; valid for the ops in ``counted`` only.
        counted: The ids of the ops before which everything is exact.
    """

    strands: list[Strand]
    is_exact: bool = True
    counts: dict[int, Counts] = field(default_factory=lambda: defaultdict(Counts))
    counted: set[int] = field(default_factory=set)

    def apply(self, stages: tuple[Stage, ...]) -> None:
        for stage in stages:
            if isinstance(stage, Op):
                self.apply_op(stage)
            elif isinstance(stage, Agg):
                self.apply_aggregate(stage)
            elif isinstance(stage, Disagg):
                self.apply_disaggregate(stage)
            elif stage.batched:
                self.apply_batched(stage)
            else:
                self.apply_paths(stage)

    def call(self, op: Op, value: Value) -> Strand:
        counts = self.counts[op.id]
        outputs: Strand = []
        for outcome, output in steps(op, value):
            counts.num_calls += 1
            if outcome == "ok":
                counts.num_emitted += 1
                outputs.append(output)
            elif outcome == "none":
                counts.num_dropped += 1
            else:
                counts.num_failures += 1
        return outputs

    def apply_op(self, op: Op) -> None:
        if self.is_exact:
            self.counted.add(op.id)
        if op.keeps_order:
            self.strands = [[out for value in strand for out in self.call(op, value)] for strand in self.strands]
        else:
            self.strands = [self.call(op, value) for strand in self.strands for value in strand]

    def apply_aggregate(self, stage: Agg) -> None:
        strands = [strand for strand in self.strands if strand]
        if len(strands) > 1:
            self.is_exact = False
        values = [value for strand in strands for value in strand]
        groups: Strand = [values[k : k + stage.size] for k in range(0, len(values), stage.size)]
        if stage.drop_last and len(values) % stage.size:
            groups.pop()
        self.strands = [groups]

    def apply_disaggregate(self, stage: Disagg) -> None:
        if self.is_exact:
            self.counted.add(stage.id)
        counts = self.counts[stage.id]
        opened: list[Strand] = []
        for strand in self.strands:
            opened.append([])
            for value in strand:
                if isinstance(value, Token):
                    counts.num_calls += 1
                    counts.num_failures += 1
                else:
                    counts.num_calls += len(value)
                    counts.num_emitted += len(value)
                    opened[-1] += value
        self.strands = opened

    def apply_paths(self, stage: Paths) -> None:
        joined: list[Strand] = []
        before, was_exact, is_exact = self.strands, self.is_exact, self.is_exact
        for number, path in enumerate(stage.paths):
            self.strands = [[v for v in strand if number_of(v) % len(stage.paths) == number] for strand in before]
            self.is_exact = was_exact
            self.apply(path)
            is_exact = is_exact and self.is_exact
            joined += self.strands
        self.strands, self.is_exact = joined, is_exact

    def apply_batched(self, stage: Paths) -> None:
        self.strands = [
            [joined for batch in strand if (joined := self.join_batch(stage, batch))] for strand in self.strands
        ]

    def join_batch(self, stage: Paths, batch: Value) -> list[Value]:
        assert isinstance(batch, list)
        joined: list[Value] = []
        before = self.strands
        for number, path in enumerate(stage.paths):
            self.strands = [[[one for one in batch if number_of(one) % len(stage.paths) == number]]]
            self.apply(path)
            for strand in self.strands:
                for part in strand:
                    assert isinstance(part, list)
                    joined += part
        self.strands = before
        return joined


def expect(graph: Graph, epoch: int = 0) -> Expected:
    """The expected output of ``graph`` in that epoch, if nothing stops it."""
    found = _expect_src(graph.src, epoch)
    found.apply(graph.stages)
    return found


def _expect_src(src: Source | Merged, epoch: int) -> Expected:
    if isinstance(src, Source):
        begin = sum(src.sizes[k % len(src.sizes)] for k in range(epoch))
        size = src.sizes[epoch % len(src.sizes)]
        return Expected([[Token.of_source(src.id, index) for index in range(begin, begin + size)]])
    joined = Expected([])
    single = True
    for sub in src.subs:
        one = _expect_src(sub.src, epoch)
        one.apply(sub.stages)
        single = single and len([strand for strand in one.strands if strand]) <= 1
        joined.strands += one.strands
        joined.is_exact = joined.is_exact and one.is_exact
        joined.counts.update(one.counts)
        joined.counted |= one.counted
    if src.drain and single:
        joined.strands = [[value for strand in joined.strands for value in strand]]
    return joined


def check_mix(strands: list[Strand], outputs: list[Value], *, whole: bool = True) -> None:
    """Fail unless ``outputs`` are an interleaving of ``strands``.

    Args:
        strands: The expected outputs.
        outputs: The actual outputs.
        whole: Whether all outputs must be there. Otherwise a part is enough, still in order.
    """
    places = {repr(label_of(v)): (s, k) for s, strand in enumerate(strands) for k, v in enumerate(strand)}
    reached = [-1] * len(strands)
    for value in outputs:
        assert repr(label_of(value)) in places, (
            f"{value} came, which was not expected (or not in this epoch): {outputs}"
        )
        s, k = places[repr(label_of(value))]
        assert k != reached[s], f"{value} came twice: {outputs}"
        assert k > reached[s], f"{value} came after {strands[s][reached[s]]}: {outputs}"
        assert not whole or k == reached[s] + 1, f"{strands[s][reached[s] + 1]} is late, or lost: {outputs}"
        reached[s] = k
    lost = [value for s, k in enumerate(reached) for value in strands[s][k + 1 :]]
    assert not whole or not lost, f"{lost} are lost: {outputs}"
