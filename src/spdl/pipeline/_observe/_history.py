"""Counters of earlier moments, for rates over time. A moment is recorded only when statistics are requested."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

_MOST_MOMENTS: Final = 512

Stats = TypeVar("Stats", bound=Any)  # PipelineStats, whose file imports this one


class Moment(NamedTuple):
    """Counters since the start of the pipeline."""

    elapsed: float  #: s
    num_items: int  #: returned to the consumer
    consumer_wait: float  #: s
    num_emitted: tuple[int, ...]  #: of each stage


class History:
    """The moments of one pipeline, oldest first. Thread-safe.

    Moments closer together than ``spacing`` are not kept. When there are too many, every second one is dropped and the
    spacing doubled, so that the history covers the whole run.
    """

    def __init__(self) -> None:
        self.spacing = 0.05  # s
        self.moments: list[Moment] = []
        self._lock = threading.Lock()

    def extended(self, stats: Stats) -> Stats:
        """Add the moment of ``stats``, and return ``stats`` with the history."""
        emitted = tuple(stage.num_emitted for stage in stats.stages)
        moment = Moment(stats.elapsed, stats.num_items, stats.consumer_wait, emitted)
        with self._lock:
            moments = self.moments
            if not moments or moment.elapsed >= moments[-1].elapsed + self.spacing:
                moments.append(moment)
                if len(moments) > _MOST_MOMENTS:
                    del moments[1::2]
                    self.spacing *= 2
            kept = tuple(moments)
        if kept[-1].elapsed < moment.elapsed:
            kept = (*kept, moment)
        return replace(stats, history=kept)
