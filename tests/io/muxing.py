"""Small streams for the tests of muxers."""

from pathlib import Path
from typing import Any

import numpy as np

import spdl.io

CONFIG = spdl.io.video_encode_config(height=32, width=32, frame_rate=(25, 1), pix_fmt="yuv444p")
SOUND = spdl.io.audio_encode_config(num_channels=1, sample_rate=8000, sample_fmt="s16")


def noise(num_frames: int, pts: int = 0) -> spdl.io.VideoFrames:
    """Pictures of CONFIG that no encoder can make small."""
    array = np.random.default_rng(0).integers(0, 256, (num_frames, 3, 32, 32), np.uint8)
    return spdl.io.create_reference_video_frame(array, "yuv444p", (25, 1), pts)


def packets_of(num_frames: int, pts: int = 0) -> spdl.io.VideoPackets:
    """FFV1 of that many pictures of CONFIG."""
    encoder = spdl.io.Muxer("unused.mkv").add_encode_stream(CONFIG, encoder="ffv1")
    packets = encoder.encode(noise(num_frames, pts))
    assert packets is not None
    return packets


def video_muxer(path: Path | str, **options: Any) -> spdl.io.Muxer:
    """For the packets of `packets_of`."""
    muxer = spdl.io.Muxer(path, **options)
    muxer.add_encode_stream(CONFIG, encoder="ffv1")
    return muxer
