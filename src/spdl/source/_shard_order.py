"""``ShardOrder``: a random order of samples that reads from few shards at a time; computed in constant memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from spdl._numbers import as_int
from spdl.source._keyed import KeyedPermutation, PermutationSlice
from spdl.source._sampler import ShuffledSampler

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
        """The layout of an index of samples in shards; an index without is refused."""
        if not hasattr(index, "shard_sizes") or not hasattr(index, "locate"):
            raise TypeError(
                f"{name} must have shard_sizes and locate(number), as TarIndex has, got an object of type "
                f"{type(index).__qualname__}"
            )
        sizes = [as_int("shard_sizes", size) for size in index.shard_sizes]
        if not sum(sizes):
            raise ValueError(f"{name} must have samples, got none in {len(sizes)} shards")
        return cls(sizes, as_int("open_shards", open_shards, 1))


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


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Sharded(Protocol[T_co]):
    """A collection of samples in shards, where reading from few shards at a time is cheaper."""

    @property
    def shard_sizes(self) -> Sequence[int]:
        """The number of samples in each shard, in the order of the sample numbers."""

    def locate(self, number: int, /) -> T_co:
        """The item to yield for a sample."""


class ShardOrder(ShuffledSampler[T]):
    """The samples of an index in random order, from only ``open_shards`` shards at a time.

    Shards are taken in random order, ``open_shards`` at a time, and all samples of such a *window* are shuffled
    together. So files stay open and the caches of disks and stores stay useful, while neighbours in a shard are
    separated. A larger ``open_shards`` mixes better; with all shards, the order is one full shuffle.

    It is a sampler: each rank gets every ``world_size``-th position of one order, which depends only on seed and epoch.
    ``order[position]`` is computed, so a run resumes at any position in constant time, with any number of ranks.

    .. code-block:: python

        index = TarIndex.of("shards/train-{000000..000099}.tar")
        order = ShardOrder(index, seed=0, rank=rank, world_size=world_size)
        builder = PipelineBuilder().add_source(order).pipe(index.read, concurrency=8)

    Args:
        index: Samples in shards: a :class:`TarIndex`, whose items are :class:`TarSample`, or another object with
            ``shard_sizes`` and ``locate(number)``, which returns the items.
        seed: Seed of the run: any integer.
        epoch: Epoch of the first iterations: any integer.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        open_shards: Number of shards that are mixed.
        shuffle: Whether to shuffle. ``False``: the samples are in the order of the index.
        ddp_drop_last_distributed_round: Drop the remainder, so that all ranks make the same number of steps; each epoch
            drops different items. ``False``: nothing is dropped, and some ranks may get one item more.

    Raises:
        TypeError: An argument is not an integer, or the index has no shards.
        ValueError: ``open_shards`` or ``world_size`` is not positive, ``rank`` is outside of ``[0, world_size)``, there
            are no samples, or there are fewer samples than ranks and the last round is dropped.

    Algorithm: with ``S`` non-empty shards, window ``w`` has the ``open_shards`` shards from position
    ``w * open_shards`` of ``KeyedPermutation(S, (seed, epoch, -1))``. Its ``n`` samples are numbered shard after shard
    in this order, and come in the order ``KeyedPermutation(n, (seed, epoch, -2, w))``. The numbers are the same on
    every machine and will not change.
    """

    def __init__(
        self,
        index: Sharded[T],
        *,
        seed: int = 0,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        open_shards: int = 16,
        shuffle: bool = True,
        ddp_drop_last_distributed_round: bool = True,
    ) -> None:
        self._index = index
        self._shuffles = bool(shuffle)
        self._layout = Layout.of("index", index, open_shards)
        self._open_shards = self._layout.open_shards
        super().__init__(self._layout.num_samples, rank, world_size, ddp_drop_last_distributed_round, "samples")
        self._begin_at(seed, epoch)
        self._windows: Windows | None = None

    @property
    def index(self) -> Sharded[T]:
        """The index that has the samples."""
        return self._index

    @property
    def open_shards(self) -> int:
        """The number of shards that are mixed."""
        return self._open_shards

    def for_worker(self, worker: int, num_workers: int) -> ShardOrder[T]:
        """Return the order for one of several workers of this rank: every ``num_workers``-th of its positions.

        No two workers get the same sample and, if the last round is dropped, all get the same number of samples.

        Raises:
            TypeError: An argument is not an integer.
            ValueError: ``num_workers`` is not positive, or ``worker`` is not in ``[0, num_workers)``.
        """
        return self._of_worker(worker, num_workers)

    def number_at(self, position: int) -> int:
        """Get the number of the sample at a global position: ``order.at_global(p)`` is ``locate`` of this number.

        Raises:
            IndexError: The position is not in ``range(num_global)``.
        """
        if not 0 <= position < self.num_global:
            raise IndexError(f"position {position} is out of range for {self.num_global} samples of all ranks")
        return self._number_at(position)

    def _number_at(self, position: int) -> int:
        return self._get_windows()[position] if self._shuffles else position

    def _item_at(self, position: int) -> T:
        return self._index.locate(self._number_at(position))

    def _items_at(self, positions: range) -> Iterator[T]:
        # An iteration keeps its seed and epoch.
        numbers = self._get_windows().numbers_at(positions) if self._shuffles else iter(positions)
        return map(self._index.locate, numbers)

    def _get_windows(self) -> Windows:
        """The windows of this epoch, computed on first use."""
        windows = self._windows
        if windows is None:
            windows = self._windows = Windows(self._layout, (self._seed, self._epoch))
        return windows

    def _fingerprint(self) -> dict[str, Any]:
        return {
            **super()._fingerprint(),
            "open_shards": self._open_shards,
            "shuffle": self._shuffles,
            "index": getattr(self._index, "fingerprint", None),
        }

    def _reorder(self) -> None:
        self._windows = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_windows": None}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._index!r}, open_shards={self._open_shards}, rank={self.rank}, "
            f"world_size={self.world_size}, seed={self._seed}, epoch={self._epoch}, total={self._share.stop})"
        )
