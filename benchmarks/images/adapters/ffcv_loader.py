"""FFCV in its JPEG mode: all photographs, unchanged, in one file that it maps.

It draws its own random crops. Its evaluation cuts the centre out before it scales, which gives the same part. It does
not read plain files, so it is shown but not counted as a peer that does. libturbojpeg and OpenCV are the system's.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from ffcv.fields import RGBImageField
from ffcv.fields.rgb_image import IMAGE_MODES, CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

from benchmarks.images._work import FLIP, MEAN, RATIO, SCALE, SHORTER_SIDE, SIZE, STD, Photo, Work

cv2.setNumThreads(1)


class _FileField(RGBImageField):
    """Stores a file's bytes."""

    def encode(self, destination: Any, path: str, malloc: Any) -> None:
        data = np.frombuffer(Path(path).read_bytes(), np.uint8)
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["height"], destination["width"] = cv2.imread(path).shape[:2]
        destination["data_ptr"], storage = malloc(data.nbytes)
        storage[:] = data


class _Paths:
    def __init__(self, photos: Sequence[Photo]) -> None:
        self._photos = photos

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, index: int) -> tuple[str]:
        return (self._photos[index].path,)


def versions() -> dict[str, str]:
    return {"ffcv": metadata.version("ffcv"), "numba": metadata.version("numba")}


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    if work.transform == "fit":
        return None  # it has no padding
    folder = tempfile.TemporaryDirectory()
    file = os.path.join(folder.name, "photographs.beton")
    writer = DatasetWriter(file, {"image": _FileField()}, num_workers=1)
    writer.from_indexed_dataset(_Paths(photos), shuffle_indices=False)
    if work.transform == "eval":
        steps: list[Any] = [CenterCropRGBImageDecoder((SIZE, SIZE), SIZE / SHORTER_SIDE)]
    else:
        steps = [RandomResizedCropRGBImageDecoder((SIZE, SIZE), SCALE, RATIO), RandomHorizontalFlip(FLIP)]
    if work.dtype == "float32":
        mean, std = 255 * np.array(MEAN), 255 * np.array(STD)
        steps += [NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(channels_last=False)]
    else:
        steps.append(ToTensor())
    loader = Loader(
        file,
        batch_size=min(work.batch, len(photos)),
        num_workers=work.num_threads,
        os_cache=True,
        order=OrderOption.SEQUENTIAL,
        pipelines={"image": steps},
        batches_ahead=1,
        drop_last=False,
        custom_fields={"image": _FileField},
    )

    def batches() -> Iterator[Any]:
        for (pictures,) in loader:
            yield pictures.numpy()

    batches.folder = folder  # type: ignore[attr-defined] # the file stays as long as the call
    return batches
