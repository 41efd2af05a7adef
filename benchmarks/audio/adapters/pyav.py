"""PyAV: decode, ``to_ndarray``, ``concatenate``; integers go through its resampler to planar float32."""

from collections.abc import Callable
from typing import Any

import av
import numpy as np


def versions() -> dict[str, str]:
    return {"av": av.__version__, "libavcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if "starts" in data:
        return None
    path = data["path"]

    def decode() -> Any:
        with av.open(path) as container:
            stream = container.streams.audio[0]
            if stream.format.name == "fltp":
                return np.concatenate([frame.to_ndarray() for frame in container.decode(stream)], axis=1)
            resampler = av.AudioResampler(format="fltp")
            parts = [
                converted.to_ndarray() for frame in container.decode(stream) for converted in resampler.resample(frame)
            ]
            return np.concatenate(parts, axis=1)

    return decode


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result}
