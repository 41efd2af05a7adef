"""Pictures and samples without a codec: bytes that are what a decoder has to give."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import spdl.io

if TYPE_CHECKING:
    from spdl.io import AudioFrames, VideoFrames


def picture_bytes(pix_fmt: str, width: int, height: int) -> int:
    """How many bytes a picture has in FFmpeg's raw video, by the formats' definition."""
    half_width, half_height = -(-width // 2), -(-height // 2)
    chroma = {
        "yuv420p": 2 * half_width * half_height,
        "yuvj420p": 2 * half_width * half_height,
        "nv12": 2 * half_width * half_height,
        "yuv422p": 2 * half_width * height,
        "yuvj422p": 2 * half_width * height,
    }
    if pix_fmt in chroma:
        return width * height + chroma[pix_fmt]
    per_pixel = {"rgb24": 3, "bgr24": 3, "gbrp": 3, "yuv444p": 3, "yuvj444p": 3, "rgba": 4, "gray": 1,
                 "gray16le": 2, "gray16be": 2, "rgb48le": 6, "rgb48be": 6}  # fmt: skip
    return width * height * per_pixel[pix_fmt]


def noise(num_bytes: int, seed: int = 0) -> NDArray[np.uint8]:
    """Bytes of all values."""
    return np.random.default_rng(seed).integers(0, 256, num_bytes, np.uint8)


def raw_video(
    data: NDArray[np.uint8], pix_fmt: str, width: int, height: int, *, filter_desc: str | None = None
) -> "VideoFrames":
    """The bytes as frames. Without a filter they have no padding; ``"copy"`` copies them to where they have."""
    config = spdl.io.demux_config("rawvideo", {"pixel_format": pix_fmt, "video_size": f"{width}x{height}"})
    return spdl.io.decode_packets(spdl.io.demux_video(data, demux_config=config), filter_desc)


def raw_audio(data: NDArray[Any], sample_fmt: str, *, filter_desc: str | None = None) -> "AudioFrames":
    """``(samples, channels)`` as frames; ``sample_fmt`` is a raw format such as ``"s16le"``."""
    options = {"sample_rate": "8000", "ch_layout": f"{data.shape[1]}C"}
    config = spdl.io.demux_config(sample_fmt, options)
    packets = spdl.io.demux_audio(data.reshape(-1).view(np.uint8), demux_config=config)
    return spdl.io.decode_packets(packets, filter_desc)
