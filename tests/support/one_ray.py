"""One Ray for the tests of a process: a cluster of one node, which this process is connected to.

A test that needs it has ``pytest.mark.ray`` and takes the fixture ``ray_cluster``. It is skipped where Ray is not
installed; nothing imports Ray before. Such tests come last, and the cluster is shut down before any other test begins:
Ray has threads, processes and connections, which come and go as it likes.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

__all__ = ["ray_cluster", "ray_last", "shut_down_before", "skip_without"]

_STORE = 200 << 20
#: The loss of a node is seen after eight seconds instead of fifteen.
_CONFIG = {"health_check_period_ms": 1000, "health_check_failure_threshold": 8}

_running: list[Any] = []


@pytest.fixture
def ray_cluster() -> Any:
    """A ``ray.cluster_utils.Cluster`` that this process is connected to; the same one for all tests in a row."""
    if not _running:
        _running.append(_start())
    return _running[0]


def ray_last(items: list[pytest.Item]) -> None:
    """Put tests that need Ray behind the others."""
    items.sort(key=_needs_ray)


def skip_without(item: pytest.Item) -> None:
    """Skip a test that needs Ray if it is not installed. All are skipped here, so that a summary has one line."""
    if _needs_ray(item) and not _is_installed():
        pytest.skip("Ray is not installed: pip install 'spdl-native[ray]'")


def shut_down_before(item: pytest.Item | None) -> None:
    """Shut the cluster down unless ``item``, the next test, needs it."""
    if _running and (item is None or not _needs_ray(item)):
        cluster = _running.pop()
        import_module("ray").shutdown()
        cluster.shutdown()


def _needs_ray(item: pytest.Item) -> bool:
    return item.get_closest_marker("ray") is not None or "ray_cluster" in getattr(item, "fixturenames", ())


@cache
def _is_installed() -> bool:
    return find_spec("ray") is not None


def _start() -> Any:
    ray: Any = import_module("ray")
    cluster_utils: Any = import_module("ray.cluster_utils")
    head = {"num_cpus": 4, "object_store_memory": _STORE, "include_dashboard": False, "_system_config": _CONFIG}
    cluster: Any = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    except BaseException:
        cluster.shutdown()
        raise
    return cluster
