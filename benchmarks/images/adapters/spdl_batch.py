"""One call of ``load_image_batch``: that of this checkout or of the reference, whichever the interpreter has."""

from importlib import metadata
from typing import Any

import spdl.io


def versions() -> dict[str, str]:
    versions = {"spdl": metadata.version("spdl")}
    try:
        from spdl.io.lib import _core  # ours alone has it

        versions["libjpeg-turbo"] = _core.libjpeg_turbo_version()
        versions["kernels"] = _core.instruction_sets()[-1]
    except ImportError:
        from spdl.io.utils import get_ffmpeg_versions

        versions["libavcodec"] = ".".join(map(str, get_ffmpeg_versions()["libavcodec"]))
    return versions


def load(paths: list[str]) -> Any:
    return spdl.io.to_numpy(spdl.io.load_image_batch(paths, width=224, height=224))
