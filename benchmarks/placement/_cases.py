"""The ops, and the places of the pipeline. This module imports nothing of what is measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._contest.columns import Median, Once, Rate, Share
from benchmarks._contest.contest import Case, Contest, Peer
from benchmarks._contest.photos import make_photos

__all__ = ["CONTEST", "TITLES", "WAYS"]

WAYS = ("threads", "subprocess", "region")
TITLES = {
    "photos": "photographs of 500x375 to batches of 32x224x224x3, one native call each",
    "python": "32 samples a batch, 0.3 ms of Python for each",
}
#: Batches of an epoch that are not timed: more than any of the pipelines prefetches.
NUM_AHEAD = 16
NUM_TIMED, NUM_TIMED_QUICK = 48, 4
NUM_PHOTOS, NUM_PHOTOS_QUICK = 384, 8

COLUMNS = (
    Rate("samples/s (min to max)"),
    Median("CPU s of the trainer, 1000 samples", "cpu_us", 1e-3),
    Rate("samples/s beside training", "training_us"),
    Share("a training step, times as long (min to max)", "step_us", "alone_us"),
    Share("of that waiting for Python", "waiting_us", "alone_us"),
    Once("memory, MB", "pss", 1e-6),
)


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    num_photos, num_timed = (NUM_PHOTOS_QUICK, NUM_TIMED_QUICK) if is_quick else (NUM_PHOTOS, NUM_TIMED)

    def inputs() -> Mapping[str, Any]:
        return {"paths": make_photos("web", num_photos), "num_ahead": NUM_AHEAD, "num_timed": num_timed}

    about = {"batches_timed": num_timed, "batches_ahead": NUM_AHEAD}
    return [Case(name, title, inputs, about, columns=COLUMNS) for name, title in TITLES.items()]


CONTEST = Contest(
    name="placement",
    question="How much of its interpreter does a training process keep when its loader runs elsewhere?",
    ours=WAYS[0],
    unit="a sample",
    peers=[Peer(way, "benchmarks.placement._work", settings={"way": way}) for way in WAYS],
    make_cases=make_cases,
    sessions="benchmarks.placement._session",
    rounds=7,
    warm_up=1,
)
