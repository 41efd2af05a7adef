"""TorchCodec in its default mode, which scans all packets of the file before it decodes. It scales bilinearly."""

from collections.abc import Callable
from typing import Any

import torch
import torchcodec
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from ._shown import shown

torch.set_num_threads(1)
SEEK_MODE = "exact"


def versions() -> dict[str, str]:
    libavcodec = torchcodec.ffmpeg_major_version if hasattr(torchcodec, "ffmpeg_major_version") else "the system's"
    return {"torchcodec": torchcodec.__version__, "torch": torch.__version__, "FFmpeg": str(libavcodec)}


def prepare(case: str, data: dict[str, Any], seek_mode: Any = SEEK_MODE) -> Callable[[], Any] | None:
    path = data["path"]
    if data.get("scaler") == "bicubic":
        return None
    if "indices" in data:
        return lambda: VideoDecoder(path, num_ffmpeg_threads=1, seek_mode=seek_mode).get_frames_at(data["indices"]).data
    if "times" in data:
        times = data["times"]
        return lambda: VideoDecoder(path, num_ffmpeg_threads=1, seek_mode=seek_mode).get_frames_played_at(times).data
    transforms = [Resize((data["size"], data["size"]))] if "size" in data else None
    return lambda: (
        VideoDecoder(path, num_ffmpeg_threads=1, seek_mode=seek_mode, transforms=transforms).get_all_frames().data
    )


def outputs(case: str, result: Any) -> dict[str, Any]:
    return shown(result.permute(0, 2, 3, 1).numpy())
