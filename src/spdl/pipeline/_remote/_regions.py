"""The workers of a region, on the side of the pipeline that uses them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple, Protocol

from spdl._errors import PipelineError, PipelineStateError, WorkerDiedError, WorkerError
from spdl._processes._child import Child
from spdl._processes._environment import Environment
from spdl._processes._transport import Frame, Link, wait_readable
from spdl.pipeline._cpus import usable_cpus
from spdl.pipeline._engine._region._workers import Died, Event, Failed, RegionWorkers, Then
from spdl.pipeline._info import StageInfo
from spdl.pipeline._pipeline_ids import PIPELINE_IDS
from spdl.pipeline.defs import ExecutorConfig, MaxFailures, ProcessPoolExecutorConfig, Region, without_executors

from ._protocol import ToRegionWorker
from ._region_main import RegionSpec, run_worker
from ._region_talk import RegionTalk


def make_workers(
    region: Region,
    info: StageInfo,
    *,
    num_threads: int | None,
    max_failures: MaxFailures,
    interval: float,
    seed: int = 0,
) -> RegionWorkers:
    """Make the workers of ``region``, a stage of a pipeline, without starting them."""
    target = region.target
    spec = spec_of(region, str(info), num_threads, max_failures, interval, seed)
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


def spec_of(
    region: Region, stage: str, num_threads: int | None, max_failures: MaxFailures, interval: float, seed: int
) -> RegionSpec:
    """Return what the workers of a region need to know."""
    return RegionSpec(
        stage=stage,
        stages=without_executors(region.stages),
        output_size=region.output_size,
        initializer=region.target.initializer,
        initargs=region.target.initargs,
        num_threads=num_threads,
        max_failures=max_failures,
        interval=interval,
        first_pipeline_id=PIPELINE_IDS.peek(),
        seed=seed,
    )


def num_workers_of(target: ExecutorConfig) -> int:
    return usable_cpus() if target.max_workers is None else target.max_workers


class _Port(Protocol):
    """The connection to one worker: a ``Child``, or a connection to a worker that another process owns."""

    link: Link

    def recv(self, timeout: float | None = None) -> Frame:
        """Return the next frame. Raises ``WorkerDiedError``, ``WorkerError`` or ``TimeoutError``."""

    def descriptors(self) -> list[int]:
        """File descriptors that become readable when a message arrives or the worker dies."""


class Slot(NamedTuple):
    """The current worker of one index."""

    generation: int
    port: _Port


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
        self._environments: dict[int, Environment] = {}  # of each worker
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
        self._environments[index] = Environment()
        if index < len(self._slots):
            self._slots[index] = slot
        else:
            self._slots.append(slot)
        self.talk.begin(index)
        self._watched.add(index)
        with suppress(OSError):  # the worker has already died, which the next receive reports
            slot.port.link.send(ToRegionWorker.OPEN, self.talk.conversation, self.stage)

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> list[tuple[int, Exception]]:
        slot = self._slots[worker]
        if slot.generation != generation:
            return []
        link = slot.port.link
        frames, refused = self.talk.encode(link, transfer, num_credits, then)
        with suppress(OSError):
            if changes := self._environments[worker].changes():
                link.send(ToRegionWorker.ENVIRONMENT, 0, changes)
            link.send_encoded(frames)
        return refused

    def wait(self) -> list[Event]:
        assert self._bell is not None
        bell = self._bell[0]
        slots = self._slots
        ready = [index for index in self._watched if slots[index].port.link.has_frame()]
        if not ready:
            owners = {each: index for index in self._watched for each in slots[index].port.descriptors()}
            for each in wait_readable([*owners, bell.fileno()], None):
                if each in owners:
                    ready.append(owners[each])
                else:
                    with suppress(BlockingIOError):
                        bell.recv(1024)
        events: list[Event] = []
        for index in dict.fromkeys(ready):
            self._receive(index, events)
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
        self._begin(index, Slot(0, _ChildPort(self._children[index])))

    def retire(self, worker: int, *, at_once: bool) -> None:
        child, port = self._children[worker], self._slots[worker].port
        assert isinstance(port, _ChildPort)
        port.descriptors = child._ends  # only its end is left to wait for, which is received like any other message
        if at_once:
            child.kill()
        else:
            child.link.end_sending()

    def replace(self, worker: int, done: Sequence[int]) -> None:
        self._children[worker].stop()
        child = self._children[worker] = start_worker(run_worker, self._spec, worker, mp_context=self._mp_context)
        self._begin(worker, Slot(self._slots[worker].generation + 1, _ChildPort(child)))

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


class _ChildPort:
    """A worker that is a child of this process."""

    def __init__(self, child: Child) -> None:
        self.link = child.link
        self.recv = child.recv
        self.descriptors: Callable[[], list[int]] = child._descriptors


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
