"""``Windows``: samples in shards in random order, from few shards at a time. ``ShardOrder`` and ``ShardMix`` use it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from spdl.source._arguments import as_int
from spdl.source._keyed import KeyedPermutation, PermutationSlice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Parts of the keys that keep the order of shards and the orders within windows different.
_SHARDS, _WINDOWS = -1, -2
#: Number of window orders that are cached.
_MAX_KEPT = 8


class Layout:
    """The non-empty shards, independent of their order."""

    __slots__ = ("firsts", "num_samples", "open_shards", "sizes")

    def __init__(self, sizes: Sequence[int], open_shards: int) -> None:
        starts = accumulate(sizes, initial=0)
        filled = [(size, first) for size, first in zip(sizes, starts, strict=False) if size]
        self.sizes = [size for size, _ in filled]
        self.firsts = [first for _, first in filled]  # number of the first sample of each shard
        self.num_samples = sum(self.sizes)
        self.open_shards = open_shards

    @classmethod
    def of(cls, name: str, index: Any, open_shards: object) -> Layout:
        """The layout of an index of samples in shards.

        Raises:
            TypeError: The index has no shards, or a number is not an integer.
            ValueError: There are no samples, or ``open_shards`` is not positive.
        """
        if not hasattr(index, "shard_sizes") or not hasattr(index, "locate"):
            raise TypeError(
                f"{name} must have shard_sizes and locate(number), as TarIndex has, got an object of type "
                f"{type(index).__qualname__}"
            )
        sizes = [as_int("shard_sizes", size) for size in index.shard_sizes]
        if not sum(sizes):
            raise ValueError(f"{name} must have samples, got none in {len(sizes)} shards")
        mixed = as_int("open_shards", open_shards)
        if mixed < 1:
            raise ValueError(f"open_shards must be >= 1, got {mixed}")
        return cls(sizes, mixed)


class Windows:
    """The order for one key. Thread-safe."""

    __slots__ = ("_bounds", "_columns", "_kept", "_key", "_layout", "_order_of_shards", "_shards", "_starts")

    def __init__(self, layout: Layout, key: tuple[int, ...]) -> None:
        self._layout = layout
        self._key = key
        self._order_of_shards = KeyedPermutation(len(layout.sizes), (*key, _SHARDS))
        self._shards = list(self._order_of_shards)
        #: The position where each shard would begin without mixing within windows, and the end. The same for windows.
        self._bounds = list(accumulate((layout.sizes[shard] for shard in self._shards), initial=0))
        self._starts = [*self._bounds[: -1 : layout.open_shards], self._bounds[-1]]
        self._kept: dict[int, KeyedPermutation] = {}
        self._columns: tuple[NDArray[np.int64], ...] | None = None

    def __getitem__(self, position: int) -> int:
        """The number of the sample at a position."""
        window = bisect_right(self._starts, position) - 1
        start = self._starts[window]
        return self._number(start + self._order(window)[position - start])

    def index_of(self, number: int) -> int:
        """The position of a sample."""
        shard = bisect_right(self._layout.firsts, number) - 1
        place = self._order_of_shards.index_of(shard)
        unmixed = self._bounds[place] + number - self._layout.firsts[shard]
        window = place // self._layout.open_shards
        start = self._starts[window]
        return start + self._order(window).index_of(unmixed - start)

    def numbers_at(self, positions: range) -> Iterator[int]:
        """Same as indexing, for several ascending positions."""
        place = 0
        while place < len(positions):
            window = bisect_right(self._starts, positions[place]) - 1
            start, stop = self._starts[window], self._starts[window + 1]
            own = range(positions[place] - start, min(stop, positions.stop) - start, positions.step)
            for value in PermutationSlice(self._order(window), own):
                yield self._number(start + value)
            place += len(own)

    def values_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Same as indexing, for several ascending positions."""
        import numpy as np

        columns = self._columns
        if columns is None:
            bounds = np.array(self._bounds, np.int64)
            columns = self._columns = bounds, np.array(self._layout.firsts, np.int64)[self._shards] - bounds[:-1]
        bounds, moves = columns
        unmixed = np.empty_like(positions)
        place = 0
        while place < len(positions):
            window = bisect_right(self._starts, int(positions[place])) - 1
            start = self._starts[window]
            own = slice(place, int(np.searchsorted(positions, self._starts[window + 1])))
            unmixed[own] = start + self._order(window)._values_of(positions[own] - start)
            place = own.stop
        return np.asarray(moves[np.searchsorted(bounds, unmixed, "right") - 1] + unmixed)

    def _number(self, unmixed: int) -> int:
        """The number of the sample at a position of the order without mixing within windows."""
        place = bisect_right(self._bounds, unmixed) - 1
        return self._layout.firsts[self._shards[place]] + unmixed - self._bounds[place]

    def _order(self, window: int) -> KeyedPermutation:
        order = self._kept.get(window)
        if order is None:
            size = self._starts[window + 1] - self._starts[window]
            order = KeyedPermutation(size, (*self._key, _WINDOWS, window))
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[window] = order
        return order
