"""Cases, peers, and the comparison of outputs."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._contest.contest import Case, Contest, Outputs, Peer
from benchmarks._contest.environments import MEDIA_LIBRARIES
from benchmarks._contest.required import Ratio
from benchmarks.video._clips import FRAME_RATE, Clip

OURS = "spdl"
NUM_FRAMES = 8
#: (height, width)
Size = tuple[int, int]
SIZE: Size = (224, 224)
#: Peers differ in scaling filters and chroma positions; a wrong picture or frame is far below this PSNR.
ALIKE_DB = 28.0


def _alike(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference: the shape of the batch, or pictures that differ too much."""
    if ours["clips"].shape != theirs["clips"].shape:
        return f"it has {theirs['clips'].shape}, SPDL {ours['clips'].shape}"
    difference = ours["clips"].astype(np.float32) - theirs["clips"]
    # (clips, channels, frames, height, width): of each frame.
    worst = 10 * float(np.log10(255**2 / max(float((difference**2).mean(axis=(1, 3, 4)).max()), 1e-9)))
    return (
        None
        if worst >= ALIKE_DB
        else f"a frame has a PSNR of {worst:.1f} dB against SPDL, at least {ALIKE_DB:g} is required"
    )


def make_cases(folder: Path, quick: bool) -> Sequence[Case]:
    seconds = 4 if quick else 10
    few, many = (2, 20) if quick else (8, 200)

    def case(
        name: str,
        title: str,
        clip: Clip,
        stride: int,
        *,
        num_frames: int = NUM_FRAMES,
        size: Size = SIZE,
        num_clips: int = few,
    ) -> Case:
        path = str(clip.make(folder))
        last = clip.seconds * FRAME_RATE - (num_frames - 1) * stride - 1
        generator = random.Random(7)
        firsts = [generator.randint(0, last) for _ in range(num_clips)]
        indices = [[first + position * stride for position in range(num_frames)] for first in firsts]
        data = {"path": path, "indices": indices, "stride": stride, "frame_rate": FRAME_RATE, "size": size}
        data["resizes"] = size != (clip.height, clip.width)
        return Case(name, title, data, per=num_clips, differ=_alike)

    short, small, large = Clip(320, 240, 2), Clip(640, 360, seconds), Clip(1280, 720, seconds)
    return (
        case("short", "8 consecutive frames of two seconds of 320x240", short, 1),
        case(
            "many", "200 times 5 consecutive frames of two seconds of 320x240", short, 1, num_frames=5, num_clips=many
        ),
        case(
            "many_full_size",
            "the same, at full size",
            short,
            1,
            num_frames=5,
            size=(short.height, short.width),
            num_clips=many,
        ),
        case("small_dense", "8 consecutive frames of 640x360", small, 1),
        case("small_sparse", "every 4th frame of 640x360", small, 4),
        case("large_dense", "8 consecutive frames of 1280x720", large, 1),
        case("large_sparse", "every 4th frame of 1280x720", large, 4),
        case(
            "full_size",
            "a single frame of 1280x720, at full size",
            large,
            1,
            num_frames=1,
            size=(large.height, large.width),
        ),
    )


PEERS = (
    Peer(OURS, "benchmarks.clips.adapters.spdl_clips"),
    Peer("torchcodec", "benchmarks.clips.adapters.torchcodec_exact", MEDIA_LIBRARIES),
    Peer("torchcodec-approximate", "benchmarks.clips.adapters.torchcodec_approximate", MEDIA_LIBRARIES),
    Peer("decord", "benchmarks.clips.adapters.decord_reader", MEDIA_LIBRARIES),
    Peer("pyav", "benchmarks.clips.adapters.pyav", MEDIA_LIBRARIES),
)

CONTEST = Contest(
    name="clips",
    question="How fast do video files become batches of clips for training?",
    ours=OURS,
    unit="a clip",
    peers=PEERS,
    make_cases=make_cases,
    required=[
        Ratio(f"{case}: {peer.name} over ours", (case, peer.name), (case, OURS), 1.5)
        for case in (
            "short",
            "many",
            "many_full_size",
            "small_dense",
            "small_sparse",
            "large_dense",
            "large_sparse",
            "full_size",
        )
        for peer in PEERS[1:]
    ],
)
