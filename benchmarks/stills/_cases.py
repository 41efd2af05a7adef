"""Cases, peers, and the comparison of outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks._contest.contest import Case, Contest, OutputMismatch, Outputs, Peer
from benchmarks._contest.environments import MEDIA_LIBRARIES, Environment
from benchmarks._contest.photos import make_photos
from benchmarks._contest.required import Ratio

OURS = "spdl"
#: Suffix and options of Pillow's encoder, by the name of the format.
FORMATS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "png": (".png", {}),
    "webp": (".webp", {"quality": 80}),
    "webp-lossless": (".webp", {"lossless": True, "method": 1}),
    "gif": (".gif", {}),
    "tiff-lzw": (".tif", {"compression": "tiff_lzw"}),
    "tiff-deflate": (".tif", {"compression": "tiff_adobe_deflate"}),
    "avif": (".avif", {"quality": 70, "speed": 9}),
}


@dataclass(frozen=True, slots=True)
class PhotoSet:
    """Photographs of one kind (scripts/make_photos.py), their number in a call, the number of turns, and the works."""

    kind: str
    title: str
    count: int
    rounds: int
    works: Sequence[str]


SIZES = {
    "web": PhotoSet("web", "500x375", 16, 9, ("whole", "small", "batch")),
    "large": PhotoSet("phone", "12 megapixels", 1, 5, ("whole", "small")),
}
WORKS = {"whole": "one by one, whole", "small": "one by one, at 224x224", "batch": "a batch, at 224x224"}
#: Whole pictures are the same but for how chroma is enlarged; filters differ when they are made smaller.
ALIKE_DB = 28.0


def likeness_of(case: str, peer: str, ours: Outputs, theirs: Outputs) -> float:
    """The PSNR in dB of the picture that differs most, at most 99.

    Raises:
        OutputMismatch: It differs too much, or a picture is missing or has another size.
    """
    wrong = f"{peer} does not do the work of {case!r}"
    worst = 99.0
    for name, picture in ours.items():
        if name not in theirs or picture.shape != theirs[name].shape:
            given = theirs[name].shape if name in theirs else "missing"
            raise OutputMismatch(f"{wrong}: {name} is {given}, SPDL's {picture.shape}")
        difference = np.subtract(picture, theirs[name], dtype=np.float32).ravel()
        mean_square = max(float(difference @ difference) / max(difference.size, 1), 1e-9)
        worst = min(worst, 10 * float(np.log10(255**2 / mean_square)))
        if worst < ALIKE_DB:
            raise OutputMismatch(f"{wrong}: {name} has a PSNR of {worst:.1f} dB, required are {ALIKE_DB:g}")
    return round(worst, 1)


def encode(photos: Sequence[str], form: str, folder: Path) -> list[str]:
    suffix, options = FORMATS[form]
    paths = []
    for photo in photos:
        path = folder / form / Path(photo).with_suffix(suffix).name
        paths.append(str(path))
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(photo) as picture:
            pixels = picture.quantize(256) if form == "gif" else picture.convert("RGB")
        part = path.with_name(f"part-{path.name}")
        pixels.save(part, **options)
        part.rename(path)
    return paths


def _count(size: str, quick: bool) -> int:
    return min(SIZES[size].count, 4) if quick else SIZES[size].count


def _inputs(form: str, size: str, work: str, folder: Path, quick: bool) -> Callable[[], Mapping[str, Any]]:
    def make() -> Mapping[str, Any]:
        photos = make_photos(SIZES[size].kind, SIZES[size].count)[: _count(size, quick)]
        return {"paths": encode(photos, form, folder / size), "work": work}

    return make


def make_cases(folder: Path, quick: bool) -> Sequence[Case]:
    return [
        Case(
            f"{form}-{size}-{work}",
            f"{form}, {photos.title}, {WORKS[work]}",
            _inputs(form, size, work, folder, quick),
            per=_count(size, quick),
            likeness=partial(likeness_of, f"{form}-{size}-{work}"),
            peers=tuple(peer.name for peer in PEERS if form not in LACKING.get(peer.name, ())),
            rounds=photos.rounds,
            is_quick=size == "web",
        )
        for form in FORMATS
        for size, photos in SIZES.items()
        for work in photos.works
    ]


LIBRARIES = Environment("stills-peers", ("numpy", "opencv-python-headless>=4.12", "pillow>=12"))
#: Without libtiff's headers it is left out as a whole. pip's cache may have one that was compiled without them.
PILLOW_SIMD = Environment(
    "stills-simd",
    ("numpy", "pillow-simd"),
    variables=(
        ("CC", "cc -mavx2"),
        ("PIP_CONFIG_SETTINGS", "tiff=enable"),
        ("PIP_NO_CACHE_DIR", "1"),
    ),
)

PEERS = (
    Peer(OURS, "benchmarks.stills.adapters.spdl_stills"),
    Peer("pillow", "benchmarks.stills.adapters.pillow_stills", LIBRARIES),
    Peer("pillow-simd", "benchmarks.stills.adapters.pillow_stills", PILLOW_SIMD),
    Peer("opencv", "benchmarks.stills.adapters.opencv_stills", LIBRARIES),
    Peer("torchcodec", "benchmarks.stills.adapters.torch_codec", MEDIA_LIBRARIES),
)

#: Formats that a peer cannot read, or reads with other colours than the file says (README.md), by its name.
LACKING: Mapping[str, Sequence[str]] = {
    "pillow-simd": ("avif",),
    "torchcodec": ("avif",),
}

CONTEST = Contest(
    name="stills",
    question="How fast do PNG, WebP, GIF, TIFF and AVIF become arrays?",
    ours=OURS,
    unit="a picture",
    peers=PEERS,
    make_cases=make_cases,
    required=[
        Ratio(f"{form}-{size}-{work}: {peer} over ours", (case, peer), (case, OURS), 1.2, of_rounds=True)
        for form in FORMATS
        for size, photos in SIZES.items()
        for work in photos.works
        for case in [f"{form}-{size}-{work}"]
        for peer in ("pillow", "pillow-simd", "opencv", "torchcodec")
        if form not in LACKING.get(peer, ())
    ],
)
