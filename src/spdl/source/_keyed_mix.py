"""``KeyedMix``: a weighted mixture of indexable sources; position and item are computed from each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from ._arguments import as_int
from ._keyed import KeyedPermutation
from ._sampler import Sampler
from ._states import read_integers

__all__ = ["Indexed", "KeyedMix", "MixedPosition"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

_MAX_LENGTH = 2**63 - 1
#: Part of the keys for the orders within blocks; it keeps them different from the other keys of a mixture.
_BLOCKS = -1


class Indexed(Protocol[T_co]):
    """A source that can be mixed: lists, datasets, samplers, permutations, ranges."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class MixedPosition(NamedTuple):
    """The source item that is at a position of a mixture."""

    source: int  #: number of the source
    item: int  #: index of the item in this source
    pass_number: int  #: number of complete passes through the source before this item


class KeyedMix(Sampler[T]):
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
        if not self._sources:
            raise ValueError("sources must have at least one, got none")
        self._weights = _check_weights(weights, len(self._sources))
        self._sizes = [_size_of(source, number) for number, source in enumerate(self._sources)]
        self._block = sum(self._weights)
        self._ends = list(accumulate(self._weights))
        self._repeats = _check_at_end(at_end) == "repeat"
        self._shuffles = bool(shuffle)
        super().__init__(self._length(length), rank, world_size, ddp_drop_last_distributed_round, "positions")
        self._orders = _Orders(as_int("seed", seed), as_int("epoch", epoch))

    def _length(self, given: int | None) -> int:
        if self._repeats:
            if given is None:
                passes = (-(-size // weight) for size, weight in zip(self._sizes, self._weights, strict=True))
                blocks = max(passes)
                return _check_length(blocks * self._block)
            length = as_int("length", given)
            if length < 1:
                raise ValueError(f"length must be >= 1, got {length}")
            return _check_length(length)
        if given is not None:
            raise ValueError(f"length must be None with at_end='stop', where the sources decide it, got {given}")
        for number, (size, weight) in enumerate(zip(self._sizes, self._weights, strict=True)):
            if size < weight:
                raise ValueError(
                    f"source {number} must have as many items as its weight, {weight}, with at_end='stop', got {size}: "
                    "no block could be filled"
                )
        blocks = min(size // weight for size, weight in zip(self._sizes, self._weights, strict=True))
        return _check_length(blocks * self._block)

    @property
    def sources(self) -> list[Indexed[T]]:
        """The sources that are mixed."""
        return list(self._sources)

    @property
    def weights(self) -> list[int]:
        """The number of items of each source in a block."""
        return list(self._weights)

    @property
    def seed(self) -> int:
        """The seed of the iterations that begin now."""
        return self._orders.seed

    @property
    def epoch(self) -> int:
        """The epoch of the iterations that begin now."""
        return self._orders.epoch

    def shuffle(self, seed: int) -> None:
        """Set the seed of the iterations that begin from now on; the epoch stays. Only the last call counts.

        If a state was loaded, the next iteration resumes from it only if this is the seed in the state.

        Raises:
            TypeError: ``seed`` is not an integer.
        """
        self._choose(as_int("seed", seed), self.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the iterations that begin from now on; the seed stays. Only the last call counts.

        If a state was loaded, the next iteration resumes from it only if this is the epoch in the state.

        Raises:
            TypeError: ``epoch`` is not an integer.
        """
        self._choose(self.seed, as_int("epoch", epoch))

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
        if not 0 <= source < len(self._sources):
            raise IndexError(f"source {source} is out of range for {len(self._sources)} sources")
        size, weight = self._sizes[source], self._weights[source]
        if not 0 <= item < size:
            raise IndexError(f"item {item} is out of range for {size} items of source {source}")
        orders = self._orders
        place = orders.get(source, pass_number, size).index_of(item) if self._shuffles else item
        block, value = divmod(pass_number * size + place, weight)
        order = orders.get(_BLOCKS, block, self._block)
        position = block * self._block + order.index_of(self._ends[source] - weight + value)
        if not 0 <= position < self.num_global:
            raise ValueError(
                f"item {item} of source {source} does not come in pass {pass_number} of an epoch of "
                f"{self.num_global} positions"
            )
        return position

    def _locate(self, position: int, orders: _Orders) -> MixedPosition:
        block, place = divmod(position, self._block)
        value = orders.get(_BLOCKS, block, self._block)[place]
        source = bisect_right(self._ends, value)
        weight, size = self._weights[source], self._sizes[source]
        pass_number, item = divmod(block * weight + value - self._ends[source] + weight, size)
        if self._shuffles:
            item = orders.get(source, pass_number, size)[item]
        return MixedPosition(source, item, pass_number)

    def _items_at(self, positions: range) -> Iterator[T]:
        # An iteration keeps its seed and epoch.
        return self._iterate(positions, _Orders(self.seed, self.epoch))

    def _iterate(self, positions: range, orders: _Orders) -> Iterator[T]:
        for position in positions:
            source, item, _ = self._locate(position, orders)
            yield self._sources[source][item]

    def _item_at(self, position: int) -> T:
        source, item, _ = self._locate(position, self._orders)
        return self._sources[source][item]

    def _choose(self, seed: int, epoch: int) -> None:
        if (seed, epoch) != (self.seed, self.epoch):
            self._orders = _Orders(seed, epoch)
            self._forget()

    def _settings(self) -> dict[str, Any]:
        return {"seed": self.seed, "epoch": self.epoch}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._choose(*read_integers(state, "seed", "epoch"))

    def _fingerprint(self) -> dict[str, Any]:
        return {
            **super()._fingerprint(),
            "weights": self._weights,
            "sizes": self._sizes,
            "at_end": "repeat" if self._repeats else "stop",
            "shuffle": self._shuffles,
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_orders": _Orders(self.seed, self.epoch)}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self._sources)} sources, weights={self._weights}, "
            f"at_end={'repeat' if self._repeats else 'stop'!r}, rank={self.rank}, world_size={self.world_size}, "
            f"seed={self.seed}, epoch={self.epoch}, total={self._share.stop})"
        )


class _Orders:
    """The orders within blocks and of passes, for one seed and epoch. Caches those used last. Thread-safe."""

    __slots__ = ("_known", "epoch", "seed")

    def __init__(self, seed: int, epoch: int) -> None:
        self.seed = seed
        self.epoch = epoch
        self._known: dict[int, tuple[int, KeyedPermutation]] = {}

    def get(self, of: int, number: int, size: int) -> KeyedPermutation:
        """Return the order of a pass through a source, or of a block."""
        known = self._known.get(of)
        if known is not None and known[0] == number:
            return known[1]
        order = KeyedPermutation(size, (self.seed, self.epoch, of, number))
        self._known[of] = number, order
        return order


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


def _check_at_end(at_end: str) -> str:
    if at_end not in ("stop", "repeat"):
        raise ValueError(f"at_end must be 'stop' or 'repeat', got {at_end!r}")
    return at_end


def _check_length(length: int) -> int:
    if length > _MAX_LENGTH:
        raise ValueError(f"the number of positions must be <= 2**63 - 1, got {length}")
    return length
