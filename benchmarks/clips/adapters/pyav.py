"""PyAV: seek to the key frame before the clip, decode up to its last frame, ``to_ndarray`` of those in the clip."""

from collections.abc import Callable
from typing import Any

import av
import numpy as np


def versions() -> dict[str, str]:
    return {"av": av.__version__, "libavcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    path, (height, width) = data["path"], data["size"]

    def clip(indices: list[int]) -> Any:
        pictures = []
        with av.open(path) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            assert stream.average_rate is not None
            assert stream.time_base is not None
            ticks = 1 / (stream.average_rate * stream.time_base)
            wanted = [(stream.start_time or 0) + int(index * ticks) for index in indices]
            container.seek(wanted[0], stream=stream)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= wanted[len(pictures)]:
                    pictures.append(
                        frame.to_ndarray(format="rgb24", width=width, height=height, interpolation="BILINEAR")
                    )
                    if len(pictures) == len(wanted):
                        break
        return np.stack(pictures)

    return lambda: np.ascontiguousarray(
        np.stack([clip(indices) for indices in data["indices"]]).transpose(0, 4, 1, 2, 3)
    )


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"clips": result}
