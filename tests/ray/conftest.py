"""One Ray for the tests of this folder, a cluster of one node; skips them if it is not installed."""

from collections.abc import Iterator
from typing import Any

import pytest

_STORE = 200 << 20
#: The loss of a node is seen after eight seconds instead of fifteen.
_CONFIG = {"health_check_period_ms": 1000, "health_check_failure_threshold": 8}


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    """A ``ray.cluster_utils.Cluster`` that this process is connected to."""
    ray: Any = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found, unused-ignore]

    head = {"num_cpus": 4, "object_store_memory": _STORE, "include_dashboard": False, "_system_config": _CONFIG}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="package")
def ray(cluster: Any) -> Any:
    """The module."""
    return pytest.importorskip("ray")


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
