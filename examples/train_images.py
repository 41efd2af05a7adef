"""Load images for training: one folder per class, reshuffled for each epoch, to batches of normalised float images.

One native call turns files into a batch of shape ``(N, C, H, W)``: pictures are cropped and flipped at random, resized
and normalised. The seed of a sample depends only on run, epoch and index, so its pixels are the same in any batch,
thread or restarted run. If a file is damaged, another file and its label replace it.
"""

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import spdl.io
from spdl.io import CPUBuffer, ImageTransform, RandomResizedCrop
from spdl.pipeline import PipelineBuilder

NUM_EPOCHS = 2
BATCH_SIZE = 8
RUN_SEED = 0

TRANSFORM = ImageTransform(
    64,
    crop=RandomResizedCrop(),
    flip=0.5,
    dtype="float32",
    layout="NCHW",
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)


@dataclass(frozen=True, slots=True)
class Request:
    """One batch to load: its samples and its epoch."""

    epoch: int
    indices: list[int]


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of a training step. With torch, ``spdl.io.to_torch(images)`` gives a view."""

    images: CPUBuffer
    labels: list[int]


class ImageFolder:
    """Files in one folder per class, like ImageNet. Classes are numbered in alphabetical order."""

    def __init__(self, folder: Path) -> None:
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        samples = [
            (path, label) for label, name in enumerate(self.classes) for path in sorted((folder / name).iterdir())
        ]
        self.paths = [path for path, _ in samples]
        self.labels = [label for _, label in samples]

    def load(self, request: Request) -> Batch:
        """Load a batch. Runs in a thread of the pipeline, and decodes without the GIL."""
        # Samples that replace files that cannot be loaded: always the same ones for this batch.
        spares = random.Random(f"{request.epoch}:{request.indices[0]}").choices(range(len(self.paths)), k=BATCH_SIZE)
        images = spdl.io.load_image_batch(
            [self.paths[index] for index in request.indices],
            transform=TRANSFORM,
            seeds=spdl.io.sample_seeds(RUN_SEED, request.epoch, request.indices),
            spares=[self.paths[index] for index in spares],
            num_threads=2,
        )
        # The origin of each image is its index in the request; larger indices refer to the spares.
        candidates = request.indices + spares
        return Batch(images, [self.labels[candidates[origin]] for origin in images.origins if origin is not None])


class ShuffledBatches:
    """Yield batches in a different order in each epoch. The remainder that does not fill a batch is dropped."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples
        self.epoch = 0

    def __iter__(self) -> Iterator[Request]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = random.Random(f"{RUN_SEED}:{epoch}").sample(range(self.num_samples), self.num_samples)
        for start in range(0, self.num_samples - BATCH_SIZE + 1, BATCH_SIZE):
            yield Request(epoch, order[start : start + BATCH_SIZE])


def make_folder(folder: Path, colors: dict[str, Sequence[int]], num_samples: int) -> None:
    """Make pictures of one colour, in several sizes. The very last file is damaged."""
    for name, color in colors.items():
        (folder / name).mkdir()
        for number in range(num_samples):
            width, height = 80 + 5 * number, 120 - 5 * number
            pixels = memoryview(bytes(color) * (width * height)).cast("B", (height, width, 3))
            spdl.io.save_image(folder / name / f"{number}.jpg", pixels)
    damaged = folder / name / f"{num_samples - 1}.jpg"
    damaged.write_bytes(damaged.read_bytes()[:200])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        make_folder(Path(name), {"cat": (200, 120, 40), "dog": (90, 90, 90), "fox": (220, 80, 20)}, 10)
        dataset = ImageFolder(Path(name))
        pipeline = (
            PipelineBuilder()
            .add_source(ShuffledBatches(len(dataset.paths)), continuous=True)
            .pipe(dataset.load, concurrency=2, output_order="input")
            .add_sink(3)
            .build(num_threads=2)
        )
        with pipeline.auto_stop():
            for epoch in range(NUM_EPOCHS):
                for batch in pipeline:
                    array = spdl.io.to_numpy(batch.images)
                    names = " ".join(dataset.classes[label] for label in batch.labels)
                    print(f"epoch {epoch}: {array.dtype} {array.shape} {names}; {len(batch.images.failures)} replaced")


if __name__ == "__main__":
    main()
