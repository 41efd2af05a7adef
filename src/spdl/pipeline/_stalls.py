"""``stall_timeout``: watches an engine with the native watchdog, and writes the report of a stall."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from ._engine._counts import take_calls, take_counts
from ._engine._deadlines import Deadlines
from ._engine._stalls import LivedClock, RunClock, StallWatch
from ._observe._dump import Moment, dump_as_text
from ._observe._snapshot import stats_of

if TYPE_CHECKING:
    from ._engine._engine import Engine

#: Without the native watchdog: of the time between two checks, at most this many seconds count.
_LONGEST = 1.0


def watch_stalls(engine: Engine, seconds: float, action: Literal["log", "raise"]) -> None:
    """Report when ``engine`` makes no progress for ``seconds`` while its consumer waits. Call before the start."""
    watch = StallWatch(engine, float(seconds), action == "raise", _describe, _make_clock)
    engine.shared_lane(Deadlines).call_regularly(watch)


def moment_of(engine: Engine) -> Moment:
    """Return what the pipeline of an engine is doing right now."""
    return Moment(engine.pipeline_id, stats_of(take_counts(engine)), take_calls(engine))


def _describe(engine: Engine) -> str:
    return dump_as_text([moment_of(engine)])


def _make_clock() -> RunClock:
    from spdl._processes._memory import Watchdog  # imported late: few pipelines need it

    try:
        return Watchdog(_stderr())
    except OSError:  # no threads or descriptors left, or no stderr
        return LivedClock(_LONGEST)


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # no stderr, or a user's object that is not a file
        return 2
