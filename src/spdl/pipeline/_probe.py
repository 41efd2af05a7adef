"""Counters that observers read from the engine: plain records, copied under the engine's lock.

The engine updates them while it holds its lock anyway; hooks, queues, tables and log lines are views of them. To get an
interval, a reader keeps the previous record and subtracts.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["CallCounts", "CallReader", "ChannelCounts", "ChannelReader"]


class CallCounts(NamedTuple):
    """Calls of one stage's op so far. The end of a generator does not count as a call."""

    num_calls: int  #: finished calls, successful or failed
    num_failures: int
    success_time: float  #: s, sum of wall time over the calls that succeeded
    recent: tuple[float, ...]  #: s, wall times of the newest successful calls, oldest first, at most 1024


class ChannelCounts(NamedTuple):
    """Counters of one channel so far."""

    elapsed: float  #: s since the pipeline started
    num_items: int  #: items taken out
    num_put: int  #: items put in
    put_wait: float  #: s, sum over items of the time a finished result waited for room
    get_wait: float  #: s, sum over items of the time the consumer waited for it
    recent_put_waits: tuple[float, ...]  #: s, the newest non-zero waits, oldest first, at most 1024
    recent_get_waits: tuple[float, ...]
    num_put_waits: int  #: number of puts that waited
    num_get_waits: int
    occupied: float  #: s during which the channel was not empty, including the current period


CallReader: TypeAlias = Callable[[], CallCounts]
ChannelReader: TypeAlias = Callable[[], ChannelCounts]
