"""``SPDL_MONITOR`` and ``Pipeline.monitor``: serve ``spdl top``, ``spdl stats`` and ``spdl dump`` from this process.

There is one server for all pipelines of the process: a daemon thread that sleeps until a reader connects.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from multiprocessing.util import Finalize
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from spdl._monitor import MonitorError
from spdl._monitor._server import Server
from spdl._processes._child import living_children
from spdl._processes._elsewhere import ELSEWHERE
from spdl._reports import describe_exception, log, shown

from ._observe._dump import dump_as_json, dump_as_text, text_of_dump
from ._observer import LIVE
from ._stalls import moment_of

if TYPE_CHECKING:
    from ._observe._dump import Moment
    from ._observe._stats import StageStats

_LOG = logging.getLogger("spdl.monitor")
#: Versions of the answers, for readers of another release.
_VERSION = 1


class Monitor:
    """An open monitor of this process; see :meth:`Pipeline.monitor`. A context manager that closes it on exit.

    Attributes:
        path: The socket, of mode 0600 in a folder of mode 0700.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._pid = os.getpid()
        self._is_open = True

    def close(self) -> None:
        """Close this monitor. The last one to close removes the socket. Idempotent; has no effect in a forked child."""
        if self._pid == os.getpid():
            _shared.leave(self)
        self._is_open = False

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Monitor at {self.path}, {'open' if self._is_open else 'closed'}>"


class _Shared:
    """The server of this process, and the number of its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._pid = os.getpid()
        self._num_users = 0
        self._is_for_ever = False
        self._has_exit_hook = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Forget the server, in a forked child: it belongs to the parent."""
        self.__dict__.update(_lock=threading.Lock(), _server=None, _num_users=0, _is_for_ever=False)
        self.__dict__.update(_pid=os.getpid(), _has_exit_hook=False)

    def enter(self, *, for_ever: bool = False) -> str:
        with self._lock:
            if self._server is None:
                self._server = Server(VIEWS)
                self._add_exit_hook()
            self._num_users += not for_ever
            self._is_for_ever = self._is_for_ever or for_ever
            return self._server.path

    def leave(self, user: Monitor) -> None:
        with self._lock:
            if not user._is_open:
                return
            user._is_open = False
            self._num_users -= 1
            if self._num_users > 0 or self._is_for_ever or self._server is None:
                return
            server, self._server = self._server, None
        server.close()

    def end(self) -> None:
        """Close the server at interpreter exit."""
        server, self._server = self._server, None
        if server is not None and self._pid == os.getpid():
            server.close()

    def _add_exit_hook(self) -> None:
        if self._has_exit_hook:
            return
        self._has_exit_hook = True
        atexit.register(self.end)
        if multiprocessing.parent_process() is not None:  # such a process does not run atexit functions
            Finalize(None, self.end, exitpriority=10)


_shared = _Shared()


def monitor() -> Monitor:
    """Open the monitor of this process. Raises ``MonitorError``."""
    return Monitor(_shared.enter())


def monitor_for_ever() -> None:
    """Open the monitor until the process ends, because ``SPDL_MONITOR`` is set. A failure is logged."""
    try:
        _shared.enter(for_ever=True)
    except MonitorError as exc:
        log(_LOG, logging.WARNING, "SPDL_MONITOR is set, and %s", exc)


def dump_text() -> str:
    """Return what all pipelines of this process do right now, with the stacks."""
    return dump_as_text(_moments())


# -- views, on the server's thread


def _dump_view() -> dict[str, Any]:
    dump = dump_as_json(_moments())
    return {**_process("dump"), **dump, "text": text_of_dump(dump)}


def _stats_view() -> dict[str, Any]:
    return {**_process("stats"), "pipelines": [_pipeline_as_json(pipeline) for pipeline in _shown()]}


#: What readers can ask for.
VIEWS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {"stats": _stats_view, "dump": _dump_view}


def _process(view: str) -> dict[str, Any]:
    """Return the view of this process, of its children, and of workers that are not its children."""
    return {
        "v": _VERSION,
        "pid": os.getpid(),
        "argv": [shown(arg, str) for arg in sys.argv],
        "children": [{"pid": pid, "what": what} for pid, what in living_children()],
        "elsewhere": [{**worker._asdict(), "answer": answer} for worker, answer in ELSEWHERE.ask(view)],
    }


def _shown() -> list[Any]:
    """Return the pipelines that have not ended; if there are none, the one that was started last."""
    started = LIVE.started()
    running = [each for each in started if each._engine.state.value in ("running", "stopping")]
    return running or started[-1:]


def _moments() -> list[Moment]:
    return [moment_of(pipeline._engine) for pipeline in _shown()]


def _pipeline_as_json(pipeline: Any) -> dict[str, Any]:
    stats, verdict = pipeline._observer.stats_and_verdict()  # the verdict: since its first request
    limiting = stats.limiting_stage
    return {
        "id": pipeline._engine.pipeline_id,
        **_values(stats, "elapsed", "state", "num_threads", "num_items", "rate", "consumer_wait"),
        "limiting_stage": None if limiting is None else str(limiting.info),
        "verdict": {**_values(verdict, "stage", "cause", "advice", "predicted_rate"), "text": str(verdict)},
        "stages": [_stage_as_json(stage) for stage in stats.stages],
    }


@lru_cache
def _names_of(cls: type[StageStats]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls) if each.name not in ("info", "failures"))


def _values(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _stage_as_json(stage: StageStats) -> dict[str, Any]:
    values = _values(stage, *_names_of(type(stage)))  # type: ignore[arg-type] # a class is hashable
    plain = {name: value for name, value in values.items() if value is None or isinstance(value, int | float | str)}
    info = stage.info
    return {
        "name": info.stage_name,
        "id": info.stage_id,
        "concurrency": info.concurrency or 1,
        **plain,
        "failures": [
            {"item": failure.item_repr, "error": describe_exception(failure.error)} for failure in stage.failures
        ],
    }
