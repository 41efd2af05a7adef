"""What pipelines are given of Ray: ``RayActors``, workers of a region, and ``RaySource``, a Ray Dataset as a source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spdl._numbers import as_bool, as_int, as_seconds, as_timeout
from spdl.pipeline.defs import ExecutorConfig

if TYPE_CHECKING:
    from spdl.pipeline._remote._region_main import RegionSpec

    from ._workers import RayWorkers

#: Default timeout in seconds: adding a node to a cluster takes minutes.
DEFAULT_START_TIMEOUT: Final = 300.0


@dataclass(frozen=True, repr=False, init=False)
class RayActors(ExecutorConfig):
    """Ray actors as the workers of a region. Pass it to ``PipelineBuilder.to``.

    Each pipeline owns its actors: they start with it, and end with it or with its process. If Ray is not initialised at
    that time, ``ray.init()`` is called, which connects to the cluster of ``RAY_ADDRESS`` or starts a local one. A
    pipeline that is sent to another process (``run_pipeline_in_subprocess``) connects there to the sender's cluster;
    the actors belong to that process.

    Args:
        num_actors: Number of actors.
        num_cpus: CPUs that Ray reserves for each actor. Give the pipeline the same number of threads (``num_threads``).
        resources: Custom resources that each actor needs.
        placement: ``"SPREAD"`` over the nodes, ``"DEFAULT"``, or a scheduling strategy of Ray, such as one for a
            placement group.
        restart: Whether to replace an actor that dies. See ``ProcessPoolExecutorConfig``. Otherwise the pipeline fails,
            except if the actor was not ready yet and there are others: these continue, and a warning is logged.
        start_timeout: How long an actor may take to start, including its initializer, in seconds. If none is ready by
            then, the pipeline fails; the error names the resources that they reserve and those of the cluster. If some
            are ready, they work, and the others join when they start. ``None``: wait without limit.
        runtime_env: The environment of the actors, as for ``ray.remote``.
        initializer: Function called once in each actor before anything else runs there.
        initargs: Arguments of ``initializer``.

    Raises:
        ValueError: ``num_actors`` is less than 1, ``num_cpus`` is negative, or ``start_timeout`` is not positive.
        TypeError: An argument has the wrong type.
    """

    num_cpus: float = 1
    resources: Mapping[str, float] | None = None
    placement: Any = "SPREAD"
    restart: bool = False
    start_timeout: float | None = DEFAULT_START_TIMEOUT
    runtime_env: Mapping[str, Any] | None = None
    #: Address of the cluster of the process that has sent this object.
    _address: ClassVar[str | None] = None

    def __init__(
        self,
        num_actors: int,
        *,
        num_cpus: float = 1,
        resources: Mapping[str, float] | None = None,
        placement: Any = "SPREAD",
        restart: bool = False,
        start_timeout: float | None = DEFAULT_START_TIMEOUT,
        runtime_env: Mapping[str, Any] | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        num_actors = as_int("num_actors", num_actors, 1)
        num_cpus = as_seconds("num_cpus", num_cpus, may_be_infinite=True)
        start_timeout = as_timeout("start_timeout", start_timeout, positive=True)
        restart = as_bool("restart", restart)
        if isinstance(placement, str) and placement not in ("SPREAD", "DEFAULT"):
            raise ValueError(
                f'placement must be "SPREAD", "DEFAULT" or a scheduling strategy of Ray, got {placement!r}'
            )
        for name, value in (("resources", resources), ("runtime_env", runtime_env)):
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a mapping or None, got {value!r}")
        options: dict[str, Any] = {"num_cpus": num_cpus, "resources": resources, "placement": placement}
        options |= {"restart": restart, "start_timeout": start_timeout, "runtime_env": runtime_env}
        for name, value in options.items():
            object.__setattr__(self, name, value)
        super().__init__(num_actors, initializer, initargs)

    @property
    def num_actors(self) -> int:
        assert self.max_workers is not None
        return self.max_workers

    def __getstate__(self) -> dict[str, Any]:
        """Include the cluster's address, so that actors of the receiving process are in the same cluster."""
        return self.__dict__ | {"_address": _present_address() or self._address}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _build(self, spec: RegionSpec) -> RayWorkers:
        from ._messages import import_ray

        import_ray()  # so that building reports a missing package

        from ._workers import RayWorkers

        options: dict[str, Any] = {"num_cpus": self.num_cpus, "scheduling_strategy": self.placement}
        if self.resources is not None:
            options["resources"] = dict(self.resources)
        if self.runtime_env is not None:
            options["runtime_env"] = dict(self.runtime_env)
        return RayWorkers(
            spec,
            self.num_actors,
            options,
            restart=self.restart,
            start_timeout=self.start_timeout,
            address=self._address,
        )


def _present_address() -> str | None:
    """Address of the cluster that this process is connected to."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or ray.util.client.ray.is_connected():
        return None  # a Ray client has no cluster address that it could connect to itself
    return str(ray.get_runtime_context().gcs_address)


class RaySource:
    """The rows or batches of a Ray Dataset as a source of a pipeline. Each iteration is one epoch of the data.

    Ray executes the dataset when it is iterated. To share one dataset between the ranks of a training run, pass each
    rank its own iterator: one of ``dataset.streaming_split(num_ranks, equal=True)``, or the result of
    ``ray.train.get_dataset_shard``. All iterators of a split must be read in step, epoch by epoch.

    A pipeline with this source cannot save its position, because Ray does not guarantee an order.

    Args:
        dataset: A ``ray.data.Dataset``, or a ``ray.data.DataIterator``.
        batch_size: Number of rows in a batch; ``None``: single rows, as dicts.
        options: Arguments of Ray's ``iter_batches`` (``batch_format=``, ``prefetch_batches=``, ``drop_last=``) or
            ``iter_rows``.

    Raises:
        TypeError: ``dataset`` has no method to iterate over rows or batches.
        ValueError: ``batch_size`` is less than 1.
    """

    def __init__(self, dataset: Any, *, batch_size: int | None = None, **options: Any) -> None:
        method = "iter_rows" if batch_size is None else "iter_batches"
        if isinstance(dataset, type) or not callable(getattr(dataset, method, None)):
            raise TypeError(
                f"dataset must be a Dataset or a DataIterator of Ray, got {dataset!r}: it has no {method}()"
            )
        if batch_size is not None:
            batch_size = as_int("batch_size", batch_size)
            if batch_size < 1:
                raise ValueError(f"batch_size must be >= 1 or None, got {batch_size}")
            options = {"batch_size": batch_size} | options
        self._iterate = getattr(dataset, method)
        self._options = options

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterate(**self._options))
