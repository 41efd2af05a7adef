"""The Ray that the tests of a process share, and the ways to its actors."""

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def cluster(ray_cluster: Any) -> Any:
    """A ``ray.cluster_utils.Cluster`` that this process is connected to."""
    return ray_cluster


@pytest.fixture
def ray(ray_cluster: Any) -> Any:
    """The module."""
    return import_module("ray")


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors take the way of those on other nodes."""
    monkeypatch.setattr("spdl.ray._workers.open_door", lambda *_: None)


@pytest.fixture(params=["near", "far"])
def way(request: pytest.FixtureRequest) -> str:
    """How messages go between the pipeline and its actors: directly, or through Ray."""
    if request.param == "far":
        request.getfixturevalue("far")
    return str(request.param)
