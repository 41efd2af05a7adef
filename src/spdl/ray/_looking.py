"""Collects the views of actors on any node for ``spdl stats`` and ``spdl dump`` of the pipeline's process."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from spdl._processes._elsewhere import WorkerElsewhere, pid_space
from spdl._reports import frames_of_threads

from ._messages import Place, import_ray

#: The concurrency group of the actors' calls.
GROUP: Final = "look"


class Seen(Protocol):
    """What is known about an actor."""

    actor: Any
    place: Place | None
    is_lost: bool


class Looking:
    """The actors of one region, shown by the pipeline's process. See ``OwnerElsewhere``."""

    def __init__(self, stage: str, ports: Sequence[Seen]) -> None:
        self._stage = stage
        self._ports = ports
        self._space = pid_space()
        self._lock = threading.Lock()
        self._asked: dict[Seen, Any] = {}  # calls that were not answered in time

    def workers(self) -> list[WorkerElsewhere]:
        return [worker for worker, _ in self._running()]

    def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
        running, ray = self._running(), import_ray()
        if not ray.is_initialized():
            return [(worker, None) for worker, _ in running]
        with self._lock:
            calls = {port: _call(port, view) for _, port in running if not self._is_silent(ray, port)}
            pending = list(calls.values())
            ready = set(ray.wait(pending, num_returns=len(pending), timeout=timeout)[0]) if pending else set()
            ports = {port for _, port in running}
            calls_left = {port: call for port, call in calls.items() if call not in ready}
            self._asked = {port: call for port, call in (self._asked | calls_left).items() if port in ports}
        return [(worker, _answer(ray, calls.get(port), ready)) for worker, port in running]

    def _running(self) -> list[tuple[WorkerElsewhere, Seen]]:
        found = []
        for index, port in enumerate(list(self._ports)):
            place = port.place
            if place is not None and not port.is_lost:
                is_here = bool(self._space) and place.space == self._space
                what = f"actor {index} of {self._stage}"
                found.append((WorkerElsewhere(place.pid, None if is_here else place.host, what), port))
        return found

    def _is_silent(self, ray: Any, port: Seen) -> bool:
        """Whether the actor has not answered the last request yet; then it is not asked again."""
        call = self._asked.get(port)
        if call is None:
            return False
        if not ray.wait([call], timeout=0)[0]:
            return True
        del self._asked[port]
        return False


def _call(port: Seen, view: str) -> Any:
    return port.actor.look.options(concurrency_group=GROUP).remote(view)


def _answer(ray: Any, call: Any, ready: set[Any]) -> Any:
    if call in ready:
        with suppress(Exception):  # it has died
            return ray.get(call)
    return None


def show(view: str) -> Any:
    """In an actor: return a view. Views are those of the monitor, and ``"stacks"``, a text."""
    from spdl.pipeline._monitoring import VIEWS

    views: dict[str, Callable[[], Any]] = {**VIEWS, "stacks": _stacks}
    return views[view]()


def _stacks() -> str:
    """The stacks of all threads but this one."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    this = threading.get_ident()
    return "\n".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame)).rstrip()}"
        for ident, frame in frames_of_threads().items()
        if ident != this
    )
