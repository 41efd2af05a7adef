"""``KeyedMix``: a weighted mixture of indexable sources; position and item are computed from each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, Protocol, TypeVar

from ._mixture import MixedPosition as MixedPosition
from ._mixture import Mixture, Orders

__all__ = ["Indexed", "KeyedMix", "MixedPosition"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

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
