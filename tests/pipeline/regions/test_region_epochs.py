"""Continuous sources: an epoch's end is a barrier over all workers, which stay warm."""

from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops

TWO = ProcessPoolExecutorConfig(2)


@pytest.mark.parametrize("size", [1, 3])
def test_no_item_crosses_an_epoch_end(size: int) -> None:
    """Empty epochs, and epochs with fewer items than workers, among them."""
    sizes = (5, 0, 1, 7)
    pipeline = (
        PipelineBuilder()
        .add_source(ops.Epochs(*sizes), continuous=True)
        .to(TWO, buffer_size=size)
        .pipe(ops.with_pid)
        .to(MAIN_PROCESS, buffer_size=size)
        .add_sink()
        .build(num_threads=1)
    )
    pids = set()
    with pipeline.auto_stop():
        for number, num_items in enumerate(sizes):
            items = list(pipeline)
            assert sorted(item for item, _ in items) == [100 * number + k for k in range(num_items)]
            pids |= {pid for _, pid in items}
    assert len(pids) == 2


@pytest.mark.parametrize("drop_last", [False, True])
def test_aggregates_in_workers_flush_at_epoch_ends(drop_last: bool) -> None:
    """Or forget the rest, with ``drop_last``."""
    pipeline = (
        PipelineBuilder()
        .add_source(ops.Epochs(5, 4), continuous=True)
        .to(ProcessPoolExecutorConfig(1))
        .aggregate(2, drop_last=drop_last)
        .to(MAIN_PROCESS)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        first: list[Any] = list(pipeline)
        second: list[Any] = list(pipeline)
    assert first == [[0, 1], [2, 3]] + ([] if drop_last else [[4]])
    assert second == [[100, 101], [102, 103]]
