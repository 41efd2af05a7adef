"""What observers read of the engine: plain records, copied under the engine's lock. Imports nothing of ours.

The engine adds these up while it holds its lock anyway; hooks, queues, tables and log lines are views of them.
A reader that wants an interval keeps the previous record and subtracts.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["CallCounts", "CallReader", "ChannelCounts", "ChannelReader"]


class CallCounts(NamedTuple):
    """Calls of one stage's op up to a moment. The end of a generator is no call here."""

    num_calls: int  #: calls that ended, well or badly
    num_failures: int
    success_time: float  #: s, sum of wall time over the calls that succeeded
    recent: tuple[float, ...]  #: s, wall times of the newest successful calls, oldest first, at most 1024


class ChannelCounts(NamedTuple):
    """One channel up to a moment."""

    elapsed: float  #: s since the pipeline started
    num_items: int  #: items taken out
    num_put: int  #: items put in
    put_wait: float  #: s, sum over items of the time a finished result waited for room
    get_wait: float  #: s, sum over items of the time the taking side waited for it
    recent_put_waits: tuple[float, ...]  #: s, the newest waits that were not zero, oldest first, at most 1024
    recent_get_waits: tuple[float, ...]
    num_put_waits: int  #: how many of the puts waited at all
    num_get_waits: int
    occupied: float  #: s during which the channel was not empty, an open period included


CallReader: TypeAlias = Callable[[], CallCounts]
ChannelReader: TypeAlias = Callable[[], ChannelCounts]
