"""``load_video_clips``."""

from collections.abc import Callable
from typing import Any

import spdl.io
from benchmarks._contest.ours import spdl_version
from spdl.io.utils import get_ffmpeg_versions


def versions() -> dict[str, str]:
    libavcodec = ".".join(map(str, get_ffmpeg_versions()["libavcodec"]))
    return {"spdl": spdl_version(), "libavcodec": libavcodec}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    indices, size = data["indices"], tuple(data["size"])
    paths = [data["path"]] * len(indices)
    # A quarter of a frame behind its beginning, so that rounding does not matter.
    starts = [(clip[0] + 0.25) / data["frame_rate"] for clip in indices]
    num_frames, stride = len(indices[0]), data["stride"]
    return lambda: spdl.io.load_video_clips(
        paths, num_frames=num_frames, stride=stride, start=starts, size=size, layout="NCTHW"
    )


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"clips": spdl.io.to_numpy(result)}
