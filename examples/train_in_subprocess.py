"""The loader runs in its own process: it does not compete with training for the GIL, and batches arrive without a copy.

Each batch is decoded straight into shared memory (``arena_slot``), and the training process reads it there. When the
last view of a batch is freed, its memory goes back to the loader. The subprocess, and the source in it, last for all
epochs.
"""

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spdl.io
from spdl.pipeline import PipelineBuilder, arena_slot, run_pipeline_in_subprocess

NUM_EPOCHS = 2
BATCH_SIZE = 8
SIZE = 64


@dataclass(frozen=True, slots=True)
class Batch:
    """What is sent: the memory of the array is shared, the rest is pickled. With torch: ``torch.from_numpy``."""

    images: Any
    names: list[str]


def load(paths: list[Path]) -> Batch:
    """Run in a thread of the subprocess. Without shared memory, ``arena_slot`` gives plain memory."""
    slot = arena_slot(len(paths) * SIZE * SIZE * 3)
    images = spdl.io.load_image_batch(paths, width=SIZE, height=SIZE, storage=slot)
    return Batch(spdl.io.to_numpy(images), [path.stem for path in paths])


class Shuffled:
    """Paths in another order in each epoch. The object and its state are in the subprocess."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.random = random.Random(0)

    def __iter__(self) -> Iterator[Path]:
        yield from self.random.sample(self.paths, len(self.paths))


def make_photos(folder: Path, num_photos: int) -> list[Path]:
    """Make pictures of one colour each."""
    for number in range(num_photos):
        pixels = memoryview(bytes((10 * number, 90, 200 - 10 * number)) * (120 * 80)).cast("B", (80, 120, 3))
        spdl.io.save_image(folder / f"{number}.jpg", pixels)
    return sorted(folder.iterdir())


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        builder = (
            PipelineBuilder()
            .add_source(Shuffled(make_photos(Path(name), 16)))
            .aggregate(BATCH_SIZE)
            .pipe(load, concurrency=2, output_order="input")
            .add_sink(3)
        )
        batches = run_pipeline_in_subprocess(builder, num_threads=2, timeout=60)
        for epoch in range(NUM_EPOCHS):
            for batch in batches:
                images = batch.images
                print(f"epoch {epoch}: {images.dtype} {images.shape}, photos {' '.join(batch.names)}")


# Code that starts processes needs this guard, because they import this file.
if __name__ == "__main__":
    main()
