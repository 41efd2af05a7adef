"""``RayActors`` without Ray: what it takes, and what it says when Ray is missing."""

import sys
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS
from spdl.ray import RayActors
from tests.pipeline.regions import ops


def test_a_description_can_be_compared_and_shown() -> None:
    """As those of other workers."""
    target = RayActors(2, num_cpus=3, restart=True, initializer=ops.fail_to_start)
    assert target == RayActors(2, num_cpus=3, restart=True, initializer=ops.fail_to_start)
    assert target != RayActors(2)
    assert target.num_actors == target.max_workers == 2
    assert repr(target).startswith("RayActors(max_workers=2, initializer=")
    assert "restart=True" in repr(target)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_actors": 0}, ValueError, "num_actors must be >= 1, got 0"),
        ({"num_actors": None}, TypeError, "num_actors"),
        ({"num_cpus": -1}, ValueError, "num_cpus must be >= 0, got -1"),
        ({"num_cpus": "2"}, TypeError, "num_cpus must be a number, got '2'"),
        ({"start_timeout": 0}, ValueError, "start_timeout must be > 0 seconds, or None for no limit, got 0"),
        ({"start_timeout": float("inf")}, ValueError, "or None for no limit, got inf"),
        ({"start_timeout": "1"}, TypeError, "start_timeout must be a number, got '1'"),
        ({"restart": 1}, TypeError, "restart must be a bool, got 1"),
        ({"placement": "PACK"}, ValueError, "placement must be"),
        ({"resources": ["gpu"]}, TypeError, "resources must be a mapping"),
        ({"runtime_env": "env"}, TypeError, "runtime_env must be a mapping"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """When the description is made."""
    with pytest.raises(error, match=message):
        RayActors(**{"num_actors": 1} | arguments)


def test_building_without_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing before needs it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    builder: Any = PipelineBuilder().add_source(range(3)).to(RayActors(1)).pipe(ops.double).to(MAIN_PROCESS).add_sink()
    with pytest.raises(ImportError, match=r"pip install 'spdl-native\[ray\]'"):
        builder.build(num_threads=1)
