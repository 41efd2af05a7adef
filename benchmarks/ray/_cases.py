"""The peers, the cases and the requirements."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest.columns import Column, Rate, RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.figures import Figure
from benchmarks._contest.photos import make_photos
from benchmarks._contest.required import AtMost, Ratio, figure_of
from benchmarks._contest.result import Result

__all__ = ["CONTEST"]

OURS, FAR, PROCESSES, RAY_DATA, INSIDE = "actors", "actors-far", "processes", "ray-data", "ray-data-spdl"
_NUM_PHOTOS = 384


def _peer(name: str, adapter: str, way: str) -> Peer:
    return Peer(name, f"benchmarks.ray.adapters.{adapter}", settings={"way": way})


def differ(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of how the means of the pictures differ: two decoders agree within one level."""
    mine, other = ours["means"], theirs["means"]
    if mine.shape != other.shape:
        return f"it gave {other.size} pictures, not {mine.size}"
    difference = float(np.abs(mine - other).max())
    return None if difference <= 1 else f"the mean of a picture differs by {difference:.2f}"


@dataclass(frozen=True, slots=True)
class StoreAtMost:
    """A requirement on what the object store holds while nobody reads, over what is in flight."""

    at_most: float

    def cases(self) -> Sequence[str]:
        return ("fill",)

    def measured(self, result: Result) -> Figure:
        ratio = result.once("fill", FAR, "store_ratio")
        title = "object store over what is in flight"
        return figure_of(title, ratio, (), "x", at_most=self.at_most)


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    columns: tuple[Column, ...] = (
        Spread("ms a batch (min to max)", "wall_us", 1e-3),
        Rate("batches/s (min to max)"),
        RatioTo("time / ours (min to max)", OURS),
    )
    first = (
        Spread("first, ms (min to max)", "first_ms"),
        RatioTo("first / ours (min to max)", OURS, "first_ms"),
    )

    def inputs(num_batches: int) -> dict[str, Any]:
        return {"paths": make_photos("web", _NUM_PHOTOS), "num_batches": num_batches}

    title = "batches of 32 photographs, decoded to 224x224, 4.8 MB"
    empty = "batches of 4.8 MB that are only filled"
    return [
        Case(
            "photos",
            title,
            lambda: inputs(24 if is_quick else 96),
            peers=(OURS, PROCESSES, RAY_DATA, INSIDE),
            differ=differ,
            columns=columns,
        ),
        Case(
            "fill",
            empty,
            lambda: inputs(240 if is_quick else 960),
            peers=(OURS, FAR, PROCESSES),
            differ=differ,
            columns=columns,
        ),
        Case(
            "first", f"the first of {empty}", lambda: inputs(1), peers=(OURS, PROCESSES), cost="first_ms", columns=first
        ),
    ]


def _over_ours(peer: str, at_least: float) -> Ratio:
    return Ratio(f"photos: {peer} over {OURS}", ("photos", peer), ("photos", OURS), at_least, of_rounds=True)


CONTEST = Contest(
    name="ray",
    question="What does a region cost whose workers are Ray actors?",
    ours=OURS,
    unit="a batch",
    peers=(
        _peer(OURS, "spdl_region", "actors"),
        _peer(FAR, "spdl_region", "actors-far"),
        _peer(PROCESSES, "spdl_region", "processes"),
        _peer(RAY_DATA, "ray_data", "pillow"),
        _peer(INSIDE, "ray_data", "spdl"),
    ),
    make_cases=make_cases,
    required=(
        _over_ours(PROCESSES, 0.8),
        Ratio(f"fill: {PROCESSES} over {OURS}", ("fill", PROCESSES), ("fill", OURS), 0.8, of_rounds=True),
        _over_ours(RAY_DATA, 2.0),
        _over_ours(INSIDE, 2.0),
        AtMost("first batch after ray.init", ("first", OURS, "first_ms"), 3000, unit=" ms"),
        StoreAtMost(1.2),
    ),
    sessions="benchmarks.ray._session",
    warm_up=1,
)
