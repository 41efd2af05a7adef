"""Photographs and transforms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks._contest.client import run_python
from benchmarks._contest.columns import Likeness, Median, RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, OutputMismatch, Outputs
from benchmarks._contest.environments import CHECKOUT
from benchmarks._contest.figures import NOTHING, short
from benchmarks._contest.photos import make_photos
from benchmarks._contest.result import Result

from ._compare import ALIKE_DB, likeness_of
from ._peers import DRAWS, OURS, PEERS, settings_of
from ._required import HELD_CASES, required_of
from ._work import Work, work_of

__all__ = ["CONTEST", "WORKS", "PhotoSet"]

BATCH, FIT_BATCH = 64, 32


@dataclass(frozen=True, slots=True)
class PhotoSet:
    """Photographs of one kind (scripts/make_photos.py), their number in a turn, and the number of turns."""

    kind: str
    title: str
    count: int
    quick_count: int
    rounds: int


SETS = (
    PhotoSet("web", "500x375", 384, 8, 11),
    PhotoSet("screen", "1024x768", 128, 4, 7),
    PhotoSet("phone", "12 megapixels", 24, 2, 5),
)


@dataclass(frozen=True, slots=True)
class OfFastest:
    """The fastest turn over ours."""

    title: str = "of the fastest turns"

    def cell(self, result: Result, case: str, peer: str) -> str:
        theirs, ours = (result.values(case, name, "wall_us") for name in (peer, OURS))
        return short(min(theirs) / min(ours)) if theirs and ours else NOTHING


COLUMNS = (
    Spread("ms a photograph (min to max)", "wall_us", 1e-3),
    Median("CPU ms", "cpu_us", 1e-3),
    RatioTo("time / ours (min to max)", OURS),
    OfFastest(),
    Likeness("dB from ours"),
)
HELD_COLUMNS = (
    Spread("s of a turn (min to max)", "wall_s"),
    Spread("s with the GIL (min to max)", "held_s"),
    Spread("at most (min to max)", "held_at_most_s"),
)


def _works() -> dict[str, tuple[str, PhotoSet, Work]]:
    """Title, photographs and work of each case by its name, in the order of the report."""
    web = SETS[0]
    works = {
        "fit": ("500x375, fit, uint8", web, Work("fit", "uint8", 1, FIT_BATCH)),
        "fit-2": ("500x375, fit, uint8, two threads", web, Work("fit", "uint8", 2, FIT_BATCH)),
    }
    for photos in SETS:
        for transform, transform_title in (("eval", "evaluation"), ("train", "training")):
            for dtype in ("uint8", "float32"):
                name, title = f"{photos.kind}-{transform}-{dtype}", f"{photos.title}, {transform_title}, {dtype}"
                works[name] = title, photos, Work(transform, dtype, 1, BATCH)
                works[f"{name}-2"] = f"{title}, two threads", photos, Work(transform, dtype, 2, BATCH)
    works["web-whole"] = "500x375 stretched, uint8", web, Work("whole", "uint8", 1, BATCH)
    for photos in (web, SETS[2]):
        for transform, transform_title in (("eval", "evaluation"), ("centre", "the centre"), ("whole", "stretched")):
            work = Work(transform, "uint8", 1, BATCH, exact=True)
            works[f"{photos.kind}-{transform}-exact"] = f"{photos.title}, {transform_title}, exact", photos, work
    for name, is_exact in (("phone-lower", False), ("phone-lower-exact", True)):
        work = Work("lower", "uint8", 1, BATCH, exact=is_exact)
        works[name] = f"12 megapixels, the lower edge{', exact' if is_exact else ''}", SETS[2], work
    return works


#: Who takes part in cases that are not for all.
EXACT_PEERS = (OURS, "pillow", "pillow-simd", "rgb")
SHRINKING_PEERS = (OURS, "pillow", "pillow-draft", "pillow-simd", "opencv", "opencv-half", "simplejpeg", "planes")


def _peers_of(work: Work) -> Sequence[str] | None:
    if work.transform == "lower":
        return (*EXACT_PEERS, "spdl-restarts") if work.exact else (OURS, "pillow", "spdl-restarts")
    if work.exact:
        return EXACT_PEERS
    return (
        SHRINKING_PEERS
        if work.transform == "whole"
        else tuple(peer.name for peer in PEERS if peer.name not in ("rgb", "opencv-half", "spdl-restarts"))
    )


WORKS = _works()


@cache
def _drawn(kind: str, count: int) -> list[dict[str, Any]]:
    """The photographs, made if necessary, each with the crop that SPDL draws for the training transform."""
    paths = make_photos(kind, count)
    code = (
        "import json; from benchmarks.images.adapters.spdl_batch import draw;"
        f" print(json.dumps(draw(json.loads({json.dumps(paths)!r}))))"
    )
    drawn: list[dict[str, Any]] = run_python("draw", CHECKOUT, code)
    return drawn


def _inputs(photos: PhotoSet, work: Work, is_held: bool, is_quick: bool) -> Mapping[str, Any]:
    drawn = _drawn(photos.kind, photos.quick_count if is_quick else photos.count)
    if work.transform != "train":
        drawn = [{"index": each["index"], "path": each["path"]} for each in drawn]
    return {"work": asdict(work), "photos": drawn, "is_held": is_held}


def likeness(work: Work, peer: str, ours: Outputs, theirs: Outputs) -> float | None:
    """PSNR in dB; ``None`` if the peer's batch is another by its settings.

    Raises:
        OutputMismatch: It differs too much.
    """
    its_work = work_of(work, settings_of(peer))
    assert its_work is not None  # it took part
    if its_work.dtype != work.dtype or (peer in DRAWS and work.transform == "train"):
        return None
    alike = likeness_of(ours["batch"], theirs["batch"], its_work)
    if alike < ALIKE_DB:
        raise OutputMismatch(f"{peer} does not do the work of {work}: PSNR {alike} dB against SPDL")
    return alike


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    cases = []
    for name, (title, photos, work) in WORKS.items():
        about = {"work": asdict(work)}
        inputs = partial(_inputs, photos, work, False, is_quick)
        compare = partial(likeness, work)
        cases.append(
            Case(
                name,
                title,
                inputs,
                about,
                likeness=compare,
                peers=_peers_of(work),
                columns=COLUMNS,
                rounds=photos.rounds,
            )
        )
        if name in HELD_CASES:
            held = Case(
                f"{name}-held",
                f"{title}: time with the GIL",
                partial(_inputs, photos, work, True, is_quick),
                about,
                peers=(OURS,),
                cost="wall_s",
                columns=HELD_COLUMNS,
                rounds=photos.rounds,
            )
            cases.append(held)
    return cases


CONTEST = Contest(
    name="images",
    question="How fast do JPEG files become a batch of images?",
    ours=OURS,
    unit="a photograph",
    peers=PEERS,
    make_cases=make_cases,
    required=tuple(required for name, (_, _, work) in WORKS.items() for required in required_of(name, work)),
    sessions="benchmarks.images._session",
    warm_up=1,
)
