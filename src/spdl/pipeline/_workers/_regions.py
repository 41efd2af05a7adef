"""The workers of a region, on the side of the pipeline that owns them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final, NamedTuple

from spdl.pipeline._cpus import usable_cpus
from spdl.pipeline._engine._region_workers import Died, Event, Failed, RegionWorkers, Report, Then, Told, Unreadable
from spdl.pipeline._errors import PipelineError, WorkerDiedError, WorkerError
from spdl.pipeline._info import StageInfo
from spdl.pipeline._pipeline_ids import PIPELINE_IDS
from spdl.pipeline._transport import NOTHING
from spdl.pipeline._transport._link import wait_readable
from spdl.pipeline.defs import ExecutorConfig, ProcessPoolExecutorConfig, Region, without_executors

from ._child import Child
from ._protocol import FromRegionWorker, ToRegionWorker
from ._region_main import RegionSpec, run_worker

__all__ = ["ProcessWorkers", "make_workers"]

_ENDS: Final = {Then.MARK: ToRegionWorker.MARK, Then.END: ToRegionWorker.END}
_REPORTS: Final = {
    FromRegionWorker.REPORT: Then.NOTHING,
    FromRegionWorker.AT_MARK: Then.MARK,
    FromRegionWorker.AT_END: Then.END,
}


def make_workers(
    region: Region, info: StageInfo, *, num_threads: int | None, max_failures: int | Fraction, interval: float
) -> RegionWorkers:
    """What runs ``region`` in the pipeline whose stage it is. Nothing is started."""
    target = region.target
    spec = RegionSpec(
        stage=str(info),
        stages=without_executors(region.stages),
        output_size=region.output_size,
        initializer=target.initializer,
        initargs=target.initargs,
        num_threads=num_threads,
        max_failures=max_failures,
        interval=interval,
        first_pipeline_id=PIPELINE_IDS.peek(),
    )
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
    num = usable_cpus() if target.max_workers is None else target.max_workers
    return ProcessWorkers(spec, num, mp_context=target.mp_context, may_replace=target.restart)


class _Slot(NamedTuple):
    """Who is worker number k at present."""

    generation: int
    child: Child


class ProcessWorkers:
    """Worker processes started by this one. See ``RegionWorkers``."""

    def __init__(self, spec: RegionSpec, num_workers: int, *, mp_context: str | None, may_replace: bool) -> None:
        self.num_workers = num_workers
        self.may_replace = may_replace
        self._spec = spec
        self._mp_context = mp_context
        self._slots: list[_Slot] = []
        self._outputs: list[list[Any]] = [[] for _ in range(num_workers)]  # received, their report has yet to come
        self._ready = [False] * num_workers
        self._watched: set[int] = set()  # workers that are, or are thought to be, alive
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._stopping = threading.Lock()
        self._is_stopped = False

    def start(self) -> None:
        here, there = self._bell = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        for index in range(self.num_workers):
            self._slots.append(_Slot(0, self._start(index)))
            self._watched.add(index)

    def _start(self, index: int) -> Child:
        spec = self._spec
        child = Child.start(
            run_worker,
            spec,
            index,
            name=f"spdl-{spec.stage}-worker-{index}",
            what=f"worker {index} of {spec.stage}",
            mp_context=self._mp_context,
        )
        with suppress(OSError):  # it has died already, which is seen when it is received from
            child.link.send(ToRegionWorker.OPEN)
        return child

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> list[tuple[int, Exception]]:
        slot = self._slots[worker]
        if slot.generation != generation:
            return []
        link = slot.child.link
        empty = link.encode(NOTHING)
        frames = []
        refused: list[tuple[int, Exception]] = []
        for position, value in transfer:
            try:
                frames.append((ToRegionWorker.ITEM, position, link.encode(value)))
            except Exception as exc:  # noqa: BLE001 - pickling runs the user's code
                refused.append((position, exc))
        if transfer:
            frames.append((ToRegionWorker.DEALT, 0, empty))
        if num_credits:
            frames.append((ToRegionWorker.CREDIT, num_credits, empty))
        if then is not Then.NOTHING:
            frames.append((_ENDS[then], 0, empty))
        with suppress(OSError):
            link.send_encoded(frames)
        return refused

    def wait(self) -> list[Event]:
        assert self._bell is not None
        bell = self._bell[0]
        slots = self._slots
        ready = [index for index in self._watched if slots[index].child.link.has_frame()]
        if not ready:
            owners = {each: index for index in self._watched for each in slots[index].child._descriptors()}
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
        """Everything that is there of one worker."""
        child = self._slots[index].child
        try:
            while True:
                frame = child.recv(0)
                kind = frame.kind
                if kind == FromRegionWorker.OUTPUT:
                    try:
                        value = frame.load()
                    except Exception as exc:  # noqa: BLE001 - unpickling runs the user's code
                        value = Unreadable(exc)
                    self._outputs[index].append(value)
                    del value
                elif kind in _REPORTS:
                    report: Report = frame.load()
                    values, self._outputs[index] = self._outputs[index], []
                    events.append(Told(index, values, report, _REPORTS[FromRegionWorker(kind)]))
                    del values
                elif kind == FromRegionWorker.READY:
                    self._ready[index] = True
                elif kind == FromRegionWorker.BROKEN:
                    text, trace = frame.load()
                    events.append(Failed(index, WorkerError(f"{text}\n{trace}", remote_traceback=trace)))
        except TimeoutError:
            return
        except WorkerDiedError as exc:
            events.append(Died(index, exc, self._ready[index]))
        except WorkerError as exc:
            events.append(Failed(index, exc))
        self._watched.discard(index)

    def wake(self) -> None:
        if self._bell is not None:
            with suppress(OSError):  # full: it rings already; closed: nobody waits
                self._bell[1].send(b"\0")

    def replace(self, worker: int) -> None:
        old = self._slots[worker]
        old.child.stop()
        child = self._start(worker)
        self._outputs[worker] = []
        self._ready[worker] = False
        self._slots[worker] = _Slot(old.generation + 1, child)
        self._watched.add(worker)

    def stop(self, timeout: float) -> list[int]:
        with self._stopping:
            if self._is_stopped:
                return []
            self._is_stopped = True
            for slot in self._slots:
                slot.child.link.close()  # all get the word before any is waited for
            killed = []
            for index, slot in enumerate(self._slots):
                was_alive = slot.child.is_alive()
                slot.child.stop(timeout)
                if was_alive and slot.child.exit_code() not in (0, None):
                    killed.append(index)
            if self._bell is not None:
                for end in self._bell:
                    end.close()
            return killed

    def describe(self, worker: int) -> str:
        pid = f" (pid {self._slots[worker].child.pid})" if worker < len(self._slots) else ""
        return f"worker {worker}{pid}"
