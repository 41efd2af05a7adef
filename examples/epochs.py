"""Run several epochs with a continuous source: one pipeline, and one set of threads, for the whole training.

The pipeline iterates the source once per epoch, so the source can reshuffle. It prefetches the next epoch while the
consumer still reads the current one. A batch never mixes two epochs.
"""

import random
from collections.abc import Iterator

from spdl.pipeline import PipelineBuilder

NUM_EPOCHS = 3


class ShuffledIndices:
    """The indices of a dataset, in a different order in each epoch. All runs have the same orders."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        order = random.Random(self.epoch).sample(range(self.size), self.size)
        self.epoch += 1
        return iter(order)


def load(index: int) -> int:
    return index * index


def main() -> None:
    pipeline = (
        PipelineBuilder()
        .add_source(ShuffledIndices(10), continuous=True)
        .pipe(load, concurrency=4, output_order="input")
        .aggregate(4)
        .add_sink(3)
        .build(num_threads=4)
    )
    with pipeline.auto_stop():
        for epoch in range(NUM_EPOCHS):
            # Each iterator covers one epoch. The source never ends: leaving auto_stop stops the pipeline.
            print(f"epoch {epoch}:", *pipeline)


if __name__ == "__main__":
    main()
