"""Cases, peers, and the comparison of outputs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks._contest.contest import Case, Contest, Outputs, Peer
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
#: Kind of photograph and how many of them, by the name in cases.
SIZES = {"web": ("web", 16), "large": ("phone", 2)}
WORKS = {"whole": "one by one, whole", "small": "one by one, at 224x224", "batch": "a batch, at 224x224"}
#: Whole pictures are the same but for how chroma is enlarged; filters differ when they are made smaller.
ALIKE_DB = 28.0


def _alike(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference: a shape, or a picture that differs too much."""
    for name, picture in ours.items():
        if name not in theirs or picture.shape != theirs[name].shape:
            return f"{name} is {theirs[name].shape if name in theirs else 'missing'}, SPDL's {picture.shape}"
        difference = picture.astype(np.float32) - theirs[name]
        worst = 10 * float(np.log10(255**2 / max(float((difference**2).mean()), 1e-9)))
        if worst < ALIKE_DB:
            return f"{name} has a PSNR of {worst:.1f} dB against SPDL, at least {ALIKE_DB:g} is required"
    return None


def _encode(photos: Sequence[str], form: str, folder: Path) -> list[str]:
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


def _inputs(form: str, size: str, work: str, folder: Path, quick: bool) -> Callable[[], Mapping[str, Any]]:
    def make() -> Mapping[str, Any]:
        kind, count = SIZES[size]
        photos = make_photos(kind, count)[: 4 if quick else count]
        return {"paths": _encode(photos, form, folder / size), "work": work}

    return make


def make_cases(folder: Path, quick: bool) -> Sequence[Case]:
    return [
        Case(
            f"{form}-{size}-{work}",
            f"{form}, {size}, {title}",
            _inputs(form, size, work, folder, quick),
            per=min(SIZES[size][1], 4) if quick else SIZES[size][1],
            differ=_alike,
            is_quick=size == "web",
        )
        for form in FORMATS
        for size in SIZES
        for work, title in WORKS.items()
    ]


LIBRARIES = Environment("stills-peers", ("numpy", "opencv-python-headless>=4.12", "pillow>=12"))
PILLOW_SIMD = Environment("images-simd", ("numpy", "pillow-simd"), variables=(("CC", "cc -mavx2"),))

PEERS = (
    Peer(OURS, "benchmarks.stills.adapters.spdl_stills"),
    Peer("pillow", "benchmarks.stills.adapters.pillow_stills", LIBRARIES),
    Peer("pillow-simd", "benchmarks.stills.adapters.pillow_stills", PILLOW_SIMD),
    Peer("opencv", "benchmarks.stills.adapters.opencv_stills", LIBRARIES),
    Peer("torchcodec", "benchmarks.stills.adapters.torch_codec", MEDIA_LIBRARIES),
)

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
        for size in SIZES
        for work in WORKS
        for case in [f"{form}-{size}-{work}"]
        for peer in ("pillow", "opencv", "torchcodec")
        if peer != "torchcodec" or form.startswith(("png", "webp"))
    ],
)
