"""``Observer``: the statistics and the verdict of one pipeline, for its handle and for objects that outlive it.

``LIVE`` has the pipelines of this process, for exporters.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spdl._errors import PipelineStateError
from spdl._failure_log import log_failed_item

from ._engine._core import EngineState
from ._engine._counts import take_counts
from ._observe._snapshot import stats_of

if TYPE_CHECKING:
    from ._engine._engine import Engine
    from ._observe._advice import User
    from ._observe._sampling import Sampling
    from ._observe._snapshot import History
    from ._observe._stats import PipelineStats
    from ._observe._verdict import Verdict

#: A pipeline is measured from so many seconds after its start on, if its reader waits. Shorter runs have no verdict.
MEASURED_AFTER = 0.25
#: Statistics reuse a reading of CPU times and samples for so many seconds.
_FRESH = 0.1


class Observer:
    """The statistics and the verdict of one pipeline. Thread-safe.

    Refers to the engine, not to the handle, so that the pipeline can be garbage collected.
    """

    def __init__(self, engine: Engine, history: History) -> None:
        self._engine = engine
        self._history = history
        self._lock = threading.Lock()
        self._is_asked = False  # measure from the very start
        self._sampling: Sampling | None = None
        if engine.judges_stages:  # nobody asks a worker of a region
            engine.begin_measuring, engine.measured_after = self.measure, MEASURED_AFTER

    def stats(self) -> PipelineStats:
        """See ``Pipeline.stats``."""
        counts = take_counts(self._engine)
        sampling = self._sampling
        found = stats_of(counts) if sampling is None else stats_of(counts, sampling.read(_FRESH), sampling.since)
        return self._history.extended(found)

    def verdict(self, seconds: float | None = None, user: User = "pipeline") -> Verdict:
        """See ``Pipeline.verdict``. ``user``: the interface whose arguments the advice names."""
        if seconds is not None and self._engine.state is EngineState.NEW:
            raise PipelineStateError(
                f"cannot measure pipeline {self._engine.pipeline_id} for {seconds:g} s: it has not been started. "
                "Call verdict() without seconds before the first read, and again later"
            )
        self.measure()
        stats = self.stats()
        if seconds is not None:
            self._engine.stopped.wait(seconds)
            stats = self.stats() - stats
        return judged(stats, user)

    def stats_and_verdict(self) -> tuple[PipelineStats, Verdict]:
        """Return both, from one reading of the counters."""
        self.measure()
        stats = self.stats()
        return stats, judged(stats)

    def count_failures_in(self, seen: Counter[str]) -> None:
        """Count failures, for their log, together with those of earlier pipelines. Before the start."""
        self._engine.report_failure = partial(log_failed_item, seen)

    def measure(self) -> None:
        """Start the measurement for verdicts; before the start of the pipeline, request it. Idempotent."""
        with self._lock:
            self._is_asked = True
        self.on_started()

    def on_started(self) -> None:
        """Start the measurement if it was requested and the pipeline runs."""
        if not self._is_asked:
            return
        with self._lock:
            if self._sampling is not None or self._engine.state is not EngineState.RUNNING:
                return
            from ._engine._published import Published
            from ._observe._sampling import Sampling

            engine = self._engine
            since = stats_of(take_counts(engine))
            self._sampling = Sampling(since, lambda board: Published(engine, board))
            engine.on_ended.append(self._sampling.end)


def judged(stats: PipelineStats, user: User = "pipeline") -> Verdict:
    """Return the verdict on statistics. ``user``: the interface whose arguments the advice names."""
    from ._observe._judging import judge  # imported late: most pipelines are not observed

    return judge(stats, user)


class _LivePipelines:
    """All ``Pipeline`` objects. Takes no lock: each access is one operation of a dictionary.

    The type is ``Any`` because ``_pipeline`` imports this file.
    """

    def __init__(self) -> None:
        self._found: dict[int, weakref.ref[Any]] = {}

    def add(self, pipeline: Any) -> None:
        key, found = id(pipeline), self._found
        found[key] = weakref.ref(pipeline, lambda _: found.pop(key, None))

    def started(self) -> list[Any]:
        """Return the pipelines that were started in this process, oldest first; also those that have ended."""
        held = [ref() for ref in self._found.copy().values()]
        mine = [each for each in held if each is not None and each._was_started and not each._engine.is_forked]
        return sorted(mine, key=lambda pipeline: pipeline._engine.pipeline_id)


LIVE: Final = _LivePipelines()
