"""Reports statistics of a stage at intervals, and totals at the end."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import spdl.pipeline._asyncio as asyncio
from spdl._failure_log import log_failed

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
