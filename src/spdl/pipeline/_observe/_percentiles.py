"""Percentiles of durations: a streaming estimate in constant memory, and exact ones over a window of recent values."""

import math
from collections.abc import Sequence


class StreamingPercentile:
    """Estimate of one quantile of a stream in constant memory and time: the P² algorithm.

    Five markers keep the minimum, the maximum, the quantile and the midpoints; each new observation moves them by at
    most one position along a piecewise parabola. Up to five observations, the result is exact (nearest rank). Not
    thread-safe.

    Source: R. Jain, I. Chlamtac, "The P² Algorithm for Dynamic Calculation of Quantiles and Histograms Without
    Storing Observations", Communications of the ACM 28(10), 1985, pp. 1076-1085.
    """

    __slots__ = ("_desired", "_heights", "_positions", "_quantile", "_steps")

    def __init__(self, quantile: float) -> None:
        if not 0.0 < quantile < 1.0:
            raise ValueError(f"quantile must be between 0 and 1, got {quantile!r}")
        p = quantile
        self._quantile = p
        self._heights: list[float] = []
        self._positions = [1.0, 2.0, 3.0, 4.0, 5.0]
        self._desired = [1.0, 1.0 + 2.0 * p, 1.0 + 4.0 * p, 3.0 + 2.0 * p, 5.0]
        self._steps = (0.0, p / 2.0, p, (1.0 + p) / 2.0, 1.0)

    def add(self, value: float) -> None:
        """Add an observation."""
        q = self._heights
        if len(q) < 5:
            q.append(value)
            q.sort()
            return
        # Box 1 of the paper, step B.1 and B.2: find the cell of the value, shift the markers above it.
        if value < q[0]:
            q[0] = value
            cell = 0
        elif value >= q[4]:
            q[4] = value
            cell = 3
        else:
            cell = next(k for k in range(4) if value < q[k + 1])
        n = self._positions
        for k in range(cell + 1, 5):
            n[k] += 1.0
        for k, step in enumerate(self._steps):
            self._desired[k] += step
        for k in (1, 2, 3):
            self._adjust(k)

    @property
    def value(self) -> float:
        """The estimate; 0 before the first observation."""
        q = self._heights
        if not q:
            return 0.0
        if len(q) <= 5 and self._positions[4] == 5.0:
            return _nearest_rank(q, self._quantile)
        return q[2]

    def _adjust(self, k: int) -> None:
        """Step B.3: move marker ``k`` by one position if it is off by one or more and its neighbour leaves room."""
        q, n = self._heights, self._positions
        off = self._desired[k] - n[k]
        if off >= 1.0 and n[k + 1] - n[k] > 1.0:
            d = 1
        elif off <= -1.0 and n[k - 1] - n[k] < -1.0:
            d = -1
        else:
            return
        above = (n[k] - n[k - 1] + d) * (q[k + 1] - q[k]) / (n[k + 1] - n[k])
        below = (n[k + 1] - n[k] - d) * (q[k] - q[k - 1]) / (n[k] - n[k - 1])
        height = q[k] + d / (n[k + 1] - n[k - 1]) * (above + below)
        if not q[k - 1] < height < q[k + 1]:  # the parabola overshoots: linear instead
            height = q[k] + d * (q[k + d] - q[k]) / (n[k + d] - n[k])
        q[k] = height
        n[k] += d


def percentile_of_calls(recent: Sequence[float], num_calls: int, quantile: float) -> float:
    """Return a percentile (nearest rank) of the newest ``num_calls`` durations, as far as ``recent`` holds them.

    0 if there are none.
    """
    window = recent[-num_calls:] if num_calls > 0 else ()
    return _nearest_rank(sorted(window), quantile) if window else 0.0


def percentile_of_waits(recent: Sequence[float], num_waits: int, num_total: int, quantile: float) -> float:
    """Return a percentile (nearest rank) of ``num_total`` waits, of which only ``num_waits`` were longer than zero.

    ``recent`` holds the newest non-zero waits. If it holds fewer than ``num_waits``, it is taken as a sample of them.
    0 if there are none.
    """
    window = recent[-num_waits:] if num_waits > 0 else ()
    if not window or num_total <= 0:
        return 0.0
    num_zero = max(0, num_total - num_waits)
    rank = quantile * num_total - num_zero  # position among the waits that were not zero
    return _nearest_rank(sorted(window), rank / num_waits) if rank > 0 else 0.0


def _nearest_rank(ordered: Sequence[float], quantile: float) -> float:
    # Rounded first: some binary products are slightly above the integer, which would give the next rank.
    rank = math.ceil(round(quantile * len(ordered), 9))
    return ordered[min(len(ordered), max(1, rank)) - 1]
