"""libjpeg-turbo alone: the part of each JPEG that the work needs, from memory to RGB (bare_rgb.c)."""

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest.environments import REPOSITORY
from benchmarks.images._work import Photo, Work
from spdl.io.lib import _core

from ._canvas import source_box
from .spdl_batch import files_of

SOURCE = Path(__file__).with_suffix(".c")


def versions() -> dict[str, str]:
    return {"libjpeg-turbo": _core.libjpeg_turbo_version()}


def _built() -> ctypes.CDLL:
    library = REPOSITORY / ".cache" / "bench" / "bare_rgb.so"
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-ljpeg"], check=True)
    return ctypes.CDLL(str(library))


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    if not work.exact or work.num_threads != 1:
        return None
    files = files_of(work, photos)
    sizes = [_core.decode_planes(data)[0] for data in files]
    boxes = [source_box(work, *size) for size in sizes]
    out = np.empty(3 * max(width * height for width, height in sizes), np.uint8)
    library = _built()

    def decode() -> Iterator[Any]:
        for data, (top, left, height, width) in zip(files, boxes, strict=True):
            first, wide = ctypes.c_uint(left), ctypes.c_uint(width)
            to = ctypes.c_void_p(out.ctypes.data)
            size = ctypes.c_ulong(len(data))
            if library.decode_part(data, size, top, ctypes.byref(first), height, ctypes.byref(wide), to) != 0:
                raise RuntimeError("libjpeg-turbo does not decode the photograph")
        yield from ()

    return decode
