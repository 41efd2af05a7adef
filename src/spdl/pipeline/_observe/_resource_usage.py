"""``ProcessGroupResourceUsage``: the sample that the process group monitor passes to its callback."""

from dataclasses import dataclass


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
