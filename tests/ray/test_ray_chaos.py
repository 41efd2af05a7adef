"""What happens to a region on Ray when nodes, actors, memory or the pipeline's own process fail.

Faults that workers of any kind may have are tried on actors in ``tests/pipeline/regions``: deaths of workers
(``test_region_deaths``), items that are dealt again once and then fail, and runs that are resumed after deaths
(``test_region_redealt``), conservation (``test_region_laws``), ends (``test_region_ends``). Actors that never start are
in ``test_starts`` and ``test_ray_regions``.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._engine._region._lane import RegionLane
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from spdl.ray._messages import to_wire
from spdl.ray._workers import _Heard
from tests.pipeline.regions import ops
from tests.support.running import TIMEOUT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="Ray keeps processes, threads and connections"),
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.usefixtures("ray"),
]

STORE = 100 << 20


def build(op: Any, source: Any, target: RayActors, size: int = 1, sink: int = 2) -> Any:
    builder: Any = PipelineBuilder().add_source(source).to(target, buffer_size=size).pipe(op)
    return builder.to(MAIN_PROCESS, buffer_size=size).add_sink(sink).build(num_threads=1)


def check_conserved(pipeline: Any, found: list[int], num_items: int) -> None:
    """Each item has come out once, or has failed and is counted."""
    stage = pipeline.stats().stages[1]
    assert len(set(found)) == len(found) == stage.num_emitted
    assert stage.num_calls == num_items == stage.num_emitted + stage.num_failures
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items


def large_with_host(item: int) -> tuple[np.ndarray[Any, Any], str, int]:
    import ray

    return np.full(300_000, item, np.int32), ray.get_runtime_context().get_node_id(), os.getpid()


@contextmanager
def watched(pid: int) -> Iterator[Any]:
    """Yield a function that waits until the process has ended."""
    process = os.pidfd_open(pid)
    try:
        yield lambda: bool(select.select([process], [], [], TIMEOUT)[0])
    finally:
        os.close(process)


def test_a_node_that_is_lost_takes_no_item_along(cluster: Any) -> None:
    """Its actors' items, and outputs that were kept there, come from elsewhere, though it is not replaced."""
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"far": 1}) for _ in range(2)]
    try:
        target = RayActors(2, num_cpus=0, resources={"far": 1}, restart=True)
        pipeline = build(large_with_host, range(60), target, size=2)
        found, hosts, is_removed = [], set(), False
        with pipeline.auto_stop():
            for array, host, _ in pipeline:
                found.append(int(array[0]))
                hosts.add(host)
                if len(hosts) == 2 and not is_removed:
                    is_removed = True
                    cluster.remove_node(nodes.pop(), allow_graceful=False)
        check_conserved(pipeline, found, 60)
    finally:
        for node in nodes:
            cluster.remove_node(node)
        cluster.wait_for_nodes()  # so that Ray places nothing on them


class HangsOnce:
    """An op that never returns for item 0 at the first attempt, and says on which node that is."""

    def __init__(self, told: Path) -> None:
        self.told = told

    async def __call__(self, item: int) -> int:
        if item == 0 and not self.told.exists():
            import ray

            part = self.told.with_suffix(".part")
            part.write_text(ray.get_runtime_context().get_node_id())
            part.rename(self.told)
            await asyncio.Event().wait()
        return item


def test_a_node_that_is_lost_when_the_others_are_done(cluster: Any, tmp_path: Path) -> None:
    """They take no more items, so they make room for the actor that takes those of the lost one."""
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"far": 1}) for _ in range(2)]
    told = tmp_path / "node"
    try:
        target = RayActors(2, num_cpus=0, resources={"far": 1}, restart=True)
        builder: Any = PipelineBuilder().add_source(range(12)).to(target).pipe(HangsOnce(told), concurrency=12)
        pipeline = builder.to(MAIN_PROCESS).add_sink(12).build(num_threads=1)
        with pipeline.auto_stop():
            found = [pipeline.get_item(timeout=TIMEOUT) for _ in range(11)]
            lost = next(node for node in nodes if node.node_id == told.read_text())
            nodes.remove(lost)
            cluster.remove_node(lost, allow_graceful=False)
            found.append(pipeline.get_item(timeout=TIMEOUT))
            assert sorted(found) == list(range(12))
        check_conserved(pipeline, found, 12)
    finally:
        for node in nodes:
            cluster.remove_node(node)
        cluster.wait_for_nodes()


