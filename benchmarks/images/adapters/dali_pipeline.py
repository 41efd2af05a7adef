"""DALI's CPU pipeline, with as many threads as the case says.

It draws its own random crops, from the same distribution, because its users write ``decoders.image_random_crop``. It
runs batch by batch, because it would otherwise prefetch while others are measured.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import nvidia.dali as dali
from nvidia.dali import fn, types

from benchmarks.images._work import FLIP, MEAN, RATIO, SCALE, SHORTER_SIDE, SIZE, STD, Photo, Work


def versions() -> dict[str, str]:
    return {"dali": dali.__version__}


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    if work.transform == "fit":
        return None  # it pads at the end only
    batch = min(work.batch, len(photos))
    pipeline = dali.Pipeline(
        batch_size=batch,
        num_threads=work.num_threads,
        device_id=None,
        seed=1,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
    )
    with pipeline:
        files, _ = fn.readers.file(files=[photo.path for photo in photos], name="files")
        if work.transform == "eval":
            pixels = fn.decoders.image(files, device="cpu", output_type=types.RGB)
            pixels = fn.resize(pixels, resize_shorter=SHORTER_SIDE, interp_type=types.INTERP_LINEAR, antialias=True)
            mirror: Any = 0
        else:
            pixels = fn.decoders.image_random_crop(
                files, device="cpu", output_type=types.RGB, random_area=SCALE, random_aspect_ratio=RATIO
            )
            pixels = fn.resize(pixels, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=True)
            mirror = fn.random.coin_flip(probability=FLIP)
        # Where the centre is half a pixel off, SPDL and torchvision round down.
        middle = {"crop": (SIZE, SIZE), "mirror": mirror, "rounding": "truncate"}
        if work.dtype == "uint8":
            # Without a mean and a scale it only crops and mirrors.
            pixels = fn.crop_mirror_normalize(pixels, **middle, dtype=types.UINT8, output_layout="HWC")
        else:
            mean, std = [255 * value for value in MEAN], [255 * value for value in STD]
            pixels = fn.crop_mirror_normalize(
                pixels, **middle, dtype=types.FLOAT, output_layout="CHW", mean=mean, std=std
            )
        pipeline.set_outputs(pixels)
    pipeline.build()

    def batches() -> Iterator[Any]:
        for _ in range(0, len(photos), batch):
            (pictures,) = pipeline.run()
            yield pictures.as_array()

    return batches
