"""One peer of a ``Contest`` in one process: ``python -m benchmarks._contest.adapter_worker SESSIONS ADAPTER``.

``SESSIONS`` is a module with ``open(adapter, task) -> Session | None`` (see ``session``), ``ADAPTER`` the module that
uses the peer. It has ``versions() -> dict[str, str]`` and whatever the sessions of its benchmark need.
"""

import gc
import importlib
import sys
from collections.abc import Callable
from typing import Any

from .session import Session, Task
from .worker import serve


class Commands:
    """The commands of the runner, for one session at a time."""

    def __init__(self, sessions: Any, adapter: Any) -> None:
        self._sessions, self._adapter = sessions, adapter
        self._session: Session | None = None

    def describe(self) -> dict[str, Any]:
        """The versions, and the folders from which ``spdl`` is imported."""
        versions = self._adapter.versions()
        spdl = sys.modules.get("spdl")
        return {"versions": versions, "spdl": list(spdl.__path__) if spdl is not None else []}

    def open(self, **task: Any) -> bool:
        """False if the peer cannot do the case."""
        self.close()
        self._session = self._sessions.open(self._adapter, Task(**task))
        return self._session is not None

    def save(self, to: str) -> dict[str, Any]:
        """The lists among the outputs, and whether there are arrays, which are written to a file."""
        outputs = self._opened.outputs()
        arrays = {name: value for name, value in outputs.items() if not isinstance(value, list)}
        if arrays:
            import numpy as np

            np.savez(to, **arrays)
        lists = {name: value for name, value in outputs.items() if isinstance(value, list)}
        return {"lists": lists, "is_saved": bool(arrays)}

    def calibrate(self, seconds: float) -> dict[str, float]:
        return dict(self._opened.calibrate(seconds))

    def measure(self) -> dict[str, Any]:
        return dict(self._opened.measure())

    def finish(self) -> dict[str, float]:
        return dict(self._opened.finish())

    def close(self) -> None:
        """Close the session if there is one. What it refers to is freed before the next one is opened."""
        if self._session is not None:
            self._session.close()
            self._session = None
            gc.collect()

    @property
    def _opened(self) -> Session:
        assert self._session is not None  # the runner asks only after a successful ``open``
        return self._session


def main(sessions: str, adapter: str) -> None:
    def make() -> dict[str, Callable[..., Any]]:
        commands = Commands(importlib.import_module(sessions), importlib.import_module(adapter))
        names = ("describe", "open", "save", "calibrate", "measure", "finish", "close")
        return {name: getattr(commands, name) for name in names}

    serve(make)


if __name__ == "__main__":
    main(*sys.argv[1:])
