"""The items that are moved, and the requirements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks._contest.figures import Figure

from ._peers import OURS
from ._work import Work

#: Seconds per item of each pass, by peer, from ``Consumer.time``.
Passes = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One table.

    Attributes:
        name: The name in ``--cases``.
        title: The name for readers.
        num_checked: The number of items that are compared before anything is timed.
    """

    name: str
    title: str
    work: Work
    num_checked: int


CASES = (
    Case("uint8", "batch of 32x3x224x224 uint8, 4.8 MB", Work("uint8", (32, 3, 224, 224), 3), 40),
    Case("float32", "batch of 64x3x224x224 float32, 38.5 MB", Work("float32", (64, 3, 224, 224), 3), 12),
    Case("bytes", "bytes, 10 MB", Work("bytes", (10_000_000,), 3), 20),
    Case("small", "bytes, 1 kB, 3 may wait", Work("bytes", (1000,), 3), 600),
    Case("small-256", "bytes, 1 kB, 256 may wait", Work("bytes", (1000,), 256), 2000),
)


@dataclass(frozen=True, slots=True)
class TimesAsFast:
    """A requirement: the time of ``theirs`` over that of ``ours`` in the same round, as the median of all rounds."""

    case: str
    ours: str
    theirs: str
    at_least: float

    def measured(self, passes: Mapping[str, Passes]) -> Figure:
        title, required = f"{self.case}: {self.theirs} over {self.ours}", f">= {self.at_least:g}"
        ours, theirs = (passes.get(self.case, {}).get(peer) for peer in (self.ours, self.theirs))
        if not ours or not theirs:
            return Figure(title, required, None, None, "x", passed=False)
        ratios = [slow["wall"] / fast["wall"] for slow, fast in zip(theirs, ours, strict=True)]
        ratio = median(ratios)
        return Figure(title, required, ratio, (min(ratios), max(ratios)), "x", passed=ratio >= self.at_least)


@dataclass(frozen=True, slots=True)
class ConsumerAtMost:
    """A requirement: CPU time of the consuming process per item."""

    case: str
    peer: str
    at_most_us: float

    def measured(self, passes: Mapping[str, Passes]) -> Figure:
        title, required = f"{self.case}: CPU of the consumer, {self.peer}", f"<= {self.at_most_us:g} µs"
        taken = passes.get(self.case, {}).get(self.peer)
        if not taken:
            return Figure(title, required, None, None, " µs", passed=False)
        costs = [1e6 * each["consumer"] for each in taken]
        cost = median(costs)
        return Figure(title, required, cost, (min(costs), max(costs)), " µs", passed=cost <= self.at_most_us)


REQUIRED: tuple[TimesAsFast | ConsumerAtMost, ...] = (
    *(
        figure
        for case in ("uint8", "float32")
        for figure in (
            TimesAsFast(case, OURS, "reference", 6),
            TimesAsFast(case, OURS, "torch", 2.5),
            TimesAsFast(case, OURS, "reference-pool", 1.0),
            TimesAsFast(case, "spdl-born", "reference-pool", 1.2),
            TimesAsFast(case, "spdl-pool", "reference-pool", 1.0),
        )
    ),
    TimesAsFast("small", OURS, "reference", 10),
    TimesAsFast("small-256", OURS, "reference", 10),
    ConsumerAtMost("uint8", OURS, 100),
    ConsumerAtMost("uint8", "spdl-born", 100),
)
