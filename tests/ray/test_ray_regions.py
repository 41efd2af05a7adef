"""Regions whose workers are Ray actors."""

import os
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import (
    PipelineBuilder,
    PipelineFailure,
    RemoteOpError,
    WorkerError,
    run_pipeline_in_subprocess,
)
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from spdl.ray._messages import to_wire
from tests.pipeline.regions import ops
from tests.pipeline.regions.test_region_laws import region
from tests.support.running import TIMEOUT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="Ray keeps processes, threads and connections"),
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.usefixtures("ray", "way"),
]


def build(op: Any, source: Any, target: RayActors, size: int = 1, **options: Any) -> Any:
    builder: Any = PipelineBuilder().add_source(source).to(target, buffer_size=size).pipe(op, **options)
    return builder.to(MAIN_PROCESS, buffer_size=size).add_sink().build(num_threads=1)


def large(item: int) -> dict[str, Any]:
    return {"item": item, "data": np.full((300, 1000), item, np.int32), "raw": bytes([item]) * 200_000}


def check_large(given: dict[str, Any]) -> dict[str, Any]:
    assert (given["data"] == given["item"]).all()
    return given


def test_large_buffers_are_read_in_place(way: str) -> None:
    """In both directions; those of other nodes can only be read. Bytes arrive as bytes."""
    pipeline = build(check_large, map(large, range(12)), RayActors(2), size=2)
    with pipeline.auto_stop():
        found = {given["item"]: given for given in pipeline}
    assert sorted(found) == list(range(12))
    for item, given in found.items():
        assert given["data"].flags.writeable == (way == "near")
        assert not given["data"].flags.owndata
        assert (given["data"] == item).all()
        assert given["raw"] == bytes([item]) * 200_000


def test_a_failure_names_the_stage_and_the_position() -> None:
    """As for other workers."""
    pipeline = build(ops.fail_on_multiples_of_three, range(6), RayActors(1))
    with pipeline.auto_stop():
        assert sorted(pipeline) == [1, 2, 4, 5]
    failures = pipeline.stats().stages[1].failures
    assert [failure.origin for failure in failures] == [0, 3]
    assert all(isinstance(failure.error, RemoteOpError) for failure in failures)
    assert any("in actor 0 (pid" in note for note in failures[0].error.__notes__)


class NotHere:
    """An op of a module that the actors' nodes do not have."""

    def __call__(self, item: int) -> int:
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, ("no_such_module",)


def test_ops_that_an_actor_cannot_import_fail_the_pipeline() -> None:
    """With the name of the module."""
    pipeline = build(NotHere(), range(3), RayActors(1))
    with pytest.raises(PipelineFailure) as info, pipeline.auto_stop():
        list(pipeline)
    (error,) = info.value.exceptions
    assert isinstance(error, WorkerError)
    assert "no_such_module" in str(error)


def with_cluster(item: int) -> tuple[int, str]:
    import ray

    return item, str(ray.get_runtime_context().gcs_address)


@pytest.mark.parametrize("way", ["far"], indirect=True)  # it is the subprocess's affair
def test_a_pipeline_in_a_subprocess_has_its_actors_in_the_same_cluster(ray: Any) -> None:
    """Nobody has to tell it where that is."""
    builder: Any = PipelineBuilder().add_source(range(4)).to(RayActors(1)).pipe(with_cluster)
    config = builder.to(MAIN_PROCESS).add_sink().get_config()
    address = str(ray.get_runtime_context().gcs_address)
    assert sorted(run_pipeline_in_subprocess(config, num_threads=1)) == [(item, address) for item in range(4)]


def test_an_actor_without_room_fails_the_pipeline() -> None:
    """With what it reserves, and what the cluster has."""
    pipeline = build(ops.same, range(3), RayActors(1, resources={"decoder": 2}, start_timeout=0.1))
    with pytest.raises(PipelineFailure) as info, pipeline.auto_stop():
        list(pipeline)
    (error,) = info.value.exceptions
    assert isinstance(error, WorkerError)
    assert "'decoder': 2" in str(error)
    assert "decoder 0 of 0" in str(error)


@pytest.mark.parametrize("restart", [False, True])
def test_actors_work_before_others_have_room(ray: Any, restart: bool) -> None:
    """And are joined by them, as soon as there is room."""
    tenant = ray.remote(num_cpus=3)(Tenant).remote()
    ray.get(tenant.stay.remote())
    pipeline = build(ops.with_pid, count(), RayActors(2, restart=restart))
    with pipeline.auto_stop():
        pids = {pipeline.get_item(timeout=TIMEOUT)[1] for _ in range(10)}
        assert len(pids) == 1
        ray.kill(tenant)
        while len(pids) < 2:
            pids.add(pipeline.get_item(timeout=TIMEOUT)[1])


class Tenant:
    """Holds a reservation."""

    def stay(self) -> None:
        pass


def die_once_at_start(note: Path) -> None:
    """End the process that comes first."""
    try:
        note.touch(exist_ok=False)
    except FileExistsError:
        return
    os._exit(1)


def test_an_actor_that_dies_before_it_is_ready_leaves_the_work_to_others(tmp_path: Path) -> None:
    """Without being replaced; epochs end without it."""
    target = RayActors(2, initializer=die_once_at_start, initargs=(tmp_path / "note",))
    pipeline = region(["double"], target, 3, 2, ops.Epochs(8, 3), continuous=True)
    with pipeline.auto_stop():
        assert sorted(pipeline) == [2 * item for item in range(8)]
        assert sorted(pipeline) == [200, 202, 204]


@pytest.mark.parametrize("way", ["far"], indirect=True)
def test_items_that_ray_does_not_take_fail_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Ray's error, such as that of a full object store."""

    def refuse_large(frames: Any) -> Any:
        wire = to_wire(frames)
        if any(buffers for *_, buffers in wire):
            raise MemoryError("the store is full")
        return wire

    monkeypatch.setattr("spdl.ray._workers.to_wire", refuse_large)
    pipeline = build(check_large, map(large, range(3)), RayActors(1))
    with pytest.raises(PipelineFailure) as info, pipeline.auto_stop():
        list(pipeline)
    (error,) = info.value.exceptions
    assert isinstance(error, WorkerError)
    assert "the store is full" in str(error)
    assert isinstance(error.__cause__, MemoryError)
