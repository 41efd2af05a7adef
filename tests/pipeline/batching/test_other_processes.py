"""Batching in regions and in pipelines that run in a subprocess: as here."""

from typing import Any

import numpy as np
import pytest

from spdl.pipeline import Pipeline
from spdl.pipeline.batching import CostBudget, LengthBuckets, ManualClock, MaxWait, PackSequences
from tests.support.gated import Gated
from tests.support.leaving import run_apart
from tests.support.region_kinds import RegionKind
from tests.support.running import TIMEOUT, build_of, run

from .aggregators import AtOnce, Copies, Grouped

WORDS = ["a" * n for n in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9)]


def plain_rows(rows: list[Any]) -> list[Any]:
    return [[part.tolist() if isinstance(part, np.ndarray) else part for part in row] for row in rows]


AGGREGATORS = pytest.mark.parametrize(
    ("make", "items"),
    [
        (lambda: CostBudget(8, oversized="alone"), WORDS),
        (lambda: LengthBuckets([3, 6], 2), WORDS),
        (lambda: PackSequences(16, open_bins=2), [[*word.encode()] for word in WORDS]),
        (lambda: MaxWait(4, 1.0, clock=ManualClock()), WORDS),
        (lambda: Copies(3), [2, 0, 7]),
    ],
)


@AGGREGATORS
def test_outputs_are_the_same_in_a_region(kind: RegionKind, make: Any, items: list[Any]) -> None:
    """Of one worker: every aggregator gives what it gives here."""
    here = run(build_of(items, lambda b: b.aggregate(make())))
    assert run(kind.with_region(items, lambda b: b.aggregate(make()), inputs=2, outputs=3)) == here


@AGGREGATORS
def test_outputs_are_the_same_in_a_subprocess(make: Any, items: list[Any]) -> None:
    """The same."""
    here = run(build_of(items, lambda b: b.aggregate(make())))
    assert list(run_apart(build_of(items, lambda b: b.aggregate(make())))) == here


def test_rows_of_arrays_cross(kind: RegionKind) -> None:
    """With their dtypes."""
    items = [np.arange(n, dtype=np.uint16) for n in (3, 1, 4, 1, 5)]
    here = run(build_of(items, lambda b: b.aggregate(PackSequences(6))))
    there = run(kind.with_region(items, lambda b: b.aggregate(PackSequences(6))))
    assert plain_rows(there) == plain_rows(here)
    assert [part.dtype for row in there for part in row] == [np.uint16, np.int32, np.int32, np.int32] * len(here)


def test_a_deadline_passes_in_a_region_too(kind: RegionKind) -> None:
    """What is flushed there arrives although the source gives no more, also if transfers hold several outputs."""
    source = Gated(2)
    pipeline: Pipeline[Any] = kind.with_region(source, lambda b: b.aggregate(AtOnce()), outputs=4).build(num_threads=2)
    with pipeline.auto_stop():
        for number in range(2):
            source.open(number)
            assert pipeline.get_item(timeout=TIMEOUT) == [number]
        source.open()


@pytest.mark.parametrize("workers", [1, 2])
def test_epochs_of_a_region_with_several_outputs(kind: RegionKind, workers: int) -> None:
    """Nothing crosses an epoch's end; positions are consumed when all outputs that they may be in are."""
    builder = kind.with_region(range(5), lambda b: b.aggregate(Grouped(3)), continuous=True, workers=workers)
    pipeline: Pipeline[Any] = builder.build(num_threads=2)
    with pipeline.auto_stop():
        for _ in range(3):
            assert sorted(pipeline.get_iterator(timeout=TIMEOUT)) == [0, 1, 2, 3, 4]
        assert pipeline._engine.ledger.sources[0].low >= 15
