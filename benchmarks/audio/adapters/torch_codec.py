"""TorchCodec's decoder of audio."""

from collections.abc import Callable
from typing import Any

import torch
import torchcodec
from torchcodec.decoders import AudioDecoder

torch.set_num_threads(1)


def versions() -> dict[str, str]:
    return {"torchcodec": torchcodec.__version__, "torch": torch.__version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    path = data["path"]
    return lambda: AudioDecoder(path).get_all_samples().data


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result.numpy()}
