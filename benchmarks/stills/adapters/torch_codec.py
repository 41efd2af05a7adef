"""TorchCodec, which takes a still for a video of one frame, in formats in which it finds that frame.

Its classes seek before they decode, and then find no frame (0.13.0); so this calls the functions below them. It takes
all YCbCr for limited range, so it has no part in AVIF, which is of full range here.
"""

from collections.abc import Callable
from typing import Any

import torch
import torchcodec
from torch.nn.functional import interpolate
from torchcodec._core import ops as _core

from ._pictures import SIZE, by_index, one_by_one

torch.set_num_threads(1)


def versions() -> dict[str, str]:
    return {"torchcodec": torchcodec.__version__, "torch": torch.__version__}


def _decode(path: str) -> Any:
    decoder = _core.create_from_file(path, "approximate")
    _core.add_video_stream(decoder, num_threads=1)
    return _core.get_next_frame(decoder)[0]


def _whole(path: str) -> Any:
    return _decode(path).permute(1, 2, 0).contiguous().numpy()


def _small(path: str) -> Any:
    pixels = interpolate(_decode(path)[None], (SIZE, SIZE), mode="bilinear", antialias=True)[0]
    return pixels.permute(1, 2, 0).numpy()


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    try:
        _whole(data["paths"][0])
    except RuntimeError:
        return None
    return one_by_one(data, _whole, _small)


def outputs(case: str, result: Any) -> dict[str, Any]:
    return by_index(result)
