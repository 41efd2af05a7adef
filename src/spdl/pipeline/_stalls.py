"""``stall_timeout``: has an engine watched, with the native watchdog and the report."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from ._engine._counts import take_calls, take_counts
from ._engine._deadlines import Deadlines
from ._engine._stalls import LivedClock, RunClock, StallWatch
from ._observe._dump import Moment, dump_as_text
from ._observe._snapshot import stats_of

if TYPE_CHECKING:
    from ._engine import Engine

__all__ = ["moment_of", "watch_stalls"]

#: Without native code: the most seconds between two looks that count.
_LONGEST = 1.0


def watch_stalls(engine: Engine, seconds: float, action: Literal["log", "raise"]) -> None:
    """Report it when nothing moves in ``engine`` for so long while its consumer waits. Before the start."""
    watch = StallWatch(engine, float(seconds), action == "raise", _describe, _make_clock)
    engine.shared_lane(Deadlines).call_regularly(watch)


def moment_of(engine: Engine) -> Moment:
    """Return what a pipeline does right now."""
    return Moment(engine.pipeline_id, stats_of(take_counts(engine)), take_calls(engine))


def _describe(engine: Engine) -> str:
    return dump_as_text([moment_of(engine)])


def _make_clock() -> RunClock:
    try:
        from spdl._processes._memory import Watchdog
    except ImportError:  # a source tree that was not built
        return LivedClock(_LONGEST)
    try:
        return Watchdog(_stderr())
    except OSError:  # no threads or descriptors left, or no stderr
        return LivedClock(_LONGEST)


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # none, or one of the user's that is no file
        return 2
