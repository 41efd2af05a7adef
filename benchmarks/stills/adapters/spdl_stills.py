"""``load_image``, and ``load_image_batch`` with a transform for what is made smaller, as a data loader would."""

from collections.abc import Callable
from typing import Any

import spdl.io
from benchmarks._contest.ours import spdl_version
from spdl.io.utils import get_ffmpeg_versions

TRANSFORM = spdl.io.ImageTransform((224, 224), dtype="uint8", layout="NHWC")


def versions() -> dict[str, str]:
    libavcodec = ".".join(map(str, get_ffmpeg_versions()["libavcodec"]))
    return {"spdl": spdl_version(), "libavcodec": libavcodec}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    paths = data["paths"]
    if data["work"] == "whole":
        return lambda: [spdl.io.to_numpy(spdl.io.load_image(path)) for path in paths]
    if data["work"] == "small":
        return lambda: [spdl.io.to_numpy(spdl.io.load_image_batch([path], transform=TRANSFORM))[0] for path in paths]
    return lambda: list(spdl.io.to_numpy(spdl.io.load_image_batch(paths, transform=TRANSFORM)))


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {str(index): picture for index, picture in enumerate(result)}
