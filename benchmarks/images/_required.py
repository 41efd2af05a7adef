"""The requirements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks._contest.columns import round_ratios
from benchmarks._contest.contest import Required
from benchmarks._contest.figures import Figure
from benchmarks._contest.required import Ratio, figure_of
from benchmarks._contest.result import Result

from ._peers import OURS, READS_FILES
from ._work import Work

__all__ = ["HELD_CASES", "Fastest", "Held", "required_of"]

#: Float32 may cost 8 % more than uint8, so uint8 takes at least this much of its time.
UINT8_OVER_FLOAT32 = 1 / 1.08
#: Cases in which SPDL's time with the GIL is measured, and the maximum share of its time.
HELD_CASES, HELD_AT_MOST = ("web-eval-uint8", "web-eval-float32", "web-train-uint8", "web-train-float32"), 0.02
#: The most by which the estimate and the upper bound of the time with the GIL may differ, as a share of a turn.
UNSURE_AT_MOST = 0.1


def required_of(name: str, work: Work) -> Iterator[Required]:
    """The requirements of a case."""
    if work.transform == "lower":
        yield Ratio(f"{name}: without markers over with", (name, OURS), (name, "spdl-restarts"), 3.0, of_rounds=True)
        return
    if work.exact:
        yield Ratio(f"{name}: pillow-simd over ours", (name, "pillow-simd"), (name, OURS), 1.5, of_rounds=True)
    for peer, at_least in _ratios(name, work).items() if not work.exact and work.transform != "whole" else ():
        yield Ratio(f"{name}: {peer} over ours", (name, peer), (name, OURS), at_least, of_rounds=True)
    if work.exact:
        yield Ratio(f"{name}: ours over libjpeg-turbo alone", (name, OURS), (name, "rgb"), at_most=1.25, of_rounds=True)
        return
    if work.transform == "whole":
        for peer in ("simplejpeg", "opencv-half"):
            yield Ratio(f"{name}: {peer} over ours", (name, peer), (name, OURS), 1.3, of_rounds=True)
        return
    if name.startswith("web-") and work.num_threads == 1:
        yield Fastest(name, 1.3)
    if name in HELD_CASES:
        yield Held(name)


def _ratios(name: str, work: Work) -> dict[str, float]:
    """The minimum of a peer's time over SPDL's, by peer."""
    if work.transform == "fit":
        return {"reference": 2.5, "pillow": 2.2, "planes": 0.75} if work.num_threads == 1 else {"spdl-1": 1.85}
    ratios = {"spdl-uint8": UINT8_OVER_FLOAT32} if work.dtype == "float32" else {}
    if work.num_threads == 2:
        return ratios | {"spdl-1": 1.9}
    if name.startswith("web-"):
        return ratios | {"reference": 2.8, "pillow": 2.4, "planes": 0.85}
    return ratios | ({"pillow": 3.0} if name.startswith("phone-") else {})


@dataclass(frozen=True, slots=True)
class Fastest:
    """A requirement on the fastest peer, by its median, that does all of the work from plain files."""

    case: str
    at_least: float

    def cases(self) -> Sequence[str]:
        return (self.case,)

    def measured(self, result: Result) -> Figure:
        ours = result.values(self.case, OURS, "wall_us")
        ratios = {peer: round_ratios(result.values(self.case, peer, "wall_us"), ours) for peer in READS_FILES}
        rivals = {peer: rounds for peer, rounds in ratios.items() if rounds}
        title = f"{self.case}: fastest that reads files"
        if not rivals:
            return figure_of(title, None, (), "x", self.at_least)
        best = min(rivals, key=lambda peer: median(rivals[peer]))
        return figure_of(f"{title} ({best})", median(rivals[best]), rivals[best], "x", self.at_least)


@dataclass(frozen=True, slots=True)
class Held:
    """A requirement on the share of a turn in which SPDL holds the GIL.

    The spread is from the smallest estimate to the largest upper bound. Rounds in which the two differ much do not
    count, because the machine was busy.
    """

    case: str

    def cases(self) -> Sequence[str]:
        return (f"{self.case}-held",)

    def measured(self, result: Result) -> Figure:
        limit = 100 * HELD_AT_MOST
        title, required = f"{self.case}: time with the GIL", f"< {limit:g} % of the time"
        names = ("wall_s", "held_s", "held_at_most_s")
        rounds = zip(*(result.values(f"{self.case}-held", OURS, name) for name in names), strict=True)
        free = [(wall, held, at_most) for wall, held, at_most in rounds if at_most - held <= UNSURE_AT_MOST * wall]
        if not free:
            return Figure(title, required, None, None, " %", passed=False)
        shares = [100 * held / wall for wall, held, _ in free]
        spread = min(shares), max(100 * at_most / wall for wall, _, at_most in free)
        share = median(shares)
        return Figure(title, required, share, spread, " %", passed=share < limit)
