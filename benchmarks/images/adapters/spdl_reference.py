"""The reference: ``load_image_batch`` with a filter description.

The description is the same for all images of a call. So where it differs per image, and where two threads share a
batch, each image is decoded separately and the frames are converted into one buffer, as its ``load_image_batch`` does
inside.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

import spdl.io
from benchmarks.images._work import SHORTER_SIDE, SIZE, Photo, Work
from spdl.io.utils import get_ffmpeg_versions

from ._canvas import in_batches, put

EVALUATION = (
    f"scale={SHORTER_SIDE}:{SHORTER_SIDE}:force_original_aspect_ratio=increase:flags=bilinear,"
    f"crop={SIZE}:{SIZE},format=pix_fmts=rgb24"
)


def versions() -> dict[str, str]:
    libavcodec = ".".join(map(str, get_ffmpeg_versions()["libavcodec"]))
    return {"spdl": metadata.version("spdl"), "libavcodec": libavcodec}


def _filter(work: Work, photo: Photo) -> str | None:
    if work.transform == "fit":
        return spdl.io.get_video_filter_desc(scale_width=SIZE, scale_height=SIZE)
    if work.transform == "eval":
        return EVALUATION
    top, left, height, width = photo.crop
    mirrored = "hflip," if photo.flip else ""
    return (
        f"crop={width}:{height}:{left}:{top}:exact=1,scale={SIZE}:{SIZE}:flags=bilinear,{mirrored}format=pix_fmts=rgb24"
    )


def _decode(work: Work, photo: Photo) -> Any:
    return spdl.io.decode_packets(spdl.io.demux_image(photo.path), filter_desc=_filter(work, photo))


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    pool = ThreadPoolExecutor(work.num_threads) if work.num_threads > 1 else None

    def load(part: Sequence[Photo]) -> Any:
        if pool is None and work.transform != "train":
            paths = [photo.path for photo in part]
            if work.transform == "fit":
                return spdl.io.load_image_batch(paths, width=SIZE, height=SIZE)
            return spdl.io.load_image_batch(paths, width=None, height=None, filter_desc=EVALUATION)
        return spdl.io.convert_frames(list((map if pool is None else pool.map)(partial(_decode, work), part)))

    def batches() -> Iterator[Any]:
        for part in in_batches(work, photos):
            pixels = spdl.io.to_numpy(load(part))
            if work.dtype == "float32":
                batch = np.empty((len(part), 3, SIZE, SIZE), np.float32)
                for slot, picture in zip(batch, pixels, strict=True):
                    put(slot, picture, flip=False)
                yield batch
            else:
                yield pixels

    return batches
