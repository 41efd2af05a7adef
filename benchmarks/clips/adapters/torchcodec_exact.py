"""TorchCodec in its default mode, which scans all packets of the file before it decodes; it resizes as it decodes."""

from collections.abc import Callable
from typing import Any

import torch
import torchcodec
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

torch.set_num_threads(1)


def versions() -> dict[str, str]:
    return {"torchcodec": torchcodec.__version__, "torch": torch.__version__}


def prepare(case: str, data: dict[str, Any], seek_mode: Any = "exact") -> Callable[[], Any]:
    path, size = data["path"], tuple(data["size"])
    # At full size there is nothing to resize.
    transforms = [Resize(size)] if data["resizes"] else []

    def clip(indices: list[int]) -> Any:
        decoder = VideoDecoder(path, num_ffmpeg_threads=1, seek_mode=seek_mode, transforms=transforms)
        return decoder.get_frames_at(indices).data

    return lambda: torch.stack([clip(indices) for indices in data["indices"]]).permute(0, 2, 1, 3, 4).contiguous()


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"clips": result.numpy()}
