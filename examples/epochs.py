"""Epochs with a continuous source: one pipeline, and its threads, for the whole training.

The pipeline iterates the source again for each epoch, so the source can reshuffle. The next epoch is prefetched while
the consumer still reads the current one. No batch holds items of two epochs.
"""

import random
from collections.abc import Iterator

from spdl.pipeline import PipelineBuilder

NUM_EPOCHS = 3


class ShuffledIndices:
    """The indices of a data set: another order in each epoch, the same orders in each run."""

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
            # Each iterator covers one epoch. The stream itself has no end: leaving auto_stop stops it.
            print(f"epoch {epoch}:", *pipeline)


if __name__ == "__main__":
    main()
