"""Regions on Ray whose number of actors changes while they run."""

import os
import select
import signal
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from tests.pipeline.regions import ops
from tests.pipeline.regions.test_region_laws import expected, region
from tests.support.running import TIMEOUT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="Ray keeps processes, threads and connections"),
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.usefixtures("ray", "way"),
]


def build(source: Any, target: RayActors) -> Any:
    builder: Any = PipelineBuilder().add_source(source).to(target).pipe(ops.with_pid)
    return builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)


def test_actors_come_and_go() -> None:
    """New ones join when they are ready; those that are too many end, and leave their CPUs to others."""
    pipeline = build(iter(count()), RayActors(1, num_cpus=2))
    with pipeline.auto_stop():
        item, first = pipeline.get_item(timeout=TIMEOUT)
        found, pids = [item], {first}
        for _ in range(2):  # the second time there is no room unless the first one has given it back
            pipeline.resize(2)
            second = first
            while second == first:
                item, second = pipeline.get_item(timeout=TIMEOUT)
                found.append(item)
            assert second not in pids
            pids.add(second)
            process = os.pidfd_open(second)
            try:
                pipeline.resize(1)
                while not select.select([process], [], [], 0)[0]:
                    found.append(pipeline.get_item(timeout=TIMEOUT)[0])
            finally:
                os.close(process)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("restart", [False, True])
def test_each_item_comes_out_or_is_counted(restart: bool) -> None:
    """And an epoch's end is a barrier, whenever actors join and leave."""
    names = ["failing", "lists", "double"]
    epochs = (30, 0, 12, 25)
    pipeline = region(names, RayActors(2, num_cpus=0.5, restart=restart), 2, 2, ops.Epochs(*epochs), continuous=True)
    numbers = iter((3, 1, 2, 4, 1, 3, 2))
    num_found = 0
    with pipeline.auto_stop():
        for number, num_items in enumerate(epochs):
            found = []
            for item in pipeline:
                found.append(item)
                num_found += 1
                if num_found % 8 == 0:
                    pipeline.resize(next(numbers, 2))
            items = range(100 * number, 100 * number + num_items)
            assert Counter(found) == Counter(each for item in items for each in expected(names, item))
    assert pipeline.stats().stages[1].num_calls == sum(epochs)


def test_items_are_conserved_when_retiring_actors_are_killed() -> None:
    """What they hold is dealt to the others, and they are not replaced."""
    pipeline = build(range(80), RayActors(3, num_cpus=0.5, restart=True))
    found: list[int] = []
    seen: set[int] = set()
    killed: set[int] = set()
    with pipeline.auto_stop():
        for item, pid in pipeline:
            found.append(item)
            seen.add(pid)
            if len(found) == 10:
                pipeline.resize(1)
                for each in seen - {pid}:
                    killed.add(each)
                    with suppress(ProcessLookupError):  # it has ended
                        os.kill(each, signal.SIGKILL)
            if len(found) == 30:
                pipeline.resize(2)
    stage = pipeline.stats().stages[1]
    assert len(set(found)) == len(found) == stage.num_emitted
    assert stage.num_calls == 80 == stage.num_emitted + stage.num_failures
    assert pipeline._engine.ledger.sources[0].num_consumed == 80
