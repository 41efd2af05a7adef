"""Reports at intervals, and totals at the end, for whatever measures a stage."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from spdl._reports import log

__all__ = ["report_around_stage", "report_every"]

_LOG = logging.getLogger(__name__)


async def report_every(interval: float, report: Callable[[], Awaitable[None]], what: str) -> None:
    """Await ``report()`` every ``interval`` seconds until cancelled; return at once if the interval is not positive.

    An ordinary exception of a report is logged, and the next report is made as usual.
    """
    if interval <= 0:
        return
    while True:
        await asyncio.sleep(interval)
        try:
            await report()
        except Exception:  # noqa: BLE001 - a report is the user's code; it must not end the others
            log(_LOG, logging.ERROR, "Report of %s failed; the next is in %g s.", what, interval, exc_info=True)


@asynccontextmanager
async def report_around_stage(
    run_interval: Callable[[], Awaitable[None]], log_totals: Callable[[], None], interval: float
) -> AsyncIterator[None]:
    """Run interval reports while the body runs, then log totals, however the body ends."""
    task = asyncio.ensure_future(run_interval()) if interval > 0 else None
    try:
        yield
    finally:
        try:
            if task is not None:
                task.cancel()
                # wait() and not ``await task``: it raises only if we ourselves are cancelled.
                await asyncio.wait([task])
        finally:
            log_totals()
