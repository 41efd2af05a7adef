"""Detects a stalled pipeline: no call ends, nothing is emitted or read, and the consumer waits.

The deadlines thread compares the counters several times per timeout. Time counts only while the consumer waits and the
process runs: a consumer that does not read, SIGSTOP and a sleeping machine do not count as a stall. While native code
holds the GIL, this thread cannot run, so it arms a native thread in advance (``Watchdog``), which then writes the
stacks.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from spdl._errors import StallError
from spdl._reports import log

from ._core import EngineState

if TYPE_CHECKING:
    from ._engine import Engine

_LOG = logging.getLogger("spdl.pipeline")

#: Seconds between two checks of the counters.
_INTERVAL: Final = 0.25
#: The native thread reports this much later, in seconds, because this thread may have to wait for the GIL.
_GRACE: Final = 0.5


class RunClock(Protocol):
    """The native ``Watchdog``, or ``LivedClock`` if it cannot be started."""

    def lived(self) -> float:
        """Return the time that the process has run, in seconds, without the time that it was stopped."""

    def arm(self, seconds: float, text: str) -> None:
        """Report when the consumer has waited for ``seconds`` from now on, unless this is called again before."""

    def disarm(self) -> None:
        """Cancel the armed report."""

    def close(self) -> None:
        """End the native thread. Never blocks. The other methods may still be called."""

    def set_waiting(self, is_waiting: bool) -> None:
        """Set whether the consumer waits, from now on."""

    def take_report(self) -> bool:
        """Return whether a report was written since the last call."""


class LivedClock:
    """The clock without a native thread: the time between two calls counts, but at most ``longest`` seconds of it."""

    def __init__(self, longest: float, clock: Callable[[], float] = perf_counter) -> None:
        self._longest = longest
        self._clock = clock
        self._last = clock()
        self._lived = 0.0

    def lived(self) -> float:
        now = self._clock()
        self._lived += min(now - self._last, self._longest)
        self._last = now
        return self._lived

    def arm(self, seconds: float, text: str) -> None:
        pass

    def disarm(self) -> None:
        pass

    def close(self) -> None:
        pass

    def set_waiting(self, is_waiting: bool) -> None:
        pass

    def take_report(self) -> bool:
        return False


class StallWatch:
    """Watches one pipeline, by a weak reference. ``look`` is called on the deadlines thread every ``interval`` seconds.

    ``raises``: a stall fails the pipeline with ``StallError``; otherwise it is only logged, once per stall.
    ``make_clock`` is called at the start, and returns the clock that measures how long the process has run.
    """

    def __init__(
        self,
        engine: Engine,
        seconds: float,
        raises: bool,
        describe: Callable[[Engine], str],
        make_clock: Callable[[], RunClock],
    ) -> None:
        self.interval = min(_INTERVAL, seconds / 4)
        self._engine = weakref.ref(engine)
        self._pipeline_id = engine.pipeline_id
        self._seconds = seconds
        self._raises = raises
        self._describe = describe
        self._make_clock = make_clock
        self._clock: RunClock
        self._lived = 0.0
        self._progress = -1
        self._waited = 0.0  # by the consumer, since the start
        self._stalled = 0.0  # how long nothing has moved while the consumer waited
        self._is_reported = False

    def start(self) -> None:
        engine = self._engine()
        assert engine is not None
        self._clock = clock = self._make_clock()
        self._lived = clock.lived()
        clock.arm(self._seconds + _GRACE, self._blind_text())
        engine.sink.tell_waiting = clock.set_waiting

    def look(self) -> None:
        """Compare the counters, and report a stall."""
        engine = self._engine()
        if engine is None:
            return
        lived = self._clock.lived()
        with engine.lock:
            is_running = engine.state is EngineState.RUNNING
            progress = engine.num_moves()
            waited = engine.sink.counters.starved_until(perf_counter())
        elapsed, self._lived = lived - self._lived, lived
        elapsed_waiting, self._waited = waited - self._waited, waited
        was_blind = self._clock.take_report()
        if progress != self._progress or not is_running:
            if was_blind and not self._is_reported:
                self._report_blind(engine, is_running)
            self._go_on()
            self._progress = progress
        else:
            self._stalled += max(0.0, min(elapsed, elapsed_waiting))
        if not is_running:
            self._clock.disarm()
            return
        if self._stalled >= self._seconds and not self._is_reported:
            self._is_reported = True
            self._report(engine)
        if self._is_reported:
            self._clock.disarm()
        else:
            self._clock.arm(self._seconds - self._stalled + _GRACE, self._blind_text())

    def stop(self) -> None:
        """Stop watching: the pipeline has ended. Never blocks."""
        self._clock.close()

    def _go_on(self) -> None:
        if self._is_reported:
            log(_LOG, logging.WARNING, "pipeline %d moves again, after %.3g s", self._pipeline_id, self._stalled)
        self._stalled = 0.0
        self._is_reported = False

    def _report_blind(self, engine: Engine, is_running: bool) -> None:
        """Report a stall that is over, and during which no Python code could run."""
        text = (
            f"pipeline {self._pipeline_id} did not move for {self._seconds:.3g} s, because native code held the GIL; "
            "the stacks are on stderr"
        )
        if self._raises and is_running:
            engine.fail_stalled(StallError(f"{text}\n{self._describe(engine)}", seconds=self._seconds))
        else:
            log(_LOG, logging.ERROR, "%s", text)

    def _report(self, engine: Engine) -> None:
        text = (
            f"pipeline {self._pipeline_id} has stalled: for {self._seconds:g} s no call has ended and nothing came or "
            "went, while the consumer waits"
        )
        report = f"{text}\n{self._describe(engine)}"
        if self._raises:
            engine.fail_stalled(StallError(report, seconds=self._seconds))
        else:
            log(_LOG, logging.ERROR, "%s", report)

    def _blind_text(self) -> str:
        return (
            f"\nspdl: pipeline {self._pipeline_id} has stalled: for {self._seconds:g} s no call has ended and nothing "
            "came or went, while the consumer waits. No Python code runs: native code holds the GIL.\n"
        )
