"""Counters of one stage, guarded by the engine's lock, which is held anyway where they are updated.

``starved`` is time with a free slot and no input; ``blocked`` is time with a finished result and no room for it. Each
is stored as a sum plus the start of the current period (``*_since``), so nothing is computed while a state lasts. A
source that waits until the consumer lets it go on is ``paused``, which counts as blocked.
"""

from __future__ import annotations

from collections import deque

from spdl.pipeline._records import CallCounts

_RECENT = 1024

#: Shorter waits are ignored: an item passing from stage to stage on one thread.
SHORT_WAIT = 20e-6


class Counters:
    """Counters and sums since the start of a stage."""

    __slots__ = (
        "blocked",
        "blocked_seen",
        "blocked_since",
        "busy_seen",
        "cpu_alone",
        "cpu_beside",
        "num_alone",
        "num_beside",
        "num_blocked",
        "num_calls",
        "num_dropped",
        "num_emitted",
        "num_failures",
        "num_lost",
        "num_redealt",
        "num_starved",
        "num_substituted",
        "other_time",
        "paused_since",
        "recent",
        "recent_blocked",
        "recent_starved",
        "sampled_cpu",
        "sampled_wall",
        "starved",
        "starved_seen",
        "starved_since",
        "success_time",
    )

    def __init__(self) -> None:
        self.num_calls = 0
        self.num_failures = 0
        self.num_dropped = 0
        self.num_emitted = 0
        self.num_lost = 0  # parts that calls left out of their results, such as images of a batch
        self.num_redealt = 0  # items of a dead worker that were dealt to another
        self.num_substituted = 0  # number of failed calls with a substitute for their output
        self.success_time = 0.0
        self.other_time = 0.0  # time of failed calls and of the last steps of generators
        self.busy_seen = 0.0
        self.recent: deque[float] = deque(maxlen=_RECENT)
        # Sums over the calls whose CPU time was measured. Their CPU share is applied to all calls; the mean of the
        # samples would overweight the first, cold calls.
        self.sampled_cpu = 0.0
        self.sampled_wall = 0.0
        # Of these, calls that ran while no other call of the stage did, and calls that ran beside others. The second
        # take longer if calls share caches or memory bandwidth.
        self.num_alone = 0
        self.cpu_alone = 0.0
        self.num_beside = 0
        self.cpu_beside = 0.0
        self.starved = 0.0
        self.starved_since: float | None = None
        self.starved_seen = 0.0
        self.num_starved = 0
        self.recent_starved: deque[float] = deque(maxlen=_RECENT)
        self.blocked = 0.0
        self.blocked_since: float | None = None
        self.blocked_seen = 0.0
        self.paused_since: float | None = None
        self.num_blocked = 0
        self.recent_blocked: deque[float] = deque(maxlen=_RECENT)

    @property
    def busy(self) -> float:
        return self.success_time + self.other_time

    @property
    def cpu_share(self) -> float | None:
        """Ratio of CPU time to wall time of a call; ``None``: not measured."""
        return min(1.0, self.sampled_cpu / self.sampled_wall) if self.sampled_wall > 0 else None

    def begin_starved(self, now: float) -> None:
        if self.starved_since is None:
            self.starved_since = now

    def end_starved(self, now: float) -> None:
        if self.starved_since is not None:
            waited = now - self.starved_since
            self.starved_since = None
            self.starved += waited
            if waited > SHORT_WAIT:
                self.note_starved(waited)

    def note_starved(self, waited: float) -> None:
        """Part of ``end_starved``: a wait that is not short."""
        self.recent_starved.append(waited)
        self.num_starved += 1

    def begin_blocked(self, now: float) -> None:
        if self.blocked_since is None:
            self.blocked_since = now

    def end_blocked(self, now: float) -> None:
        if self.blocked_since is not None:
            waited = now - self.blocked_since
            self.blocked_since = None
            self._add_blocked(waited)

    def pause(self, now: float) -> None:
        """The source waits until the consumer lets it go on."""
        self.end_blocked(now)
        self.paused_since = now

    def end_pause(self, now: float) -> None:
        if self.paused_since is not None:
            waited = now - self.paused_since
            self.paused_since = None
            self._add_blocked(waited)

    def _add_blocked(self, waited: float) -> None:
        self.blocked += waited
        if waited > SHORT_WAIT:
            self.recent_blocked.append(waited)
            self.num_blocked += 1

    # A period may be closed with a time read slightly before a reader's time. To keep the values monotonic, the largest
    # value returned so far is a lower bound.

    def busy_until(self, open_time: float) -> float:
        """``busy`` with the time of the calls that have not returned."""
        self.busy_seen = max(self.busy + open_time, self.busy_seen)
        return self.busy_seen

    def starved_until(self, now: float) -> float:
        total = self.starved + (now - self.starved_since if self.starved_since is not None else 0.0)
        self.starved_seen = max(total, self.starved_seen)
        return self.starved_seen

    def blocked_until(self, now: float) -> float:
        since = self.blocked_since if self.paused_since is None else self.paused_since
        total = self.blocked + (now - since if since is not None else 0.0)
        self.blocked_seen = max(total, self.blocked_seen)
        return self.blocked_seen

    def freeze(self, now: float) -> None:
        """Close the current periods when the stage has ended."""
        self.end_starved(now)
        self.end_blocked(now)
        self.end_pause(now)

    def counts(self) -> CallCounts:
        return CallCounts(self.num_calls, self.num_failures, self.success_time, tuple(self.recent))
