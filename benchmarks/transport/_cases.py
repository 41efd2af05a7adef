"""The items that are moved, the peers, and the requirements. To add one of them, change only this file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from benchmarks._contest.columns import Column, Median, Rate, RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.environments import CHECKOUT, MEDIA_LIBRARIES, REFERENCE, Environment
from benchmarks._contest.figures import NOTHING
from benchmarks._contest.required import AtMost, Ratio
from benchmarks._contest.result import Result

from ._work import Producer, Work, digest

__all__ = ["CONTEST", "OURS", "WORKS"]

OURS = "spdl"
#: The works by name: title, work, and the number of items that are compared before anything is timed.
WORKS = {
    "uint8": ("batch of 32x3x224x224 uint8, 4.8 MB", Work("uint8", (32, 3, 224, 224), 3), 40),
    "float32": ("batch of 64x3x224x224 float32, 38.5 MB", Work("float32", (64, 3, 224, 224), 3), 12),
    "bytes": ("bytes, 10 MB", Work("bytes", (10_000_000,), 3), 20),
    "small": ("bytes, 1 kB, 3 may wait", Work("bytes", (1000,), 3), 600),
    "small-256": ("bytes, 1 kB, 256 may wait", Work("bytes", (1000,), 256), 2000),
}
#: The start methods whose start-up time is measured.
METHODS = ("forkserver", "spawn")


def _peer(name: str, adapter: str, way: str, environment: Environment = CHECKOUT) -> Peer:
    return Peer(name, f"benchmarks.transport.adapters.{adapter}", environment, {"way": way})


# Neighbours run one directly after the other, so other load on the machine affects their ratio least.
PEERS = (
    _peer("fill", "no_transport", "fresh"),
    _peer("fill-reused", "no_transport", "reused"),
    _peer(OURS, "spdl_subprocess", "plain"),
    _peer("spdl-born", "spdl_born", "born"),
    _peer("spdl-pool", "spdl_subprocess", "pool"),
    _peer("spdl-ring", "spdl_subprocess", "ring"),
    _peer("reference", "spdl_subprocess", "plain", REFERENCE),
    _peer("reference-pool", "spdl_subprocess", "pool", REFERENCE),
    _peer("reference-ring", "spdl_subprocess", "ring", REFERENCE),
    _peer("torch", "torch_loader", "worker", MEDIA_LIBRARIES),
    _peer("queue", "plain_queue", "queue"),
)


@dataclass(frozen=True, slots=True)
class Filling:
    """The producer's own work as a share of a peer's time."""

    title: str = "filling alone"

    def cell(self, result: Result, case: str, peer: str) -> str:
        # Batches that are written where they are read need no fresh memory, so ``fill-reused`` is their lower bound.
        fill = result.median(case, "fill-reused" if peer.startswith("spdl-born") else "fill", "wall_us")
        wall = result.median(case, peer, "wall_us")
        return NOTHING if fill is None or wall is None else f"{100 * fill / wall:.0f} %"


def _columns(work: Work) -> Sequence[Column]:
    return (
        Spread("µs an item (min to max)", "wall_us"),
        Rate("items/s (min to max)"),
        Rate("MB/s (min to max)", amount=work.num_bytes),
        Median("CPU µs, consumer", "consumer_us"),
        Median("producer", "producer_us"),
        Filling(),
        RatioTo("time / ours (min to max)", OURS),
    )


@cache
def _made(work: Work, num_items: int) -> list[int]:
    return digest(work, Producer(work, num_items))


def check_items(work: Work, num_items: int, outputs: Outputs) -> str | None:
    """A description of how the items that arrive differ from the originals."""
    given, made = outputs["digest"].tolist(), _made(work, num_items)
    return None if given == made else f"it gave {given}, not {made}"


def _case(name: str, title: str, work: Work, num_checked: int) -> Case:
    return Case(
        name,
        title,
        {**asdict(work), "num_checked": num_checked},
        {"work": asdict(work)},
        check=lambda outputs: check_items(work, num_checked, outputs),
        columns=_columns(work),
    )


def _start_case(method: str) -> Case:
    return Case(
        f"start-{method}",
        f"first item of a pipeline in a subprocess by {method}",
        {"method": method},
        peers=(OURS, "reference"),
        cost="first_ms",
        columns=(
            Spread("first, ms (min to max)", "first_ms"),
            Spread("second, ms (min to max)", "second_ms"),
            RatioTo("first / ours (min to max)", OURS, "first_ms"),
        ),
    )


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    return [*(_case(name, *work) for name, work in WORKS.items()), *map(_start_case, METHODS)]


def _times_as_fast(case: str, ours: str, theirs: str, at_least: float) -> Ratio:
    return Ratio(f"{case}: {theirs} over {ours}", (case, theirs), (case, ours), at_least, of_rounds=True)


def _consumer_at_most(case: str, peer: str, at_most_us: float) -> AtMost:
    return AtMost(f"{case}: CPU of the consumer, {peer}", (case, peer, "consumer_us"), at_most_us)


def _start_at_most(method: str, at_most: float) -> Ratio:
    case, title = f"start-{method}", f"first item by {method}: {OURS} over reference"
    return Ratio(title, (case, OURS, "first_ms"), (case, "reference", "first_ms"), at_most=at_most, of_rounds=True)


_FORKSERVER = "start-forkserver"

CONTEST = Contest(
    name="transport",
    question="What does it cost to move a batch out of another process?",
    ours=OURS,
    unit="an item",
    peers=PEERS,
    make_cases=make_cases,
    required=(
        *(
            _times_as_fast(case, ours, theirs, at_least)
            for case in ("uint8", "float32")
            for ours, theirs, at_least in (
                (OURS, "reference", 6),
                (OURS, "torch", 2.5),
                (OURS, "reference-pool", 1.0),
                ("spdl-born", "reference-pool", 1.2),
                ("spdl-pool", "reference-pool", 1.0),
            )
        ),
        _times_as_fast("small", OURS, "reference", 10),
        _times_as_fast("small-256", OURS, "reference", 10),
        _times_as_fast("small", OURS, "queue", 1.5),
        _consumer_at_most("uint8", OURS, 100),
        _consumer_at_most("uint8", "spdl-born", 100),
        *(_start_at_most(method, 1.2) for method in METHODS),
        Ratio(
            "first item by forkserver: the first over the second",
            (_FORKSERVER, OURS, "first_ms"),
            (_FORKSERVER, OURS, "second_ms"),
            2.0,
            of_rounds=True,
        ),
    ),
    sessions="benchmarks.transport._session",
    warm_up=1,
    seconds=0.4,
)
