"""``ProcessGroupStatsMonitor``: reading /proc, differences, and the life of the sampling process."""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest

from spdl._errors import WorkerDiedError
from spdl.pipeline import ProcessGroupResourceUsage, ProcessGroupStatsMonitor
from spdl.pipeline._observe._process_group import read_group, usage_between

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def add_process(
    root: Path, pid: int, pgid: int, *, cpu: tuple[int, int] = (0, 0), start: int = 5, rss: int = 0, state: str = "S",
    pss: int | None = None, io: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Make the files of one process as proc(5) describes them; its name has spaces and parentheses."""
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    fields = ["0"] * 49
    fields[0], fields[2], fields[11], fields[12], fields[19], fields[21] = map(str, (state, pgid, *cpu, start, rss))
    (folder / "stat").write_text(f"{pid} (we) ird (1 2)) {' '.join(fields)}\n")
    if pss is not None:
        (folder / "smaps_rollup").write_text(
            "00400000-7fff0000 ---p 00000000 00:00 0    [rollup]\n"
            f"Rss:  999 kB\nPss:   {pss} kB\nPrivate_Clean:   1 kB\nPrivate_Dirty:   2 kB\nShared_Clean: 7 kB\n"
        )
    if io is not None:
        (folder / "io").write_text(f"rchar: 9\nread_bytes: {io[0]}\nwrite_bytes: {io[1]}\ncancelled_write_bytes: 4\n")


def set_net(root: Path, received: int, sent: int) -> None:
    (root / "net").mkdir(exist_ok=True)
    (root / "net" / "dev").write_text(
        "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes ...\n"
        "    lo: 5000 1 0 0 0 0 0 0 5000 1 0 0 0 0 0 0\n"
        f"  eth0: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "stat").write_text("cpu 0\n")
    set_net(tmp_path, 100, 10)
    return tmp_path


def test_sums_are_over_the_group_only(proc: Path) -> None:
    """Processes of other groups, and the one to exclude, are not counted."""
    add_process(proc, 11, 7, rss=3, pss=10, io=(100, 200))
    add_process(proc, 12, 7, rss=4, pss=20, io=(1, 2))
    add_process(proc, 13, 8, rss=100, pss=100, io=(50, 50))
    add_process(proc, 14, 7, rss=100, pss=100, io=(50, 50))
    got = usage_between(11, 7, None, read_group(7, exclude=14, root=proc))
    assert got == ProcessGroupResourceUsage(
        11, 7, None, 7 * PAGE, 30 * 1024, 6 * 1024, 101, 202, num_procs=2, net_rx_bytes=None, net_tx_bytes=None
    )


def test_cpu_and_network_are_differences(proc: Path) -> None:
    """CPU time since the last reading over the time between; a new process counts whole, one that joined does not."""
    add_process(proc, 11, 7, cpu=(100, 50))
    before = read_group(7, root=proc)
    assert before is not None
    add_process(proc, 11, 7, cpu=(100 + TICKS, 50 + TICKS))
    add_process(proc, 12, 7, cpu=(TICKS, 0), start=int(before.boot_ticks) + 1)
    add_process(proc, 13, 7, cpu=(1000 * TICKS, 0), start=5)
    set_net(proc, 103, 14)
    now = read_group(7, root=proc)
    assert now is not None
    got = usage_between(11, 7, before, now)
    assert got.cpu_percent == pytest.approx(300.0 / (now.time - before.time))
    assert (got.net_rx_bytes, got.net_tx_bytes) == (3, 4)


def test_what_cannot_be_read_of_one_living_process_is_unknown(proc: Path) -> None:
    """A sum that lacks a process would be wrong, so it is None; the others stay."""
    add_process(proc, 11, 7, rss=3, pss=10, io=(100, 200))
    add_process(proc, 12, 7, rss=4, io=(1, 2))
    got = usage_between(11, 7, None, read_group(7, root=proc))
    assert (got.pss_bytes, got.private_bytes) == (None, None)
    assert (got.rss_bytes, got.disk_read_bytes, got.disk_write_bytes) == (7 * PAGE, 101, 202)


def test_a_process_that_has_ended_does_not_hide_the_others(proc: Path) -> None:
    """A zombie has no memory map; that is no reason to know nothing."""
    add_process(proc, 11, 7, rss=3, pss=10, io=(100, 200))
    add_process(proc, 12, 7, state="Z")
    got = usage_between(11, 7, None, read_group(7, root=proc))
    assert (got.pss_bytes, got.disk_read_bytes) == (10 * 1024, 100)


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    """On another platform the record has the ids only."""
    assert usage_between(11, 7, None, read_group(7, root=tmp_path)) == ProcessGroupResourceUsage(11, 7)


def test_without_network_counters_only_they_are_unknown(proc: Path) -> None:
    """A container may hide the interfaces."""
    (proc / "net" / "dev").unlink()
    add_process(proc, 11, 7, rss=1)
    reading = read_group(7, root=proc)
    got = usage_between(11, 7, reading, reading)
    assert (got.net_rx_bytes, got.net_tx_bytes, got.rss_bytes) == (None, None, PAGE)


def test_no_time_between_two_readings_gives_no_cpu_share(proc: Path) -> None:
    """Nothing divides by zero."""
    add_process(proc, 11, 7)
    reading = read_group(7, root=proc)
    assert usage_between(11, 7, reading, reading).cpu_percent is None


@linux_only
def test_this_process_is_found_in_its_group() -> None:
    """On Linux, the real files have what is expected of them."""
    got = usage_between(os.getpid(), os.getpgrp(), None, read_group(os.getpgrp()))
    assert got.num_procs is not None
    assert got.num_procs >= 1
    assert got.rss_bytes is not None
    assert got.rss_bytes > 1 << 20


@pytest.mark.parametrize("interval", [0, -1.0, float("nan")])
def test_an_interval_that_is_not_positive_is_refused(interval: float) -> None:
    """The message names the argument."""

    async def callback(usage: ProcessGroupResourceUsage) -> None: ...

    with pytest.raises(ValueError, match="interval must be > 0"):
        ProcessGroupStatsMonitor(callback, interval=interval)


async def collect(num_samples: int, mp_context: BaseContext | None, fail_first: bool = False) -> list[int]:
    """Run a monitor until it has delivered samples, cancel it; returns pids of children seen alive meanwhile."""
    enough = asyncio.Event()
    samples: list[ProcessGroupResourceUsage] = []
    children: list[int] = []

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        samples.append(usage)
        children.extend(child.pid or 0 for child in multiprocessing.active_children())
        if len(samples) == num_samples:
            enough.set()
        if fail_first and len(samples) == 1:
            raise RuntimeError("no dashboard today")

    task = asyncio.ensure_future(ProcessGroupStatsMonitor(callback, 1e-3, mp_context).run())
    waiter = asyncio.ensure_future(enough.wait())
    await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all((usage.pid, usage.pgid) == (os.getpid(), os.getpgrp()) for usage in samples)
    assert samples[0].cpu_percent is None
    return children


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_samples_arrive_and_the_child_ends_on_cancellation(method: str | None) -> None:
    """With every start method, samples are of this process's group, and afterwards no child is left."""
    context = None if method is None else multiprocessing.get_context(method)
    children = asyncio.run(collect(3, context))
    assert len(set(children)) == 1
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_failing_callback_is_logged_and_the_next_sample_comes(caplog: pytest.LogCaptureFixture) -> None:
    """The user's callback cannot end the monitor."""
    asyncio.run(collect(3, multiprocessing.get_context("fork"), fail_first=True))
    assert "no dashboard today" in caplog.text


@pytest.mark.slow
def test_a_child_that_dies_is_an_error_with_its_exit_code() -> None:
    """A killed sampler ends the task; it does not wait for samples that never come."""

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    monitor = ProcessGroupStatsMonitor(callback, 1000.0, multiprocessing.get_context("fork"))
    with pytest.raises(WorkerDiedError, match="exit code -9") as caught:
        asyncio.run(monitor.run())
    assert caught.value.exit_code == -signal.SIGKILL


@pytest.mark.slow
def test_cancellation_while_the_child_starts_leaves_no_child() -> None:
    """Even if the task is cancelled before the child is up, it is ended."""

    async def callback(usage: ProcessGroupResourceUsage) -> None: ...

    async def use() -> None:
        task = asyncio.ensure_future(ProcessGroupStatsMonitor(callback).run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(use())
    assert multiprocessing.active_children() == []


def run_monitor_and_report(conn: Connection) -> None:
    """Body of a process that monitors: tells who samples, then waits to be killed; or tells that nothing was run."""

    async def callback(usage: ProcessGroupResourceUsage) -> None:
        conn.send([child.pid for child in multiprocessing.active_children()])

    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("spdl").addHandler(handler)
    asyncio.run(ProcessGroupStatsMonitor(callback, 1000.0, multiprocessing.get_context("fork")).run())
    conn.send(records)


@pytest.mark.slow
@linux_only
def test_the_child_ends_when_its_parent_is_killed() -> None:
    """The sampler watches its parent: after a SIGKILL of the parent it is gone as well."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    parent = context.Process(target=run_monitor_and_report, args=(sender,))
    parent.start()
    sender.close()
    (sampler,) = receiver.recv()
    handle = os.pidfd_open(sampler)
    parent.kill()
    parent.join()
    multiprocessing.connection.wait([handle])  # readable once it has ended; a hang here is the test's timeout
    os.close(handle)
    receiver.close()
    parent.close()


@pytest.mark.slow
def test_in_a_daemonic_process_it_is_skipped_with_a_warning() -> None:
    """A daemonic process cannot have children, so the monitor returns and says so."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_monitor_and_report, args=(sender,), daemon=True)
    process.start()
    sender.close()
    (message,) = receiver.recv()
    process.join()
    assert "daemonic" in message
    receiver.close()
    process.close()
