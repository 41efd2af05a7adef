"""Photographs, transforms, and the required ratios."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ._work import Work

BATCH, FIT_BATCH = 64, 32
#: Float32 may cost 8 % more than uint8, so uint8 takes at least this much of its time.
UINT8_OVER_FLOAT32 = 1 / 1.08


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
class Case:
    """One table.

    Attributes:
        name: The name in ``--cases``.
        title: The name for readers.
        required: The minimum of the peer's time over SPDL's, by peer.
        best: The same for the fastest peer that reads plain files.
    """

    name: str
    title: str
    photos: PhotoSet
    work: Work
    required: Mapping[str, float] = field(default_factory=dict)
    best: float | None = None


def make_cases() -> list[Case]:
    """All cases, in the order of the report."""
    web = SETS[0]
    promised = {"reference": 2.5, "pillow": 2.2, "planes": 0.75}
    cases = [
        Case("fit", "500x375, fit, uint8", web, Work("fit", "uint8", 1, FIT_BATCH), promised),
        Case("fit-2", "500x375, fit, uint8, two threads", web, Work("fit", "uint8", 2, FIT_BATCH), {"spdl-1": 1.85}),
    ]
    for photos in SETS:
        for transform, transform_title in (("eval", "evaluation"), ("train", "training")):
            for dtype in ("uint8", "float32"):
                for num_threads in (1, 2):
                    name, title = f"{photos.kind}-{transform}-{dtype}", f"{photos.title}, {transform_title}, {dtype}"
                    if num_threads == 2:
                        name, title = f"{name}-2", f"{title}, two threads"
                    work = Work(transform, dtype, num_threads, BATCH)
                    cases.append(Case(name, title, photos, work, _required(photos, work), _best(photos, work)))
    return cases


def _required(photos: PhotoSet, work: Work) -> dict[str, float]:
    required = {"spdl-uint8": UINT8_OVER_FLOAT32} if work.dtype == "float32" else {}
    if work.num_threads == 2:
        return required | {"spdl-1": 1.9}
    if photos.kind == "web":
        return required | {"reference": 2.8, "pillow": 2.4, "planes": 0.85}
    return required | ({"pillow": 3.0} if photos.kind == "phone" else {})


def _best(photos: PhotoSet, work: Work) -> float | None:
    return 1.3 if photos.kind == "web" and work.num_threads == 1 else None


#: Cases in which SPDL's time with the GIL is measured, and the maximum share of its time.
HELD_CASES, HELD_AT_MOST = ("web-eval-uint8", "web-eval-float32", "web-train-uint8", "web-train-float32"), 0.02
