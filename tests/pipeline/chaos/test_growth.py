"""Starting and ending again and again: no descriptor, process, thread or memory is left by any round."""

import gc
import itertools
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.support.soak import amount

from . import ops
from .processes import num_descriptors

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]


def through_iteration() -> Iterator[Any]:
    return iter(iterate_in_subprocess(partial(ops.numbers, 20)))


def through_subprocess() -> Iterator[Any]:
    builder = PipelineBuilder().add_source(range(20)).pipe(ops.with_array).add_sink()
    return iter(run_pipeline_in_subprocess(builder, num_threads=1))


def through_region() -> Iterator[Any]:
    builder = PipelineBuilder().add_source(range(20)).to(ProcessPoolExecutorConfig(max_workers=1)).pipe(ops.with_array)
    return iter(builder.to(MAIN_PROCESS).add_sink().build(num_threads=1))


def through_isolation() -> Iterator[Any]:
    builder = PipelineBuilder().add_source(range(20)).pipe(ops.with_array, isolate=True)
    return iter(builder.add_sink().build(num_threads=1))


WAYS = [through_iteration, through_subprocess, through_region, through_isolation]


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("num_taken", [20, 3])
def test_rebuilding_leaves_nothing(way: Callable[[], Iterator[Any]], num_taken: int) -> None:
    """Whether it is read to its end or left in the middle."""

    def rebuild() -> None:
        items = way()
        assert len(list(itertools.islice(items, num_taken))) == num_taken
        del items

    for _ in range(3):
        rebuild()
    gc.collect()
    before, memory = num_descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(amount(6, soak=15)):
        rebuild()
    gc.collect()
    assert num_descriptors() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8192  # kB


@pytest.mark.soak
def test_iterating_again_leaves_nothing() -> None:
    """The same worker hundreds of times, half of them left in the middle."""
    worker = iterate_in_subprocess(Again)
    for _ in range(20):
        list(worker)
    before, memory = num_descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(amount(300, soak=1000)):
        taken = list(itertools.islice(worker, 3 if number % 2 else None))
        assert len(taken) == (3 if number % 2 else 6)
    assert num_descriptors() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8192  # kB


class Again:
    """Can be iterated again and again."""

    def __iter__(self) -> Iterator[Any]:
        return map(ops.with_array, range(6))
