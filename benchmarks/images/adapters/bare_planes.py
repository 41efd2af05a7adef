"""libjpeg-turbo alone: from memory to planes of full size, in native code, nothing after it."""

from functools import cache
from pathlib import Path

from spdl.io.lib import _core


def versions() -> dict[str, str]:
    return {"libjpeg-turbo": _core.libjpeg_turbo_version()}


@cache
def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def load(paths: list[str]) -> None:
    for path in paths:
        _core.decode_planes(_read(path))
