"""The ways of being told of a failure, the case and the requirement."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks._contest.columns import RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.required import AtMost

__all__ = ["CONTEST", "check"]

CASE = "odd"
QUARANTINE, SKIP = "quarantine", "skip"
_ADAPTERS = "benchmarks.failures.adapters"
NUM_ITEMS, NUM_ITEMS_QUICK = 20_000, 40


def check(num_items: int, outputs: Outputs) -> str | None:
    """Each even item came out, and each odd one was told."""
    kept, failed = outputs["kept"].tolist(), outputs["num_failed"].tolist()
    if kept != list(range(0, num_items, 2)):
        return f"it kept {kept[:5]}..., {len(kept)} of {num_items // 2}"
    return None if failed == [num_items // 2] else f"it told {failed} failures, not {num_items // 2}"


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    num_items = NUM_ITEMS_QUICK if is_quick else NUM_ITEMS
    case = Case(
        CASE,
        "every second item fails, in one thread",
        {"num_items": num_items},
        about={"num_items": num_items},
        per=num_items // 2,
        check=partial(check, num_items),
        cost="cpu_us",
        columns=(
            Spread("CPU µs a failure (min to max)", "cpu_us"),
            RatioTo("CPU / skip (min to max)", SKIP, "cpu_us"),
            Spread("wall µs (min to max)", "wall_us"),
        ),
    )
    return [case]


CONTEST = Contest(
    name="failures",
    question="What does a failed item cost, and what does each way of being told of it add?",
    ours=QUARANTINE,
    unit="a failure",
    peers=(
        Peer(QUARANTINE, f"{_ADAPTERS}.quarantine"),
        Peer(SKIP, f"{_ADAPTERS}.skip"),
        Peer("substitute", f"{_ADAPTERS}.substitute"),
        Peer("on_failure", f"{_ADAPTERS}.on_failure"),
    ),
    make_cases=make_cases,
    required=(
        AtMost(
            "CPU time that a line in the quarantine file adds to a failure",
            (CASE, QUARANTINE, "cpu_us"),
            50.0,
            floor=(CASE, SKIP, "cpu_us"),
        ),
    ),
    rounds=9,
    seconds=0.0,  # a turn is one run of the pipeline
)
