"""The order in which the tests' samples come: a permutation for each epoch. Needs nothing."""

import random
from collections.abc import Iterator

__all__ = ["BATCH_SIZE", "NUM_BATCHES", "NUM_SAMPLES", "EpochSampler", "order"]

BATCH_SIZE = 4
#: Not a multiple of the batch size, so that the last batch of an epoch is a small one.
NUM_SAMPLES = 22
NUM_BATCHES = 6


def order(epoch: int, num_samples: int = NUM_SAMPLES) -> list[int]:
    """The samples of one epoch, in order."""
    return random.Random(epoch).sample(range(num_samples), num_samples)


class EpochSampler:
    """As torch's ``DistributedSampler``: without ``set_epoch`` all epochs are the same."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples
        self.epoch = 0

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        return iter(order(self.epoch, self.num_samples))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
