"""Cases, peers, and the comparison of outputs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.environments import MEDIA_LIBRARIES, REFERENCE
from benchmarks._contest.required import Ratio

from ._clips import FRAME_RATE, Clip

OURS = "spdl"
#: Peers differ in scaling filters and chroma positions; a wrong picture or frame is far below this PSNR.
ALIKE_DB = 30.0


def _alike(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference: the number of frames, their size, or pictures that differ too much."""
    if (ours["count"], ours["frames"].shape) != (theirs["count"], theirs["frames"].shape):
        return f"{theirs['count']} frames, shown {theirs['frames'].shape}; SPDL {ours['count']}, {ours['frames'].shape}"
    difference = ours["frames"].astype(np.float32) - theirs["frames"]
    mean_square = (difference**2).mean(axis=(1, 2, 3))
    worst = 10 * float(np.log10(255**2 / max(float(mean_square.max()), 1e-9)))
    return (
        None
        if worst >= ALIKE_DB
        else f"a frame has a PSNR of {worst:.1f} dB against SPDL, at least {ALIKE_DB:g} is required"
    )


def make_cases(folder: Path, quick: bool) -> Sequence[Case]:
    small = Clip(640, 360, 2 if quick else 10)
    large = Clip(1280, 720, 1 if quick else 5)
    minute = Clip(640, 360, 10 if quick else 60)
    count = minute.seconds * FRAME_RATE
    indices = [(2 * number + 1) * count // 20 for number in range(10)]

    # Inside the display of a frame, at which readers that round in different ways agree.
    times = [(index * 7919 % count + 0.4) / FRAME_RATE for index in range(1, 9)]

    def case(name: str, title: str, clip: Clip, **data: object) -> Case:
        path = str(clip.make(folder))
        chosen = data.get("indices", data.get("times"))
        num_frames = len(chosen) if isinstance(chosen, list) else clip.seconds * FRAME_RATE
        return Case(name, title, {"path": path, **data}, per=num_frames, differ=_alike)

    return (
        case("small_224", "640x360 to 224x224, bicubic", small, size=224, scaler="bicubic"),
        case("small_224_bilinear", "640x360 to 224x224, bilinear", small, size=224, scaler="bilinear"),
        case("small_full", "640x360 to its full size", small),
        case("large_224", "1280x720 to 224x224, bicubic", large, size=224, scaler="bicubic"),
        case("large_224_bilinear", "1280x720 to 224x224, bilinear", large, size=224, scaler="bilinear"),
        case("large_full", "1280x720 to its full size", large),
        case("sample", f"10 frames out of {minute.seconds} s of 640x360", minute, indices=indices),
        *(
            case(
                f"times_{gop}{suffix if suffix != 'mp4' else ''}",
                f"8 random times, {suffix}, a key frame every {gop}",
                Clip(640, 360, minute.seconds, gop, suffix),
                times=times,
            )
            for gop, suffix in ((12, "mp4"), (250, "mp4"), (12, "mkv"), (12, "webm"))
        ),
    )


def _required() -> list[Ratio]:
    at_full_size = ("small_full", "large_full")
    bicubic, bilinear = ("small_224", "large_224"), ("small_224_bilinear", "large_224_bilinear")
    # A peer is measured with its scaler; a peer that has both, with its default one.
    wanted = (
        ("reference", (*bicubic, *at_full_size), 1.0),
        ("pyav", (*bilinear, *at_full_size), 1.0),
        ("torchcodec", (*bilinear, *at_full_size), 1.0),
        ("decord", (*bicubic, *at_full_size), 1.0),
        ("ffmpeg", (*bicubic, *bilinear, *at_full_size), 0.95),
    )
    ratios = [
        Ratio(f"{case}: {peer} over ours", (case, peer), (case, OURS), at_least)
        for peer, cases, at_least in wanted
        for case in cases
    ]
    ratios += [
        Ratio(f"{case}: torchcodec over ours", (case, "torchcodec"), (case, OURS), at_least)
        for case, at_least in (("times_12", 1.25), ("times_250", 1.6), ("times_12mkv", 1.25), ("times_12webm", 1.25))
    ]
    others = ("reference", "pyav", "torchcodec", "torchcodec-approximate", "decord")
    return ratios + [Ratio(f"sample: {peer} over ours", ("sample", peer), ("sample", OURS), 1.0) for peer in others]


CONTEST = Contest(
    name="video",
    question="How fast does a video become an array of pictures?",
    ours=OURS,
    unit="a frame",
    peers=(
        Peer(OURS, "benchmarks.video.adapters.spdl_video"),
        Peer("reference", "benchmarks.video.adapters.spdl_video", REFERENCE),
        Peer("pyav", "benchmarks.video.adapters.pyav", MEDIA_LIBRARIES),
        Peer("torchcodec", "benchmarks.video.adapters.torchcodec_exact", MEDIA_LIBRARIES),
        Peer("torchcodec-approximate", "benchmarks.video.adapters.torchcodec_approximate", MEDIA_LIBRARIES),
        Peer("decord", "benchmarks.video.adapters.decord_reader", MEDIA_LIBRARIES),
        Peer("ffmpeg", "benchmarks.video.adapters.ffmpeg_tool"),
    ),
    make_cases=make_cases,
    required=_required(),
)
