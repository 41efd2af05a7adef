"""Weighted mixtures of sources, whose position and item are computed from each other: ``Mixture`` and ``KeyedMix``."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from spdl._numbers import as_int

from ._keyed import KeyedPermutation
from ._sampler import ShuffledSampler

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MAX_LENGTH = 2**63 - 1


class MixedPosition(NamedTuple):
    """The source item that is at a position of a mixture."""

    source: int  #: number of the source
    item: int  #: index of the item in this source
    pass_number: int  #: number of complete passes through the source before this item


class Order(Protocol):
    """The order of a pass through a source."""

    def __getitem__(self, position: int, /) -> int: ...

    def index_of(self, value: int, /) -> int: ...


class Orders:
    """The orders of passes through the sources, for one seed and epoch. Caches those used last. Thread-safe."""

    __slots__ = ("_known", "epoch", "seed")

    def __init__(self, seed: int, epoch: int) -> None:
        self.seed = seed
        self.epoch = epoch
        self._known: dict[int, tuple[int, Order]] = {}

    def get(self, of: int, number: int, size: int) -> Order:
        """Return the order of a pass through a source of this size."""
        known = self._known.get(of)
        if known is not None and known[0] == number:
            return known[1]
        order = self.make(of, number, size)
        self._known[of] = number, order
        return order

    def make(self, of: int, number: int, size: int) -> Order:
        """Compute the order of a pass."""
        return KeyedPermutation(size, (self.seed, self.epoch, of, number))


class Mixture(ShuffledSampler[T]):
    """Items of several sources in blocks, each with as many items of a source as its weight."""

    def __init__(
        self,
        sizes: list[int],
        weights: Sequence[int],
        *,
        at_end: str,
        length: int | None,
        shuffle: bool,
        rank: int,
        world_size: int,
        seed: int,
        epoch: int,
        drop_last_round: bool,
    ) -> None:
        self._sizes = sizes
        if not sizes:
            raise ValueError("sources must have at least one, got none")
        self._weights = _check_weights(weights, len(sizes))
        self._block = sum(self._weights)
        if at_end not in ("stop", "repeat"):
            raise ValueError(f"at_end must be 'stop' or 'repeat', got {at_end!r}")
        self._repeats = at_end == "repeat"
        self._shuffles = bool(shuffle)
        super().__init__(self._length(length), rank, world_size, drop_last_round, "positions")
        self._begin_at(seed, epoch)
        self._reorder()

    def _reorder(self) -> None:
        self._orders = self._make_orders(self._seed, self._epoch)

    def _make_orders(self, seed: int, epoch: int) -> Orders:
        return Orders(seed, epoch)

    @abstractmethod
    def _number_at(self, position: int, orders: Orders) -> tuple[int, int]:
        """The source at a position, and the number of its items before, in all passes."""

    @abstractmethod
    def _position_of(self, source: int, number: int, orders: Orders) -> int:
        """The position of this item: the inverse of ``_number_at``."""

    @abstractmethod
    def _item(self, source: int, item: int) -> T:
        """The item to yield for an item of a source."""

    def _length(self, given: int | None) -> int:
        full = [divmod(size, weight) for size, weight in zip(self._sizes, self._weights, strict=True)]
        if self._repeats:
            length = self._block * max(blocks + (rest > 0) for blocks, rest in full)
            length = length if given is None else as_int("length", given, 1)
        elif given is not None:
            raise ValueError(f"length must be None with at_end='stop', where the sources decide it, got {given}")
        else:
            length = self._block * min(blocks for blocks, _ in full)
            for number, (size, weight) in enumerate(zip(self._sizes, self._weights, strict=True)):
                if size < weight:
                    raise ValueError(
                        f"source {number} must have as many items as its weight, {weight}, with at_end='stop', got "
                        f"{size}: no block could be filled"
                    )
        if length > _MAX_LENGTH:
            raise ValueError(f"the number of positions must be <= 2**63 - 1, got {length}")
        return length

    @property
    def weights(self) -> list[int]:
        """The number of items of each source in a block."""
        return list(self._weights)

    def locate(self, position: int) -> MixedPosition:
        """Get the source, index and pass of the item at a global position.

        Raises:
            IndexError: The position is not in ``range(num_global)``.
        """
        if not 0 <= position < self.num_global:
            raise IndexError(f"position {position} is out of range for {self.num_global} items of all ranks")
        return self._locate(position, self._orders)

    def position_of(self, source: int, item: int, pass_number: int = 0) -> int:
        """Get the global position of an item: ``mix.position_of(*mix.locate(position)) == position``.

        Args:
            source: Number of the source.
            item: Index of the item in the source.
            pass_number: Number of complete passes through the source before this item.

        Raises:
            IndexError: The source or item does not exist.
            ValueError: The epoch ends before this item.
        """
        if not 0 <= source < len(self._sizes):
            raise IndexError(f"source {source} is out of range for {len(self._sizes)} sources")
        size = self._sizes[source]
        if not 0 <= item < size:
            raise IndexError(f"item {item} is out of range for {size} items of source {source}")
        orders = self._orders
        place = orders.get(source, pass_number, size).index_of(item) if self._shuffles else item
        position = self._position_of(source, pass_number * size + place, orders)
        if not 0 <= position < self.num_global:
            raise ValueError(
                f"item {item} of source {source} does not come in pass {pass_number} of an epoch of "
                f"{self.num_global} positions"
            )
        return position

    def _locate(self, position: int, orders: Orders) -> MixedPosition:
        source, number = self._number_at(position, orders)
        pass_number, item = divmod(number, self._sizes[source])
        if self._shuffles:
            item = orders.get(source, pass_number, self._sizes[source])[item]
        return MixedPosition(source, item, pass_number)

    def _items_at(self, positions: range) -> Iterator[T]:
        # An iteration keeps its seed and epoch.
        return self._iterate(positions, self._make_orders(self._seed, self._epoch))

    def _iterate(self, positions: range, orders: Orders) -> Iterator[T]:
        for position in positions:
            source, item, _ = self._locate(position, orders)
            yield self._item(source, item)

    def _item_at(self, position: int) -> T:
        source, item, _ = self._locate(position, self._orders)
        return self._item(source, item)

    def _fingerprint(self) -> dict[str, Any]:
        return {
            **super()._fingerprint(),
            "weights": self._weights,
            "sizes": self._sizes,
            "at_end": "repeat" if self._repeats else "stop",
            "shuffle": self._shuffles,
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_orders": self._make_orders(self._seed, self._epoch)}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self._sizes)} sources, weights={self._weights}, "
            f"at_end={'repeat' if self._repeats else 'stop'!r}, rank={self.rank}, world_size={self.world_size}, "
            f"seed={self.seed}, epoch={self.epoch}, total={self._share.stop})"
        )


def _check_weights(weights: Sequence[int], count: int) -> list[int]:
    given = [as_int("weights", weight) for weight in weights]
    if len(given) != count:
        raise ValueError(f"weights must be one for each of the {count} sources, got {len(given)}")
    for number, weight in enumerate(given):
        if weight < 1:
            raise ValueError(f"weights must be >= 1, got {weight} for source {number}")
    if sum(given) > _MAX_LENGTH:
        raise ValueError(f"weights must have a sum <= 2**63 - 1, got {sum(given)}")
    return given


#: Part of the keys for the orders within blocks; it keeps them different from the other keys of a mixture.
_BLOCKS = -1


class Indexed(Protocol[T_co]):
    """A source that can be mixed: lists, datasets, samplers, permutations, ranges."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class KeyedMix(Mixture[T]):
    """The items of several sources, mixed by weights, in a random order that is a function of the seed and the epoch.

    The order consists of *blocks* of ``sum(weights)`` positions. Every block has exactly ``weights[s]`` items of source
    ``s``, in random order. So the proportions hold exactly over any number of blocks, and nearly over any range.
    Larger weights in the same ratio give larger blocks: ``[3, 1]`` mixes evenly; ``[300, 100]`` is closer to random
    draws.

    Position and item are computed from each other in constant time and memory. So the item at position 500 million
    is found as fast as the first, and a run can be resumed there with any number of ranks.

    .. code-block:: python

        code, books, web = range(10**6), range(10**7), range(10**9)  # or datasets
        mix = KeyedMix([code, books, web], [2, 3, 5], at_end="repeat", seed=0, rank=rank, world_size=world_size)
        mix[0], mix[5 * 10**8]

    Args:
        sources: Sources to mix. Each has ``len()`` and can be indexed from 0.
        weights: Number of items of each source in a block: integers >= 1, one for each source.
        at_end: Policy for a source that has no more items.

            - ``"stop"``: the epoch ends after the last block that all sources can fill. The remaining items are not
              used in this epoch; with ``shuffle``, these are different items in each epoch.
            - ``"repeat"``: the source begins again, shuffled with another key. The epoch has ``length`` positions.
        length: Number of positions of an epoch, of all ranks together; only with ``at_end="repeat"``. ``None``: the
            first full block after which every item of every source has been used at least once ends the epoch.
        shuffle: Whether to shuffle the items of each source. ``False``: they keep the order of the source, apart from
            the order within a block.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        seed: Seed of the run: any integer.
        epoch: Epoch of the first iterations: any integer.
        ddp_drop_last_distributed_round: Drop the remainder, so that all ranks make the same number of steps. ``False``:
            nothing is dropped, and some ranks may get one item more.

    Raises:
        TypeError: A number is not an integer, or a source has no length.
        ValueError: There are no sources; the number of weights is wrong, or a weight is < 1; a source is empty, or has
            too few items for one block with ``at_end="stop"``; ``at_end`` is neither of the two; ``length`` is given
            with ``"stop"``, or is out of range; or ``rank`` is not below ``world_size``.

    Algorithm: position ``g`` is at place ``g % B`` of block ``g // B``, where ``B = sum(weights)``. The order of a
    block is ``KeyedPermutation(B, (seed, epoch, -1, g // B))``; its values below ``weights[0]`` belong to source 0, and
    so on. Value ``j`` of source ``s`` is its item number ``q = g // B * weights[s] + j``, counted over all passes. In a
    source of ``n`` items, this is item ``KeyedPermutation(n, (seed, epoch, s, q // n))[q % n]``. The numbers are the
    same on every machine and will not change.
    """

    def __init__(
        self,
        sources: Sequence[Indexed[T]],
        weights: Sequence[int],
        /,
        *,
        at_end: Literal["stop", "repeat"],
        length: int | None = None,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        epoch: int = 0,
        ddp_drop_last_distributed_round: bool = True,
    ) -> None:
        self._sources = list(sources)
        super().__init__(
            [_size_of(source, number) for number, source in enumerate(self._sources)],
            weights,
            at_end=at_end,
            length=length,
            shuffle=shuffle,
            rank=rank,
            world_size=world_size,
            seed=seed,
            epoch=epoch,
            drop_last_round=ddp_drop_last_distributed_round,
        )
        self._ends = list(accumulate(self._weights))

    @property
    def sources(self) -> list[Indexed[T]]:
        """The sources that are mixed."""
        return list(self._sources)

    def _item(self, source: int, item: int) -> T:
        return self._sources[source][item]

    def _number_at(self, position: int, orders: Orders) -> tuple[int, int]:
        block, place = divmod(position, self._block)
        value = orders.get(_BLOCKS, block, self._block)[place]
        source = bisect_right(self._ends, value)
        weight = self._weights[source]
        return source, block * weight + value - self._ends[source] + weight

    def _position_of(self, source: int, number: int, orders: Orders) -> int:
        weight = self._weights[source]
        block, value = divmod(number, weight)
        order = orders.get(_BLOCKS, block, self._block)
        return block * self._block + order.index_of(self._ends[source] - weight + value)


def _size_of(source: Indexed[Any], number: int) -> int:
    if not hasattr(source, "__getitem__") or not hasattr(source, "__len__"):
        raise TypeError(
            f"source {number} must have len() and an index, got an object of type {type(source).__qualname__}. "
            "Iterables that have neither can be mixed by spdl.source.utils.MergeIterator"
        )
    size = len(source)
    if size < 1:
        raise ValueError(f"source {number} must have items, got none")
    return size
