"""libjpeg-turbo alone: from memory to planes of full size, in native code, nothing after it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.images._work import Photo, Work
from spdl.io.lib import _core


def versions() -> dict[str, str]:
    return {"libjpeg-turbo": _core.libjpeg_turbo_version()}


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    files = [Path(photo.path).read_bytes() for photo in photos]
    pool = ThreadPoolExecutor(work.num_threads) if work.num_threads > 1 else None

    def decode() -> Iterator[Any]:
        for _ in (map if pool is None else pool.map)(_core.decode_planes, files):
            pass
        yield from ()

    return decode
