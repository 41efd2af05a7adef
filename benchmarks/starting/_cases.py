"""The contestants and the requirement."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks._contest.columns import RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.required import Ratio

__all__ = ["CONTEST"]

OURS, FORK = "spdl", "torch_fork"
_ADAPTERS = "benchmarks.starting.adapters"


def check(outputs: Outputs) -> str | None:
    """Batches of four squares, in order."""
    batches = outputs["batches"]
    if batches.shape == (16, 4) and batches.reshape(-1).tolist() == [index**2 for index in range(64)]:
        return None
    return f"its batches are {batches.tolist()}, not 16 batches of 4 squares"


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    columns = (
        Spread("seconds of an epoch (min to max)", "wall_us", 1e-6),
        RatioTo("time / torch's by fork (min to max)", FORK),
    )
    title = "16 batches that cost nothing, from two workers that end with the epoch"
    return [Case("epoch", title, check=check, columns=columns)]


CONTEST = Contest(
    name="starting",
    question="What does an epoch cost if its worker processes end with it?",
    ours=OURS,
    unit="an epoch",
    peers=(
        Peer(OURS, f"{_ADAPTERS}.spdl_processes"),
        Peer(FORK, f"{_ADAPTERS}.torch_fork"),
        Peer("torch_forkserver", f"{_ADAPTERS}.torch_forkserver"),
    ),
    make_cases=make_cases,
    required=(
        Ratio("time of an epoch: ours over torch's by fork", ("epoch", OURS), ("epoch", FORK), at_most=1.5,
              of_rounds=True),
    ),
    rounds=15,
    seconds=0.0,  # a turn is one epoch
)  # fmt: skip
