"""``ProcessGroupStatsMonitor``: samples the resource usage of a process group from a separate process.

The process is separate because reading the memory maps of large processes takes long and would hold the GIL that the
loading threads need.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import spdl.pipeline._asyncio as asyncio
from spdl._errors import WorkerDiedError
from spdl._failure_log import log_failed
from spdl._numbers import as_seconds
from spdl._reports import log
from spdl.pipeline._observe._background import BackgroundTask
from spdl.pipeline._observe._resource_usage import ProcessGroupResourceUsage

if TYPE_CHECKING:  # imported on first use: most pipelines are not monitored, and multiprocessing is slow to import
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

__all__ = ["ProcessGroupResourceUsage", "ProcessGroupStatsMonitor"]

_LOG = logging.getLogger(__name__)


class ProcessGroupStatsMonitor(BackgroundTask):
    """Awaits ``callback`` with the usage of this process's group, once at the start and then every ``interval``.

    A daemonic child process takes the samples. It ends when the task is cancelled or this process ends, even if this
    process is killed. In a daemonic process, which may not have children, :meth:`run` logs a warning and returns.

    Args:
        callback: Async function, called on the event loop with one sample at a time. Its exceptions are logged, and
            sampling continues.
        interval: Seconds between two samples.
        mp_context: Multiprocessing context that starts the child. ``None``: the method set by
            ``multiprocessing.set_start_method``, else ``forkserver``, else ``spawn``.

    Raises:
        ValueError: ``interval`` is not above 0 or is not finite.
    """

    def __init__(
        self,
        callback: Callable[[ProcessGroupResourceUsage], Awaitable[None]],
        interval: float = 60.0,
        mp_context: BaseContext | None = None,
    ) -> None:
        self._callback = callback
        self._interval = as_seconds("interval", interval, positive=True)
        self._mp_context = mp_context

    async def run(self) -> None:
        """Sample until cancelled.

        Raises:
            WorkerDiedError: The sampling process ended unexpectedly.
        WorkerError: The sampling process could not be started.
        """
        import multiprocessing

        from spdl._processes import _start as starting

        if multiprocessing.current_process().daemon:
            text = "The process group is not monitored: this process is daemonic and cannot start a child."
            log(_LOG, logging.WARNING, text)
            return
        context = starting.context_of(self._mp_context)
        reader, writer = context.Pipe(duplex=False)
        # BaseContext does not declare Process; every concrete context has it.
        process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_sample_for_parent,
            args=(reader, writer, os.getpid(), _group_of_this_process(), self._interval),
            name="spdl-process-group-stats",
            daemon=True,
        )
        try:
            try:
                await _start(process, context)
            finally:
                writer.close()  # so that the reader sees EOF when the child ends
            await self._deliver(reader, process)
        finally:
            if process.pid is not None:
                # The child holds nothing that needs cleanup. It ends within milliseconds after SIGKILL, and a join
                # without await completes even if this task is cancelled again.
                process.kill()
            with starting.lock:
                if process.pid is not None:
                    process.join()
                process.close()
            reader.close()

    async def _deliver(self, reader: Connection, process: BaseProcess) -> None:
        from spdl._processes import _start as starting

        seen: Counter[str] = Counter()
        while True:
            await _readable(reader.fileno(), process.sentinel)
            try:
                usage: ProcessGroupResourceUsage | None = reader.recv() if reader.poll() else None
            except EOFError:
                usage = None
            if usage is None:
                await _readable(process.sentinel)
                with starting.lock:
                    process.join()
                raise WorkerDiedError(
                    f"the process that samples process group {_group_of_this_process()} ended "
                    f"with exit code {process.exitcode}; its standard error says why",
                    exit_code=process.exitcode,
                )
            try:
                await self._callback(usage)
            except Exception as exc:  # noqa: BLE001 - user code: a failed report must not end the monitor
                text = "Callback of the process group monitor failed; the next sample is in %g s"
                log_failed(_LOG, seen, "callback", text, self._interval, error=exc)


def _group_of_this_process() -> int:
    return os.getpgrp() if hasattr(os, "getpgrp") else os.getpid()


async def _start(process: BaseProcess, context: BaseContext) -> None:
    """Start a process without blocking the loop, which would take from tens of milliseconds to a second."""
    from spdl._processes import _start as starting

    loop = asyncio.get_running_loop()
    started: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if not started.cancelled():
            if error is None:
                started.set_result(None)
            else:
                started.set_exception(error)

    def start() -> None:
        error: Exception | None = None
        try:
            starting.start(process, context)
        except Exception as exc:  # noqa: BLE001 - handed over to the task
            error = exc
        loop.call_soon_threadsafe(settle, error)

    thread = threading.Thread(target=start, name="spdl-process-group-start", daemon=True)
    thread.start()
    try:
        await started
    finally:
        thread.join()  # even when cancelled: a half-started process could not be killed


async def _readable(*descriptors: int) -> None:
    """Wait until a descriptor is readable. Readers are removed afterwards, so a slow callback causes no wake-ups."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ready.done():
            ready.set_result(None)

    for descriptor in descriptors:
        loop.add_reader(descriptor, settle)
    try:
        await ready
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)


def _sample_for_parent(reader: Connection, writer: Connection, pid: int, pgid: int, interval: float) -> None:
    """Main function of the child process."""
    import multiprocessing
    from multiprocessing.connection import wait

    from spdl._processes._signals import ignore_signals
    from spdl.pipeline._observe._proc import read_group, usage_between

    ignore_signals()  # the parent kills this process
    reader.close()  # with an open copy here, writes would not fail after the parent has died
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a child of multiprocessing only"
    before = None
    while True:
        now = read_group(pgid, exclude=os.getpid())
        try:
            writer.send(usage_between(pid, pgid, before, now))
        except OSError:
            return  # the parent is gone
        before = now
        if wait([parent.sentinel], timeout=interval):
            return
