"""TorchCodec, which has no decoder for images: a JPEG is a video of one frame. Resampling is torch's, antialiased.

Its classes seek before they decode, and then find no frame (0.13.0); so this calls the functions below them.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torchcodec
from torch.nn.functional import interpolate
from torchcodec._core import ops as _core

from benchmarks.images._work import MEAN, SIZE, STD, Photo, Work

from ._canvas import in_batches, middle, shorter_side

torch.set_num_threads(1)

FACTOR = (1 / (255 * torch.tensor(STD)))[:, None, None]
SUMMAND = -(torch.tensor(MEAN) / torch.tensor(STD))[:, None, None]


def versions() -> dict[str, str]:
    return {"torchcodec": torchcodec.__version__, "torch": torch.__version__}


def _resize(pixels: Any, height: int, width: int) -> Any:
    return interpolate(pixels[None], (height, width), mode="bilinear", antialias=True)[0]


def _load(work: Work, photo: Photo, slot: Any) -> None:
    decoder = _core.create_from_file(photo.path, "approximate")
    _core.add_video_stream(decoder, num_threads=1)
    pixels, _, _ = _core.get_next_frame(decoder)
    if work.transform == "eval":
        width, height = shorter_side(pixels.shape[2], pixels.shape[1])
        left, top = middle(width, height)
        pixels = _resize(pixels, height, width)[:, top : top + SIZE, left : left + SIZE]
    else:
        top, left, height, width = photo.crop
        pixels = _resize(pixels[:, top : top + height, left : left + width], SIZE, SIZE)
    if photo.flip:
        pixels = pixels.flip(2)
    if work.dtype == "float32":
        torch.addcmul(SUMMAND, pixels.to(torch.float32), FACTOR, out=slot)
    else:
        slot.copy_(pixels.permute(1, 2, 0))


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    if work.transform == "fit":
        return None  # there is no bicubic one of uint8 that agrees with the others
    pool = ThreadPoolExecutor(work.num_threads) if work.num_threads > 1 else None

    def batches() -> Iterator[Any]:
        for part in in_batches(work, photos):
            if work.dtype == "float32":
                batch = torch.empty((len(part), 3, SIZE, SIZE))
            else:
                batch = torch.empty((len(part), SIZE, SIZE, 3), dtype=torch.uint8)
            for _ in (map if pool is None else pool.map)(_load, [work] * len(part), part, batch):
                pass
            yield batch.numpy()

    return batches
