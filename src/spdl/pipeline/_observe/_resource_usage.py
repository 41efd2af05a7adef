"""``ProcessGroupResourceUsage``: what the process group monitor tells its callback."""

from dataclasses import dataclass

__all__ = ["ProcessGroupResourceUsage"]


@dataclass(frozen=True)
class ProcessGroupResourceUsage:
    """Resources that the processes of one group use together. ``None``: the platform cannot tell, or not yet.

    Attributes:
        pid: Process that is monitored.
        pgid: Its process group.
        cpu_percent: CPU time of the group since the previous sample, in percent of one CPU.
        rss_bytes: Sum of resident set sizes; pages that processes share count in each.
        pss_bytes: Sum of proportional set sizes; shared pages count once.
        private_bytes: Memory that no other process shares.
        disk_read_bytes: Read from storage since the processes started.
        disk_write_bytes: Written to storage since the processes started.
        num_procs: Processes in the group, the sampling process not counted.
        net_rx_bytes: Received since the previous sample by all interfaces but loopback, whichever process it was for.
        net_tx_bytes: Sent since the previous sample, likewise.
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
