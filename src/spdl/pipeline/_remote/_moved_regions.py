"""Regions of a pipeline that runs in a subprocess: the workers belong to the process that starts this subprocess.

That process starts and ends the workers. Each has its own link to the pipeline's process. The link is sent there with
the description, in which the target of the region is replaced by one that contains the links to its workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from spdl._errors import WorkerDiedError
from spdl._processes._child import Child, stop_all
from spdl._processes._transport import Frame, LinkEnd, link_ends
from spdl.pipeline.defs import (
    ExecutorConfig,
    MaxFailures,
    MergeConfig,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    Region,
    split_regions,
)

from ._protocol import ToRegionWorker
from ._region_main import RegionSpec, run_moved_worker
from ._regions import LinkedWorkers, Slot, num_workers_of, spec_of, start_worker


def move_regions(
    config: PipelineConfig[Any],
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    seed: int = 0,
    report_stats_interval: float = -1,
    mp_context: str | None = None,
) -> tuple[PipelineConfig[Any], list[Child]]:
    """Start the workers of all regions of ``config``, including merged pipelines.

    Args:
        config: Description of a pipeline that will run in another process.
        num_threads: Same as in ``build_pipeline``.
        max_failures: Same.
        seed: Same.
        report_stats_interval: Same.
        mp_context: Start method of workers whose region does not set one.

    Returns:
        The description to send to the new process, once, as an argument of that process; call ``close_ends`` with it
        afterwards. And the workers, which the caller must end.

    Raises:
        ValueError: A region has ``restart=True``: the new workers could not be reached from the other process.
        Exception: An error of starting a process. Workers that had been started are stopped.
    """
    children: list[Child] = []

    def move(cfg: PipelineConfig[Any]) -> PipelineConfig[Any]:
        # One for each mark that opens a region, in their order.
        marks = iter([moved(part) for part in split_regions(cfg.pipes) if isinstance(part, Region)])
        pipes = [next(marks) if _opens(stage) else stage for stage in cfg.pipes]
        src = cfg.src
        if isinstance(src, MergeConfig):
            src = replace(src, pipeline_configs=tuple(move(sub) for sub in src.pipeline_configs))
        return replace(cfg, src=src, pipes=pipes)

    def moved(region: Region) -> PlacementConfig:
        target = region.target
        if not isinstance(target, ProcessPoolExecutorConfig):
            return region.mark
        if target.restart:
            raise ValueError(f"restart=True is not available for a region of a pipeline in a subprocess: {target!r}")
        spec = spec_of(region, region.name, num_threads, max_failures, report_stats_interval, seed)
        ends: list[LinkEnd] = []
        attached = AttachedWorkersConfig(num_workers_of(target), ends=ends)
        for index in range(num_workers_of(target)):
            near, far = link_ends()
            try:
                context = target.mp_context or mp_context
                children.append(start_worker(run_moved_worker, spec, index, near, mp_context=context))
            finally:
                near.close()
            ends.append(far)
        return replace(region.mark, target=attached)

    try:
        return move(config), children
    except BaseException:
        stop_all(children)
        raise


def _opens(stage: object) -> bool:
    return isinstance(stage, PlacementConfig) and isinstance(stage.target, ExecutorConfig)


def close_ends(config: PipelineConfig[Any]) -> None:
    """Close the link ends in ``config``, in the process that has sent it to another process."""
    for target in _attached(config):
        for end in target.ends:
            end.close()


def _attached(config: PipelineConfig[Any]) -> Iterator[AttachedWorkersConfig]:
    if isinstance(config.src, MergeConfig):
        for sub in config.src.pipeline_configs:
            yield from _attached(sub)
    for stage in config.pipes:
        if isinstance(stage, PlacementConfig) and isinstance(stage.target, AttachedWorkersConfig):
            yield stage.target


@dataclass(frozen=True, repr=False)
class AttachedWorkersConfig(ExecutorConfig):
    """Target of a region whose workers another process owns. They serve one pipeline after the other."""

    ends: list[LinkEnd] = field(default_factory=list, repr=False)
    _ports: list[_Port] = field(default_factory=list, init=False, compare=False)

    def _build(self, spec: RegionSpec) -> AttachedWorkers:
        if not self._ports:
            self._ports.extend(_Port(index, end) for index, end in enumerate(self.ends))
        return AttachedWorkers(spec.stage, self._ports)

    def __repr__(self) -> str:
        return f"AttachedWorkersConfig(max_workers={self.max_workers})"


class _Port:
    """The connection to one worker."""

    def __init__(self, index: int, end: LinkEnd) -> None:
        self.index = index
        self.link = end.open()
        self.num_conversations = 0

    def recv(self, timeout: float | None = None) -> Frame:
        try:
            return self.link.recv(timeout)
        except EOFError:
            raise WorkerDiedError(f"worker {self.index} exited unexpectedly") from None

    def descriptors(self) -> list[int]:
        return [self.link.fileno()]


class AttachedWorkers(LinkedWorkers):
    """The workers of a region of one pipeline. Another process owns them."""

    def __init__(self, stage: str, ports: list[_Port]) -> None:
        super().__init__(stage, len(ports), may_replace=False)
        self._ports = ports

    def start(self) -> None:
        self._open_bell()
        self.talk.conversation = max(port.num_conversations for port in self._ports) + 1
        for index, port in enumerate(self._ports):
            port.num_conversations = self.talk.conversation
            self._begin(index, Slot(0, port))

    def replace(self, worker: int, done: Sequence[int]) -> None:
        raise AssertionError("a worker that another process owns is not replaced")

    def stop(self, timeout: float) -> list[int]:
        for slot in self._slots:
            with suppress(OSError):  # it has died
                slot.port.link.send(ToRegionWorker.CLOSE)
        self._slots = [Slot(-1, slot.port) for slot in self._slots]  # messages that are still being sent are ignored
        self._close_bell()
        return []

    def kill(self) -> None:
        """Do nothing: the process that owns the workers ends them."""

    def describe(self, worker: int) -> str:
        return f"worker {worker}"