@pytest.mark.usefixtures("far")
def test_an_item_that_ray_has_lost_is_dealt_again(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On its way to an actor: the actor is replaced, as it would wait for the item."""
    owner = ray.remote(num_cpus=0)(Owner).remote()
    (lost,) = ray.get(owner.put.remote())
    ray.kill(owner)
    with pytest.raises(ray.exceptions.ObjectLostError):
        read_until_lost(ray, lost)
    calls = count()

    def lose_the_fourth(frames: Any) -> Any:
        wire = to_wire(frames)
        return lost if next(calls) == 4 else wire

    monkeypatch.setattr("spdl.ray._workers.to_wire", lose_the_fourth)
    pipeline = build(ops.same, range(20), RayActors(1, restart=True), size=2)
    with pipeline.auto_stop():
        found = list(pipeline)
    assert sorted(found) == list(range(20))
    check_conserved(pipeline, found, 20)
    assert pipeline.stats().stages[1].num_redealt >= 1


def read_until_lost(ray: Any, reference: Any) -> None:
    """Read it again and again, as its owner's end takes a moment; Ray's error ends this."""
    while True:
        ray.get(reference, timeout=TIMEOUT)


class Owner:
    """What it has put into the object store is lost with it."""

    def put(self) -> list[Any]:
        import ray

        return [ray.put(bytes(1_000_000))]


def test_more_than_the_object_store_holds_arrives(way: str) -> None:
    """Ray puts on disk what has no place there; on the same node nothing goes there."""
    pipeline = build(large_with_host, range(250), RayActors(2), size=4)
    with pipeline.auto_stop():
        kept = [array for array, _, _ in pipeline]
    assert sum(array.nbytes for array in kept) > 1.4 * (200 << 20)
    assert sorted(int(array[0]) for array in kept) == list(range(250))
    assert all((array == array[0]).all() for array in kept)


def test_a_store_without_room_fails_the_pipeline() -> None:
    """With Ray's error, if it cannot put anything on disk either: another actor would do no better."""
    done = run_apart("tests.ray.full_store")
    assert "WorkerError: actor 0 (pid " in done
    assert "ray.exceptions.OutOfDiskError" in done
    assert done.endswith("kept True True\nthe actor has ended: True\n")


def run_apart(module: str) -> str:
    """Run a module of the tests in a process of its own, and return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-m", module], capture_output=True, text=True, timeout=2 * TIMEOUT, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def wait_once(gate: Path, note: Path, item: int) -> tuple[int, int]:
    """Waits at item 3 until somebody opens the gate for writing, unless a process has done so before."""
    if item == 3:
        with suppress(FileExistsError):
            note.touch(exist_ok=False)
            gate.read_bytes()
    return item, os.getpid()


@pytest.mark.usefixtures("way")
def test_an_actor_that_was_taken_for_dead_is_not_heard_any_more(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the network stalls, Ray may give up an actor that goes on: what it still sends must not come twice."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pipeline = build(partial(wait_once, gate, tmp_path / "note"), range(40), RayActors(1, restart=True))
    with pipeline.auto_stop():
        (lane,) = [each for each in pipeline._engine.lanes if isinstance(each, RegionLane)]
        workers: Any = lane.workers
        items = [pipeline.get_item(timeout=TIMEOUT) for _ in range(3)]
        given_up = workers._ports[0]
        with monkeypatch.context() as patched:
            patched.setattr(workers, "_kill", lambda port: None)  # nobody reaches it
            workers._heard.put(_Heard(0, 0, ray.exceptions.ActorDiedError()))
            items.append(pipeline.get_item(timeout=TIMEOUT))
        assert [item for item, _ in items] == [0, 1, 2, 3]
        assert items[3][1] != items[0][1]
        gate.open("w").close()
        items += pipeline
        workers._kill(given_up)
    found = [item for item, _ in items]
    assert sorted(found) == list(range(40))
    check_conserved(pipeline, found, 40)


def test_actors_end_with_the_process_of_their_pipeline(cluster: Any) -> None:
    """When it is killed, too."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.ray.endless", cluster.address], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        line = next(line for line in child.stdout if line.startswith("pid "))
        with watched(int(line.split()[1])) as has_ended:
            child.kill()
            assert has_ended()
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_an_actor_that_stands_still_holds_up_its_own_items_only() -> None:
    """They come when it goes on, once."""
    pipeline = build(ops.with_pid, range(40), RayActors(2))
    found = []
    with pipeline.auto_stop():
        item, stopped = pipeline.get_item(timeout=TIMEOUT)
        found.append(item)
        os.kill(stopped, signal.SIGSTOP)
        try:
            others = 0
            while others < 10:
                item, pid = pipeline.get_item(timeout=TIMEOUT)
                found.append(item)
                others += pid != stopped
        finally:
            os.kill(stopped, signal.SIGCONT)
        found += [item for item, _ in pipeline]
    assert sorted(found) == list(range(40))
    check_conserved(pipeline, found, 40)


def test_an_actor_that_stands_still_is_ended_with_its_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop does not wait for it longer than for other calls."""
    monkeypatch.setattr("spdl.pipeline._engine._region._lane._STOP_TIMEOUT", 0.2)
    pipeline = build(ops.with_pid, range(10**6), RayActors(1))
    with pipeline.auto_stop():
        _, pid = pipeline.get_item(timeout=TIMEOUT)
        os.kill(pid, signal.SIGSTOP)
        with watched(pid) as has_ended:
            pipeline.stop()
            try:
                assert has_ended()
            finally:
                if not has_ended():
                    os.kill(pid, signal.SIGCONT)
