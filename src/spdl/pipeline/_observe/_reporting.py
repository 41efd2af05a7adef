"""Reports statistics at intervals, and totals at the end: of one stage, or of a whole pipeline as one block."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from textwrap import wrap

import spdl.pipeline._asyncio as asyncio
from spdl._failure_log import log_failed
from spdl._reports import log
from spdl.pipeline._observe._stats import PipelineStats
from spdl.pipeline._observe._units import duration

_LOG = logging.getLogger(__name__)


async def report_every(interval: float, report: Callable[[], Awaitable[None]], what: str) -> None:
    """Await ``report()`` every ``interval`` seconds until cancelled; return at once if the interval is not positive.

    An exception of a report is logged, and reporting continues.
    """
    if interval <= 0:
        return
    seen: Counter[str] = Counter()
    while True:
        await asyncio.sleep(interval)
        try:
            await report()
        except Exception as exc:  # noqa: BLE001 - user code: a failed report must not end the reporting
            log_failed(_LOG, seen, "report", "Report of %s failed; the next is in %g s", what, interval, error=exc)


@asynccontextmanager
async def report_around_stage(
    run_interval: Callable[[], Awaitable[None]], log_totals: Callable[[], None], interval: float
) -> AsyncIterator[None]:
    """Run interval reports while the body runs, then log totals, even if the body raises."""
    task = asyncio.ensure_future(run_interval()) if interval > 0 else None
    try:
        yield
    finally:
        try:
            if task is not None:
                task.cancel()
                # wait(), not ``await task``: it raises only if this coroutine itself is cancelled.
                await asyncio.wait([task])
        finally:
            log_totals()


_PIPELINE_LOG = logging.getLogger("spdl.pipeline")
_WIDTH = 97  # of a heading: with its indentation, the width of the table


class BlockReport:
    """The reports of the default hook and queue, every ``interval`` seconds; not positive: only at the end."""

    def __init__(self, interval: float, read: Callable[[], PipelineStats]) -> None:
        self._interval = interval
        self._read = read
        self._before: PipelineStats | None = None

    async def run(self) -> None:
        """Report every interval until cancelled."""
        self._before = self._read()
        await report_every(self._interval, self._report, "the statistics")

    async def _report(self) -> None:
        assert self._before is not None
        before, self._before = self._before, self._read()
        _log(self._before - before, f"in the last {duration(self._interval)}")

    def log_totals(self) -> None:
        """Log the statistics since the start."""
        stats = self._read()
        if stats.elapsed > 0:
            _log(stats, "in total")


def _log(stats: PipelineStats, when: str) -> None:
    if not _PIPELINE_LOG.isEnabledFor(logging.INFO):  # do not format a table that is not logged
        return
    number = stats.stages[-1].info.pipeline_id
    heading, _, table = f"pipeline {number} {when}: {stats}".partition("\n")
    log(_PIPELINE_LOG, logging.INFO, "%s\n%s", "\n   ".join(wrap(heading, _WIDTH)), table)
