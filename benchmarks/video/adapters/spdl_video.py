"""``load_video``, and ``sample_decode_video`` of demuxed packets: this checkout's or the reference's."""

import inspect
from collections.abc import Callable
from typing import Any

import spdl.io
from benchmarks._contest.ours import spdl_version
from spdl.io.utils import get_ffmpeg_versions

from ._shown import shown


def versions() -> dict[str, str]:
    libavcodec = ".".join(map(str, get_ffmpeg_versions()["libavcodec"]))
    return {"spdl": spdl_version(), "libavcodec": libavcodec}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    path = data["path"]
    if "indices" in data:
        indices = data["indices"]

        def sample() -> Any:
            images = spdl.io.sample_decode_video(spdl.io.demux_video(path), indices)
            return spdl.io.to_numpy(spdl.io.convert_frames(images))

        return sample
    if "times" in data:
        if "times" not in inspect.signature(spdl.io.sample_decode_video).parameters:
            return None
        times = data["times"]

        def sample_times() -> Any:
            images = spdl.io.sample_decode_video(spdl.io.demux_video(path), times=times)
            return spdl.io.to_numpy(spdl.io.convert_frames(images))

        return sample_times
    if "size" not in data:
        return lambda: spdl.io.to_numpy(spdl.io.load_video(path))
    description = spdl.io.get_video_filter_desc(
        scale_width=data["size"], scale_height=data["size"], scale_algo=data["scaler"], scale_mode=None
    )
    return lambda: spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=description))


def outputs(case: str, result: Any) -> dict[str, Any]:
    return shown(result)
