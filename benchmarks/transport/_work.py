"""The items: how the producer makes them, and what the consumer does with them. The same for all peers."""

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Stamps and patterns count up to it. It is a prime, so that no two neighbouring rows of a pattern are equal.
_MODULUS = 251
#: The step between the bytes that are checked before anything is timed. It is chosen to reach all offsets of a page.
_SAMPLE_EVERY = 4099


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of items.

    Attributes:
        dtype: The dtype of a NumPy array; ``bytes`` for an object of that type.
        shape: The shape of a batch of images; for bytes, their number.
        buffer_size: The number of items that may wait for the consumer.
    """

    dtype: str
    shape: tuple[int, ...]
    buffer_size: int

    @property
    def num_bytes(self) -> int:
        """The size of one item."""
        size = 1 if self.dtype == "bytes" else np.dtype(self.dtype).itemsize
        for length in self.shape:
            size *= length
        return size


def make_memory(work: Work) -> Any:
    """The default memory of a batch: fresh memory for each."""
    return np.empty(work.shape, work.dtype)


@dataclass(frozen=True, slots=True)
class Producer:
    """Makes ``num_items`` items in each iteration. Picklable.

    Attributes:
        memory: A function that gives the memory of a batch. All images get the same small pattern, after a stamp.
    """

    work: Work
    num_items: int
    memory: Callable[[Work], Any] = make_memory

    def __iter__(self) -> Iterator[Any]:
        make = self._bytes if self.work.dtype == "bytes" else self._batch
        for index in range(self.num_items):
            yield make(index)

    def _batch(self, index: int) -> Any:
        batch = self.memory(self.work)
        batch[...] = _image(self.work)
        batch[:, 0, 0, 0] = index % _MODULUS
        return batch

    def _bytes(self, index: int) -> bytes:
        return b"".join((bytes((index % _MODULUS,)), *_pieces(self.work)))


@functools.lru_cache
def _image(work: Work) -> Any:
    _, *shape = work.shape
    return (np.arange(np.prod(shape)) % _MODULUS).astype(work.dtype).reshape(shape)


@functools.lru_cache
def _pieces(work: Work) -> list[bytes]:
    piece = bytes(range(_MODULUS)) * 261  # some 64 kB
    num_pieces, rest = divmod(work.num_bytes - 1, len(piece))
    return [piece] * num_pieces + [piece[:rest]]


def touch(work: Work, item: Any) -> int:
    """Read two stamps of an item, or its first byte: the consumer's work in timed passes.

    Reading the stamps of all 32 images, in memory that another core has just written, costs as much as all the rest.
    """
    return int(item[0]) if work.dtype == "bytes" else int(item[0, 0, 0, 0]) + int(item[-1, 0, 0, 0])


def expected_total(work: Work, num_items: int) -> int:
    """The sum of ``touch`` over all items."""
    per_item = 1 if work.dtype == "bytes" else 2
    return per_item * sum(index % _MODULUS for index in range(num_items))


def digest(work: Work, items: Iterable[Any]) -> list[int]:
    """The number of items, and a checksum of two stamps and of bytes from all parts of them, in order.

    Raises:
        ValueError: An item has the wrong size, shape or dtype.
    """
    count = checksum = 0
    for item in items:
        if work.dtype == "bytes":
            seen = np.frombuffer(item, np.uint8)
        else:
            if item.dtype != work.dtype or item.shape != tuple(work.shape):
                raise ValueError(f"item {count} is {item.dtype} {item.shape}, expected {work.dtype} {work.shape}")
            seen = np.asarray(item).reshape(-1).view(np.uint8)
        if seen.nbytes != work.num_bytes:
            raise ValueError(f"item {count} has {seen.nbytes} bytes, expected {work.num_bytes}")
        checksum = zlib.crc32(seen[::_SAMPLE_EVERY].tobytes(), zlib.crc32(b"%d" % touch(work, item), checksum))
        count += 1
    return [count, checksum]
