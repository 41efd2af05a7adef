"""``torchaudio.load``, which is TorchCodec since its version 2.9; where it installs."""

from collections.abc import Callable
from typing import Any

import torch

try:
    import torchaudio
except OSError as exc:  # its wheels on the index are made for CUDA, and fail to load beside a torch without it
    raise ImportError(str(exc)) from exc

torch.set_num_threads(1)


def versions() -> dict[str, str]:
    return {"torchaudio": torchaudio.__version__, "torch": torch.__version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if "starts" in data:
        return None  # it is TorchCodec
    path = data["path"]
    return lambda: torchaudio.load(path)[0]


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result.numpy()}
