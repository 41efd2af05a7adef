"""Run the loader in its own process: it does not compete with training for the GIL, and batches arrive without a copy.

Each batch is decoded directly into shared memory (``arena_slot``), and the training process reads it there. When the
last view of a batch is freed, the loader reuses the memory. One subprocess, with one source, serves all epochs.
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
    """The message to the training process: the array is in shared memory, the rest is pickled.

    With torch, convert ``images`` with ``torch.from_numpy``.
    """

    images: Any
    names: list[str]


def load(paths: list[Path]) -> Batch:
    """Load a batch. Runs in a thread of the subprocess.

    If the pipeline has no shared memory, ``arena_slot`` returns ordinary memory.
    """
    slot = arena_slot(len(paths) * SIZE * SIZE * 3)
    images = spdl.io.load_image_batch(paths, width=SIZE, height=SIZE, storage=slot)
    return Batch(spdl.io.to_numpy(images), [path.stem for path in paths])


class Shuffled:
    """Paths in a different order in each epoch. The object and its state live in the subprocess."""

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


# The subprocess imports this file, and must not run main().
if __name__ == "__main__":
    main()
