"""PyAV: decode, ``to_ndarray``, ``stack``; for samples, seek to the key frame before each and decode up to it."""

from collections.abc import Callable
from typing import Any

import av
import numpy as np

from ._shown import shown


def versions() -> dict[str, str]:
    return {"av": av.__version__, "libavcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    path = data["path"]
    if "times" in data:
        return None
    if "indices" in data:
        return lambda: sample(path, data["indices"])
    scaling: dict[str, Any] = {}
    if "size" in data:
        scaling = {"width": data["size"], "height": data["size"], "interpolation": data["scaler"].upper()}

    def decode() -> Any:
        with av.open(path) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            return np.stack([frame.to_ndarray(format="rgb24", **scaling) for frame in container.decode(stream)])

    return decode


def sample(path: str, indices: list[int]) -> Any:
    pictures = []
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        assert stream.average_rate is not None
        assert stream.time_base is not None
        ticks = 1 / (stream.average_rate * stream.time_base)
        for index in indices:
            wanted = (stream.start_time or 0) + int(index * ticks)
            container.seek(wanted, stream=stream)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= wanted:
                    pictures.append(frame.to_ndarray(format="rgb24"))
                    break
    return np.stack(pictures)


def outputs(case: str, result: Any) -> dict[str, Any]:
    return shown(result)
