"""``ProcessGroupStatsMonitor``: samples the resource usage of a process group from a separate process.

The process is separate because reading the memory maps of large processes takes long and would hold the GIL that the
loading threads need.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import spdl.pipeline._asyncio as asyncio
from spdl._errors import WorkerDiedError
from spdl._failure_log import log_failed
from spdl._numbers import as_seconds
from spdl._reports import log
from spdl.pipeline._observe._background import BackgroundTask

if TYPE_CHECKING:  # imported on first use: most pipelines are not monitored, and multiprocessing is slow to import
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

__all__ = ["ProcessGroupResourceUsage", "ProcessGroupStatsMonitor"]


@dataclass(frozen=True)
class ProcessGroupResourceUsage:
    """Total resource usage of the processes of one group. ``None``: not available on this platform, or not yet.

    Attributes:
        pid: Monitored process.
        pgid: Process group of ``pid``.
        cpu_percent: CPU time of the group since the previous sample, as a percentage of one CPU.
        rss_bytes: Sum of resident set sizes; shared pages count in each process.
        pss_bytes: Sum of proportional set sizes; shared pages count once.
        private_bytes: Memory not shared with other processes.
        disk_read_bytes: Bytes read from storage since the processes started.
        disk_write_bytes: Bytes written to storage since the processes started.
        num_procs: Number of processes in the group, without the sampling process.
        net_rx_bytes: Bytes received since the previous sample, by any process, on all interfaces except loopback.
        net_tx_bytes: Bytes sent since the previous sample, by any process, on all interfaces except loopback.
    """

    pid: int
    pgid: int
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    pss_bytes: int | None = None
    private_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_write_bytes: int | None = None
    num_procs: int | None = None
    net_rx_bytes: int | None = None
    net_tx_bytes: int | None = None


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
        mp_context: "BaseContext | None" = None,
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

    async def _deliver(self, reader: "Connection", process: "BaseProcess") -> None:
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


async def _start(process: "BaseProcess", context: "BaseContext") -> None:
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


def _sample_for_parent(reader: "Connection", writer: "Connection", pid: int, pgid: int, interval: float) -> None:
    """Main function of the child process."""
    import multiprocessing
    from multiprocessing.connection import wait

    from spdl._processes._signals import ignore_signals

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


@dataclass(frozen=True, slots=True)
class GroupReading:
    """Counters of a process group at one moment."""

    time: float  #: s, monotonic
    boot_ticks: float  #: clock ticks since boot
    cpu_ticks: dict[tuple[int, int], int]  #: by pid and start time, which together are unique
    rss_bytes: int
    memory: tuple[int, int] | None  #: bytes: proportional, private
    disk: tuple[int, int] | None  #: bytes: read, written
    net: tuple[int, int] | None  #: bytes: received, sent


@dataclass(frozen=True, slots=True)
class _ProcessStat:
    pid: int
    start_ticks: int
    cpu_ticks: int
    rss_pages: int


def read_group(pgid: int, *, exclude: int | None = None, root: Path = Path("/proc")) -> GroupReading | None:
    """Read the counters of a process group without the process ``exclude``; ``None`` if there is no proc file system.

    Processes that end during the reading are ignored. A sum is ``None`` if it cannot be read for one living process.
    """
    if not (root / "stat").exists():
        return None
    group = [stat for stat in _group_stats(root, pgid) if stat.pid != exclude]
    return GroupReading(
        time=time.monotonic(),
        boot_ticks=time.clock_gettime(_BOOT_CLOCK) * _TICKS_PER_SECOND,
        cpu_ticks={(stat.pid, stat.start_ticks): stat.cpu_ticks for stat in group},
        rss_bytes=sum(stat.rss_pages for stat in group) * _PAGE_SIZE,
        memory=_sum_pairs(root, group, "smaps_rollup", _memory_in),
        disk=_sum_pairs(root, group, "io", lambda counts: (counts.get("read_bytes", 0), counts.get("write_bytes", 0))),
        net=_read_net(root),
    )


def usage_between(
    pid: int, pgid: int, before: GroupReading | None, now: GroupReading | None
) -> ProcessGroupResourceUsage:
    """Compute the usage between two readings; without ``before``, the differences are ``None``."""
    if now is None:
        return ProcessGroupResourceUsage(pid, pgid)
    net = None
    if before is not None and before.net is not None and now.net is not None:
        # When an interface is removed, the sums decrease.
        net = (max(0, now.net[0] - before.net[0]), max(0, now.net[1] - before.net[1]))
    return ProcessGroupResourceUsage(
        pid,
        pgid,
        cpu_percent=None if before is None else _cpu_percent(before, now),
        rss_bytes=now.rss_bytes,
        pss_bytes=now.memory and now.memory[0],
        private_bytes=now.memory and now.memory[1],
        disk_read_bytes=now.disk and now.disk[0],
        disk_write_bytes=now.disk and now.disk[1],
        num_procs=len(now.cpu_ticks),
        net_rx_bytes=net and net[0],
        net_tx_bytes=net and net[1],
    )


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))


def _cpu_percent(before: GroupReading, now: GroupReading) -> float | None:
    elapsed = now.time - before.time
    if elapsed <= 0:
        return None
    ticks = 0
    for process, total in now.cpu_ticks.items():
        if process in before.cpu_ticks:
            ticks += total - before.cpu_ticks[process]
        elif process[1] >= before.boot_ticks:  # started since `before`; an older process has only joined the group
            ticks += total
    return 100.0 * ticks / _TICKS_PER_SECOND / elapsed


def _group_stats(root: Path, pgid: int) -> Iterator[_ProcessStat]:
    for entry in root.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue  # it has ended
        # The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        if int(fields[2]) == pgid:
            ticks = int(fields[11]) + int(fields[12])
            yield _ProcessStat(int(entry.name), int(fields[19]), ticks, rss_pages=int(fields[21]))


def _sum_pairs(
    root: Path, group: list[_ProcessStat], name: str, pair: Callable[[dict[str, int]], tuple[int, int]]
) -> tuple[int, int] | None:
    first = second = 0
    for stat in group:
        folder = root / str(stat.pid)
        try:
            a, b = pair(_parse_named((folder / name).read_text()))
        except OSError:
            # Permission, an old kernel, or a process that is ending: /proc/<pid> disappears last, when it is reaped.
            if _has_ended(folder):
                continue
            return None
        first += a
        second += b
    return first, second


def _has_ended(folder: Path) -> bool:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True


def _memory_in(sizes: dict[str, int]) -> tuple[int, int]:
    return sizes.get("Pss", 0) * 1024, (sizes.get("Private_Clean", 0) + sizes.get("Private_Dirty", 0)) * 1024


def _parse_named(text: str) -> dict[str, int]:
    """Parse lines like ``Pss:   12 kB``; skip others."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found


def _read_net(root: Path) -> tuple[int, int] | None:
    try:
        lines = (root / "net" / "dev").read_text().splitlines()[2:]  # two lines of headings
    except OSError:
        return None
    received = sent = 0
    for line in lines:
        name, _, counts = line.partition(":")
        if name.strip() != "lo":
            fields = counts.split()
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent
