"""The contestants, the cases and the requirements."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks._contest.columns import RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.required import Ratio

__all__ = ["CONTEST", "check"]

TRACE, OFF = "trace", "off"
_ADAPTERS = "benchmarks.observation.adapters"
#: Bytes that a call hashes: about 0.1 ms and 1 ms, as to decode a thumbnail and a photograph.
SIZES = {"0.1ms": 160_000, "1ms": 1_600_000}
NUM_ITEMS, NUM_ITEMS_QUICK = {"0.1ms": 4000, "1ms": 600}, 40


def check(num_items: int, outputs: Outputs) -> str | None:
    """Each item once."""
    items = outputs["items"].tolist()
    return None if items == list(range(num_items)) else f"its items are {items[:5]}..., {len(items)} of {num_items}"


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    return [_case(name, NUM_ITEMS_QUICK if is_quick else NUM_ITEMS[name]) for name in SIZES]


def _case(name: str, num_items: int) -> Case:
    return Case(
        name,
        f"two stages of hashing, about {name} a call, on two threads",
        {"num_items": num_items, "size": SIZES[name]},
        about={"num_items": num_items, "size": SIZES[name]},
        per=num_items,
        check=partial(check, num_items),
        cost="cpu_us",
        columns=(
            Spread("CPU µs an item (min to max)", "cpu_us"),
            RatioTo("CPU / not watched (min to max)", OFF, "cpu_us"),
            Spread("wall µs (min to max)", "wall_us"),
            RatioTo("wall / not watched (min to max)", OFF, "wall_us"),
        ),
    )


CONTEST = Contest(
    name="observation",
    question="What does it cost to trace a pipeline, and to export its metrics?",
    ours=TRACE,
    unit="an item",
    peers=(
        Peer(TRACE, f"{_ADAPTERS}.trace"),
        Peer(OFF, f"{_ADAPTERS}.off"),
        Peer("reports", f"{_ADAPTERS}.reports"),
        Peer("prometheus", f"{_ADAPTERS}.prometheus"),
    ),
    make_cases=make_cases,
    required=tuple(
        Ratio(f"CPU time with a trace over that without, {name} a call", (name, TRACE, "cpu_us"), (name, OFF, "cpu_us"),
              at_most=1.03, of_rounds=True)
        for name in SIZES
    ),
    rounds=11,
    seconds=0.0,  # a turn is one run of the pipeline
)  # fmt: skip
