"""``load_audio``: this checkout's or the reference's."""

from collections.abc import Callable
from typing import Any

import spdl.io
from benchmarks._contest.ours import spdl_version
from spdl.io.utils import get_ffmpeg_versions


def versions() -> dict[str, str]:
    libavcodec = ".".join(map(str, get_ffmpeg_versions()["libavcodec"]))
    return {"spdl": spdl_version(), "libavcodec": libavcodec}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    path = data["path"]
    if "starts" in data:
        if not hasattr(spdl.io, "load_audio_batch"):
            return None
        paths, starts, rate = [path] * len(data["starts"]), data["starts"], data["rate"]
        return lambda: spdl.io.to_numpy(
            spdl.io.load_audio_batch(paths, num_samples=rate, sample_rate=rate, start=starts)
        )
    return lambda: spdl.io.to_numpy(spdl.io.load_audio(path))


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"samples": result}
