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
    if "starts" in data:

        def crop(start: float) -> Any:
            decoder = AudioDecoder(path, sample_rate=data["rate"], num_channels=1)
            samples = decoder.get_samples_played_in_range(start, start + 1).data
            missing = data["rate"] - samples.shape[1]
            return torch.nn.functional.pad(samples, (0, missing)) if missing > 0 else samples[:, : data["rate"]]

        return lambda: torch.stack([crop(start) for start in data["starts"]])
    return lambda: AudioDecoder(path).get_all_samples().data


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result.numpy()}
