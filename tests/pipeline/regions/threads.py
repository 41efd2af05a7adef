"""Workers of a region on threads of this process, over the same connections: fast, and they can be killed at will."""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._frame import Frame
from spdl.pipeline import WorkerDiedError
from spdl.pipeline._remote._region_main import RegionSpec, serve
from spdl.pipeline._remote._regions import LinkedWorkers, Slot
from spdl.pipeline.defs import ExecutorConfig


class _Port:
    """A worker on a thread. Killed, it is heard of no more."""

    def __init__(self, spec: RegionSpec, index: int) -> None:
        spec = deepcopy(spec)  # each worker has its own aggregators, as elsewhere
        self.index = index
        self.link, end = link_pair(0)
        there = end.open()

        def run() -> None:
            with there:
                serve(there, spec, index)

        self.thread = threading.Thread(target=run, name=f"worker-{index}", daemon=True)
        self.thread.start()

    def recv(self, timeout: float | None = None) -> Frame:
        try:
            return self.link.recv(timeout)
        except (EOFError, ValueError):
            raise WorkerDiedError(f"worker {self.index} was killed", exit_code=-9) from None

    def kill(self) -> None:
        """Nothing that it has sent and that was not received arrives any more."""
        with suppress(OSError):  # it is dead, and about to be replaced
            self.link._socket.shutdown(socket.SHUT_RDWR)

    def descriptors(self) -> list[int]:
        return [self.link.fileno()]


class ThreadWorkers(LinkedWorkers):
    """The workers of one region."""

    may_resize = True

    def __init__(self, spec: RegionSpec, num_workers: int, *, may_replace: bool) -> None:
        super().__init__(spec.stage, num_workers, may_replace=may_replace)
        self.spec = spec
        self.ports: list[_Port] = []
        self.all_ports: list[_Port] = []

    def start(self) -> None:
        self._open_bell()
        for _ in range(self.num_workers):
            self.add()

    def add(self) -> None:
        index = len(self.ports)
        self.ports.append(self._start(index))
        self._begin(index, Slot(0, self.ports[index]))

    def retire(self, worker: int, *, at_once: bool) -> None:
        if at_once:
            self.ports[worker].kill()
        else:
            self.ports[worker].link.end_sending()

    def _start(self, index: int) -> _Port:
        port = _Port(self.spec, index)
        self.all_ports.append(port)
        return port

    def replace(self, worker: int, done: Sequence[int]) -> None:
        self.ports[worker].link.close()
        port = self.ports[worker] = self._start(worker)
        self._begin(worker, Slot(self._slots[worker].generation + 1, port))

    def stop(self, timeout: float) -> list[int]:
        for port in self.all_ports:
            port.link.close()
        for port in self.all_ports:
            port.thread.join(timeout)
        self._close_bell()
        return [port.index for port in self.ports if port.thread.is_alive()]

    def kill(self) -> None:
        for port in self.ports:
            port.kill()

    def describe(self, worker: int) -> str:
        return f"worker {worker}"


@dataclass(frozen=True)
class ThreadWorkersConfig(ExecutorConfig):
    """Target of a region with such workers; ``made`` are those of each build."""

    restart: bool = False
    made: list[ThreadWorkers] = field(default_factory=list)

    def _build(self, spec: RegionSpec) -> ThreadWorkers:
        assert self.max_workers is not None
        workers = ThreadWorkers(spec, self.max_workers, may_replace=self.restart)
        self.made.append(workers)
        return workers


def kill(config: Any, index: int) -> None:
    config.made[-1].ports[index].kill()
