"""Logs the statistics of a whole pipeline as one block: at intervals, and at its end."""

import logging
from collections.abc import Callable
from textwrap import wrap

from spdl._reports import log
from spdl.pipeline._observe._durations import duration
from spdl.pipeline._observe._reporting import report_every
from spdl.pipeline._observe._stats import PipelineStats

_LOG = logging.getLogger("spdl.pipeline")
_WIDTH = 97  # of a heading: with its indentation, the width of the table


class BlockReport:
    """The reports of the default hook and queue.

    Args:
        interval: Seconds between reports; not positive: only at the end.
        read: Returns the statistics so far.
    """

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
    if not _LOG.isEnabledFor(logging.INFO):  # do not format a table that is not logged
        return
    number = stats.stages[-1].info.pipeline_id
    heading, _, table = f"pipeline {number} {when}: {stats}".partition("\n")
    log(_LOG, logging.INFO, "%s\n%s", "\n   ".join(wrap(heading, _WIDTH)), table)
