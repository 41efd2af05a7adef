"""Move from ``torch.utils.data.DataLoader`` to a pipeline, in steps that give the same batches in the same order.

0. The old code: a dataset that opens pictures with Pillow, and torch's loader with worker processes.
1. Change only the loader: ``get_pytorch_dataloader(..., workers="thread")``. Nothing is pickled and no process is
   started, so the first batch arrives sooner.
2. Write the same steps as a pipeline: sampler, ``__getitem__``, ``aggregate``, ``collate_fn``. You can now add stages
   and set the concurrency of each.
3. Decode with ``spdl.io``: one native call decodes, resizes and batches pictures, without the GIL and without a tensor
   for each picture. The pixels differ slightly from Pillow's.

Needs torch and Pillow.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, RandomSampler, default_collate

import spdl.io
from spdl.dataloader import PipelineBuilder, get_pytorch_dataloader

SIZE = 64
BATCH_SIZE = 8
NUM_WORKERS = 2

Batch = tuple[torch.Tensor, torch.Tensor]


class Photos(Dataset):
    """Pictures as ``uint8`` tensors of shape ``(3, SIZE, SIZE)``, with the label in the file name."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.jpg"))
        self.labels = [int(path.stem.partition("-")[2]) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[index]) as image:
            image = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1), self.labels[index]


def shuffled(photos: Photos) -> RandomSampler:
    """Return a sampler with the same order for each step. ``shuffle=True`` and a ``generator`` work too."""
    return RandomSampler(photos, generator=torch.Generator().manual_seed(0))


def old_code(photos: Photos) -> Iterator[Batch]:
    yield from DataLoader(photos, batch_size=BATCH_SIZE, sampler=shuffled(photos), num_workers=NUM_WORKERS)


def in_threads(photos: Photos) -> Iterator[Batch]:
    yield from get_pytorch_dataloader(
        photos, batch_size=BATCH_SIZE, sampler=shuffled(photos), num_workers=NUM_WORKERS, workers="thread"
    )


def as_pipeline(photos: Photos) -> Iterator[Batch]:
    pipeline = (
        PipelineBuilder()
        .add_source(shuffled(photos))
        .pipe(photos.__getitem__, concurrency=NUM_WORKERS, output_order="input")
        .aggregate(BATCH_SIZE)
        .pipe(default_collate)
        .add_sink(2)
        .build(num_threads=NUM_WORKERS)
    )
    with pipeline.auto_stop():
        yield from pipeline


def by_native_calls(photos: Photos) -> Iterator[Batch]:
    transform = spdl.io.ImageTransform(SIZE, layout="NCHW", orient=False)  # Pillow does not orient either

    def load(indices: list[int]) -> Batch:
        images = spdl.io.load_image_batch(
            [photos.paths[index] for index in indices], transform=transform, num_threads=NUM_WORKERS
        )
        return spdl.io.to_torch(images), torch.tensor([photos.labels[index] for index in indices])

    pipeline = (
        PipelineBuilder()
        .add_source(shuffled(photos))
        .aggregate(BATCH_SIZE)
        .pipe(load)
        .add_sink(2)
        .build(num_threads=1)  # one call at a time; it decodes a batch with NUM_WORKERS threads
    )
    with pipeline.auto_stop():
        yield from pipeline


def make_photos(folder: Path, num_photos: int) -> None:
    """Make smooth pictures of several sizes."""
    for index in range(num_photos):
        chance = random.Random(index)
        height, width = chance.randint(80, 160), chance.randint(80, 160)
        y, x = np.mgrid[0:height, 0:width] / 30
        planes = [np.sin(chance.uniform(0.5, 2) * x + chance.uniform(0.5, 2) * y + index) for _ in range(3)]
        pixels = ((np.stack(planes, axis=-1) + 1) * 127.5).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:04}-{chance.randrange(10)}.jpg", quality=90)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        make_photos(Path(name), 44)
        photos = Photos(Path(name))
        expected: list[Batch] = []
        for step, load in enumerate((old_code, in_threads, as_pipeline, by_native_calls)):
            batches = list(load(photos))
            expected = expected or batches
            pairs = list(zip(batches, expected, strict=True))
            same_labels = all(torch.equal(got[1], want[1]) for got, want in pairs)
            same_shapes = all((got[0].shape, got[0].dtype) == (want[0].shape, want[0].dtype) for got, want in pairs)
            difference = np.mean([(got[0].float() - want[0].float()).abs().mean() for got, want in pairs])
            print(
                f"step {step}, {load.__name__}: {len(batches)} batches, the last {tuple(batches[-1][0].shape)}; "
                f"same labels: {same_labels}, same shapes: {same_shapes}, pixels differ by {difference:.1f} of 255"
            )


if __name__ == "__main__":
    main()
