"""Iterable datasets, and what shares them out among workers."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from .datasets import chance


class Stream(IterableDataset[int]):
    """``range(start, stop)``, whoever asks."""

    def __init__(self, start: int = 0, stop: int = 7) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


class SizedStream(Stream):
    def __init__(self, start: int = 0, stop: int = 7, length: int | None = None) -> None:
        super().__init__(start, stop)
        self.length = stop - start if length is None else length

    def __len__(self) -> int:
        return self.length


class Sharded(Stream):
    """Each worker gives a consecutive part, as torch's documentation shows."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is None:
            return iter(range(self.start, self.stop))
        part = -(-(self.stop - self.start) // info.num_workers)
        first = self.start + info.id * part
        return iter(range(first, min(first + part, self.stop)))


class Uneven(Stream):
    """The first worker gives one sample, the second two more, and so on."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        k = 2 if info is None else info.id
        return iter(range(100 * k, 100 * k + 1 + 4 * k))


class FailingStream(Stream):
    """Raises after so many."""

    def __init__(self, num_items: int, error: Exception) -> None:
        super().__init__(0, num_items)
        self.error = error

    def __iter__(self) -> Iterator[int]:
        yield from range(self.stop)
        raise self.error


class CountingStream(IterableDataset[Any]):
    """Tells the epoch, which its own copy counts, and the process."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        return ((self.epoch, k) for k in range(4))


def shard(worker_id: int) -> None:
    """A ``worker_init_fn`` that cuts a ``Stream`` into parts, as torch's documentation shows."""
    info: Any = get_worker_info()
    assert info.id == worker_id
    dataset = info.dataset
    start, stop = dataset.start, dataset.stop
    part = -(-(stop - start) // info.num_workers)
    dataset.start = start + worker_id * part
    dataset.stop = min(dataset.start + part, stop)


class ChanceIterable(IterableDataset[Any]):
    """The same from an iterable dataset."""

    def __iter__(self) -> Iterator[Any]:
        return (chance(index) for index in range(5))
