"""Workers that this process uses and that are no children of it: who they are, where they run, and what they show.

What owns such workers registers itself. ``spdl stats``, ``spdl dump`` and reports of stalls then show them beside the
children of this process.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

__all__ = ["ELSEWHERE", "OwnerElsewhere", "WorkerElsewhere", "pid_space"]

_LOG = logging.getLogger("spdl.pipeline")
#: Seconds that the workers of all owners together may take to answer.
_TIMEOUT: Final = 2.0


class WorkerElsewhere(NamedTuple):
    """A worker that is no child of this process."""

    pid: int
    host: str | None  #: ``None``: it runs on this machine, where its pid is one of ours
    what: str


class OwnerElsewhere(Protocol):
    """Owns such workers."""

    def workers(self) -> list[WorkerElsewhere]:
        """Return those that run. Never blocks."""

    def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
        """Return them with what they show as ``view``; ``None`` for one that has not answered in time."""


class _Owners:
    """All of this process. Weak references: an owner that nobody holds is not kept.

    Takes no lock: each access is one operation of a dictionary, also when an owner is collected meanwhile.
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
        """Return all workers with what they show; ``None`` for those that do not answer.

        In another thread: what carries the question may hang, as the program may.
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
    """Return what is the same in all processes whose pids mean something to each other; empty if that is not known."""
    if sys.platform == "linux":
        with suppress(OSError):
            with open("/proc/sys/kernel/random/boot_id") as file:
                boot = file.read().strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""
