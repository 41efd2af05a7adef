"""The kinds of workers of regions: a test that takes the fixture ``kind`` runs with each of them.

- ``threads``: threads of this process, which talk as worker processes do. For tests only.
- ``processes``: worker processes of the fork server.
- ``actors``: Ray actors on this node, which are talked to through shared memory.
- ``far-actors``: Ray actors that are talked to through Ray, as those on other nodes are.

``IN_PROCESSES`` leaves out threads: for tests in which workers end their process, or have state of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import ExecutorConfig, ProcessPoolExecutorConfig
from tests.support.regions import Add, region, with_region

__all__ = ["IN_ACTORS", "IN_PROCESSES", "NOT_IN_ACTORS", "KindName", "RegionKind", "kinds_with", "of_kind", "kind"]

KindName = Literal["threads", "processes", "actors", "far-actors"]


@dataclass(frozen=True)
class RegionKind:
    """Makes regions with one kind of workers."""

    name: KindName

    @property
    def are_actors(self) -> bool:
        return self.name.endswith("actors")

    def workers(self, num_workers: int = 1, **config: Any) -> ExecutorConfig:
        """Return the target of a region. ``config``: ``restart``, ``initializer`` and ``initargs``."""
        if self.name == "threads":
            from tests.pipeline.regions.threads import ThreadWorkersConfig

            return ThreadWorkersConfig(num_workers, **config)
        if self.name == "processes":
            return ProcessPoolExecutorConfig(num_workers, **config)
        from spdl.ray import RayActors

        return RayActors(num_workers, num_cpus=0, **config)  # tests have more of them than the cluster has CPUs

    def region(
        self,
        builder: PipelineBuilder[Any, Any],
        *stages: Add,
        workers: int = 1,
        inputs: int = 1,
        outputs: int = 1,
        **config: Any,
    ) -> None:
        """See ``tests.support.regions.region``."""
        region(builder, *stages, target=self.workers(workers, **config), inputs=inputs, outputs=outputs)

    def with_region(
        self, source: Any, *stages: Add, continuous: bool = False, sink: int = 3, workers: int = 1, **options: Any
    ) -> Any:
        """See ``tests.support.regions.with_region``."""
        sizes = {name: options.pop(name) for name in ("inputs", "outputs") if name in options}
        target = self.workers(workers, **options)
        return with_region(source, *stages, continuous=continuous, sink=sink, target=target, **sizes)


_OF_RAY: Final = (
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="Ray keeps processes, threads and connections"),
    pytest.mark.filterwarnings("default"),  # Ray's own
)


def of_kind(name: KindName, *values: Any) -> Any:
    """Return a parameter of a test for one kind; ``values`` are those of other arguments: see ``kinds_with``."""
    marks = _OF_RAY if name.endswith("actors") else ()
    return pytest.param(name, *values, id="-".join(map(str, (name, *values))), marks=marks)


def kinds_with(names: str, params: list[Any]) -> Callable[[Any], Any]:
    """Decorate a test that takes ``kind`` and the arguments of these names, with what ``of_kind`` has made."""
    return pytest.mark.parametrize(("kind", *names.split()), params, indirect=["kind"])


def _only(params: list[Any]) -> Callable[[Any], Any]:
    return kinds_with("", params)


_THREADS: Final = of_kind("threads")
_PROCESSES: Final = of_kind("processes")
_ACTORS: Final = [of_kind("actors"), of_kind("far-actors")]


IN_PROCESSES: Final = _only([_PROCESSES, *_ACTORS])
IN_ACTORS: Final = _only(_ACTORS)
NOT_IN_ACTORS: Final = _only([_THREADS, _PROCESSES])


@pytest.fixture(params=[_THREADS, _PROCESSES, *_ACTORS])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RegionKind:
    """One kind of workers after the other."""
    found = RegionKind(request.param)
    if found.are_actors:
        request.getfixturevalue("ray_cluster")
    if found.name == "far-actors":
        monkeypatch.setattr("spdl.ray._workers.open_door", lambda *_: None)
    return found
