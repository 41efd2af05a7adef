"""The workers of a region, on the side of the pipeline that uses them.

If the pipeline runs in a subprocess, its workers belong to the process that starts this subprocess, which starts and
ends them. Each has its own link to the pipeline's process. The link is sent there with the description, in which the
target of the region is replaced by one that contains the links to its workers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._cpus import usable_cpus
from spdl._errors import PipelineError, PipelineStateError, WorkerDiedError, WorkerError
from spdl._processes._calls import Caller, Port, Request, wait_any
from spdl._processes._child import Child
from spdl._processes._transport._connecting import LinkEnd, link_ends
from spdl._processes._transport._frame import Frame
from spdl.pipeline._engine._region._workers import Died, Event, Failed, RegionWorkers, Then
from spdl.pipeline._info import PIPELINE_IDS, StageInfo
from spdl.pipeline._options import BuildOptions, for_regions
from spdl.pipeline.defs import (
    ExecutorConfig,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    Region,
    StageConfig,
    split_regions,
    without_executors,
)

from ._region_main import RegionSpec, RegionTalk, run_moved_worker, run_worker

if TYPE_CHECKING:
    from ._moved import MovedWorkers


def make_workers(region: Region, info: StageInfo, options: BuildOptions) -> RegionWorkers:
    """Make the workers of ``region``, a stage of a pipeline that is built with ``options``, without starting them."""
    target = region.target
    spec = spec_of(region, str(info), options)
    if type(target)._build is not ExecutorConfig._build:
        workers = target._build(spec)
        if not all(callable(getattr(workers, name, None)) for name in ("start", "send", "wait", "wake", "stop")):
            raise PipelineError(
                f"{type(target).__qualname__}._build() made an object of type {type(workers).__qualname__}, "
                "which cannot run a region's stages"
            )
        return workers  # type: ignore[no-any-return]
    if not isinstance(target, ProcessPoolExecutorConfig):
        raise PipelineError(f"a region cannot run in {target!r}: use ProcessPoolExecutorConfig")
    return ProcessWorkers(spec, num_workers_of(target), mp_context=target.mp_context, may_replace=target.restart)


def spec_of(region: Region, stage: str, options: BuildOptions) -> RegionSpec:
    """Return what the workers of a region need to know."""
    return RegionSpec(
        stage=stage,
        stages=without_executors(region.stages),
        output_size=region.output_size,
        initializer=region.target.initializer,
        initargs=region.target.initargs,
        options=for_regions(options),
        first_pipeline_id=PIPELINE_IDS.peek(),
    )


def num_workers_of(target: ExecutorConfig) -> int:
    return usable_cpus() if target.max_workers is None else target.max_workers


class Slot(NamedTuple):
    """The current worker of one index."""

    generation: int
    port: Port


class LinkedWorkers:
    """Base class of workers behind links, independent of the owner of the processes. See ``RegionWorkers``."""

    may_resize = False

    def __init__(self, stage: str, num_workers: int, *, may_replace: bool) -> None:
        self.num_workers = num_workers
        self.may_replace = may_replace
        self.waits_until_ready = may_replace  # so that a worker that dies while starting holds no items
        self.stage = stage
        self.talk = RegionTalk()
        self._slots: list[Slot] = []
        self._callers: dict[int, Caller] = {}  # of each worker
        self._watched: set[int] = set()  # workers that are, or are thought to be, alive
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def _open_bell(self) -> None:
        self._bell = socket.socketpair()
        for end in self._bell:
            end.setblocking(False)

    def _close_bell(self) -> None:
        if self._bell is not None:
            for end in self._bell:
                end.close()

    def _begin(self, index: int, slot: Slot) -> None:
        """Begin the conversation with a worker."""
        self._callers[index] = Caller()
        if index < len(self._slots):
            self._slots[index] = slot
        else:
            self._slots.append(slot)
        self.talk.begin(index)
        self._watched.add(index)
        with suppress(OSError):  # the worker has already died, which the next receive reports
            slot.port.link.send(Request.START, self.talk.conversation, self.stage)

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> list[tuple[int, Exception]]:
        slot = self._slots[worker]
        if slot.generation != generation:
            return []
        link = slot.port.link
        frames, refused = self.talk.encode(link, transfer, num_credits, then)
        with suppress(OSError):
            self._callers[worker].send(link, frames)
        return refused

    def wait(self) -> list[Event]:
        assert self._bell is not None
        owners = {self._slots[index].port: index for index in self._watched}
        ready = wait_any(owners, None, bell=self._bell[0].fileno())
        if not ready:
            with suppress(BlockingIOError):
                self._bell[0].recv(1024)
        events: list[Event] = []
        for port in ready:
            self._receive(owners[port], events)
        return events

    def _receive(self, index: int, events: list[Event]) -> None:
        """Receive all available messages of one worker."""
        port = self._slots[index].port
        try:
            while True:
                frame = port.recv(0)
                event = self.talk.hear(index, frame)
                if event is not None:
                    events.append(event)
                frame = event = None  # type: ignore[assignment] # this frame must not keep items alive
                if not port.link.has_frame():
                    return
        except TimeoutError:  # only part of a frame has arrived
            return
        except WorkerDiedError as exc:
            events.append(Died(index, exc))
        except WorkerError as exc:
            events.append(Failed(index, exc))
        except PipelineStateError:  # stopped because the interpreter exits
            pass
        self._watched.discard(index)

    def wake(self) -> None:
        if self._bell is not None:
            with suppress(OSError):  # full: the wake-up is already pending; closed: no thread waits
                self._bell[1].send(b"\0")


class ProcessWorkers(LinkedWorkers):
    """Worker processes started, and owned, by this one."""

    may_resize = True

    def __init__(self, spec: RegionSpec, num_workers: int, *, mp_context: str | None, may_replace: bool) -> None:
        super().__init__(spec.stage, num_workers, may_replace=may_replace)
        self._spec = spec
        self._mp_context = mp_context
        self._children: list[Child] = []
        self._stopping = threading.Lock()
        self._is_stopped = False

    def start(self) -> None:
        self._open_bell()
        for _ in range(self.num_workers):
            self.add()

    def add(self) -> None:
        index = len(self._children)
        self._children.append(start_worker(run_worker, self._spec, index, mp_context=self._mp_context))
        self._begin(index, Slot(0, self._children[index]))

    def retire(self, worker: int, *, at_once: bool) -> None:
        child = self._children[worker]
        child.is_retired = True
        if at_once:
            child.kill()
        else:
            child.link.end_sending()

    def replace(self, worker: int, done: Sequence[int]) -> None:
        self._children[worker].stop()
        child = self._children[worker] = start_worker(run_worker, self._spec, worker, mp_context=self._mp_context)
        self._begin(worker, Slot(self._slots[worker].generation + 1, child))

    def stop(self, timeout: float) -> list[int]:
        with self._stopping:
            if self._is_stopped:
                return []
            self._is_stopped = True
            for child in self._children:
                child.link.end_sending()  # tell all workers to end before waiting for the first
            deadline = monotonic() + timeout
            killed = []
            for index, child in enumerate(self._children):
                if not child._join(max(0.0, deadline - monotonic())):
                    child.kill()
                    killed.append(index)
            for child in self._children:
                child.stop()
            self._close_bell()
            del self._spec  # the statistics must not keep the user's ops alive
            return killed

    def kill(self) -> None:
        for child in list(self._children):
            child.kill()

    def describe(self, worker: int) -> str:
        pid = f" (pid {self._children[worker].pid})" if worker < len(self._children) else ""
        return f"worker {worker}{pid}"


def start_worker(body: Callable[..., None], spec: RegionSpec, index: int, *args: Any, mp_context: str | None) -> Child:
    return Child.start(
        body,
        spec,
        index,
        *args,
        name=f"spdl-region-worker-{index}",
        what=f"worker {index} of {spec.stage}",
        mp_context=mp_context,
        has_rings=True,
    )


def move_regions(
    config: PipelineConfig[Any], options: BuildOptions, workers: MovedWorkers, mp_context: str | None = None
) -> PipelineConfig[Any]:
    """Start the workers of all regions of ``config``, including merged pipelines.

    Args:
        config: Description of a pipeline that will run in another process.
        options: Options of that pipeline.
        workers: Gets the workers that are started, and the link ends for the process where the pipeline runs.
        mp_context: Start method of workers whose region does not set one.

    Returns:
        The description to send to the new process, once, as an argument of that process.

    Raises:
        ValueError: A region has ``restart=True``: the new workers could not be reached from the other process.
        Exception: An error of starting a process.
    """

    def move(cfg: PipelineConfig[Any]) -> list[StageConfig]:
        # One for each mark that opens a region, in their order.
        marks = iter([moved(part) for part in split_regions(cfg.pipes) if isinstance(part, Region)])
        return [next(marks) if _opens(stage) else stage for stage in cfg.pipes]

    def moved(region: Region) -> PlacementConfig:
        target = region.target
        if not isinstance(target, ProcessPoolExecutorConfig):
            return region.mark
        if target.restart:
            raise ValueError(f"restart=True is not available for a region of a pipeline in a subprocess: {target!r}")
        spec = spec_of(region, region.name, options)
        attached = AttachedWorkersConfig(num_workers_of(target))
        for index in range(num_workers_of(target)):
            near, far = link_ends()
            try:
                context = target.mp_context or mp_context
                child = start_worker(run_moved_worker, spec, index, near, mp_context=context)
            except BaseException:
                far.close()
                raise
            finally:
                near.close()
            workers.add(child, far, is_awaited=False)
            attached.ends.append(far)
        return replace(region.mark, target=attached)

    return config._with_pipes(move)


def _opens(stage: object) -> bool:
    return isinstance(stage, PlacementConfig) and isinstance(stage.target, ExecutorConfig)


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
                slot.port.link.send(Request.CLOSE)
        self._slots = [Slot(-1, slot.port) for slot in self._slots]  # messages that are still being sent are ignored
        self._close_bell()
        return []

    def kill(self) -> None:
        """Do nothing: the process that owns the workers ends them."""

    def describe(self, worker: int) -> str:
        return f"worker {worker}"
