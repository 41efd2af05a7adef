"""Workers of this process that are not its children: where they run, and their views.

Objects that own such workers register themselves. ``spdl stats``, ``spdl dump`` and stall reports then show these
workers together with the children of this process.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

_LOG = logging.getLogger("spdl.pipeline")
#: Time limit in seconds for the answers of all workers together.
_TIMEOUT: Final = 2.0


class WorkerElsewhere(NamedTuple):
    """A worker that is not a child of this process."""

    pid: int
    host: str | None  #: ``None``: it runs on this machine, in our pid namespace
    what: str


class OwnerElsewhere(Protocol):
    """An object that owns such workers."""

    def workers(self) -> list[WorkerElsewhere]:
        """Return the running workers. Never blocks."""

    def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
        """Return the workers with their answers for ``view``; ``None`` for a worker that has not answered in time."""


class _Owners:
    """All owners of this process, by weak references.

    Takes no lock: each access is one dictionary operation, even if an owner is collected at the same time.
    """

    def __init__(self) -> None:
        self._found: dict[int, weakref.ref[Any]] = {}

    def add(self, owner: OwnerElsewhere) -> None:
        key, found = id(owner), self._found
        found[key] = weakref.ref(owner, lambda _: found.pop(key, None))

    def discard(self, owner: OwnerElsewhere) -> None:
        self._found.pop(id(owner), None)

    def _owners(self) -> list[Any]:
        owners = [reference() for reference in self._found.copy().values()]
        return [owner for owner in owners if owner is not None]

    def workers(self) -> list[WorkerElsewhere]:
        found = [worker for owner in self._owners() for worker in owner.workers()]
        return sorted(found, key=lambda worker: (worker.host or "", worker.pid))

    def ask(self, view: str, timeout: float = _TIMEOUT) -> list[tuple[WorkerElsewhere, Any]]:
        """Return all workers with their answers; ``None`` for those that do not answer.

        Asks in another thread, because the transport may hang.
        """
        owners = self._owners()
        answers: list[tuple[WorkerElsewhere, Any]] = []
        if not owners:
            return answers

        def ask_all() -> None:
            for owner in owners:
                try:
                    answers.extend(owner.ask(view, timeout / len(owners)))
                except Exception:  # noqa: BLE001 # whatever carries the question; the others are asked all the same
                    _LOG.warning("the workers of %s cannot be asked for their %s", owner, view, exc_info=True)

        thread = threading.Thread(target=ask_all, name="spdl-ask-elsewhere", daemon=True)
        thread.start()
        thread.join(timeout + 1.0)
        found = {(worker.pid, worker.host): answer for worker, answer in list(answers)}
        return [(worker, found.get((worker.pid, worker.host))) for worker in self.workers()]


ELSEWHERE: Final = _Owners()


def pid_space() -> str:
    """Return an identifier of the pid namespace: equal in processes that see each other's pids; empty if unknown."""
    if sys.platform == "linux":
        with suppress(OSError):
            with open("/proc/sys/kernel/random/boot_id") as file:
                boot = file.read().strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""
