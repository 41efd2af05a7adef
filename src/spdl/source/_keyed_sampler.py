"""``DistributedKeyedSampler``: indices in a random order that is computed on demand, distributed over the ranks."""

import operator
from collections.abc import Iterator
from typing import Final, SupportsIndex

from spdl._random._splitmix import absorb, words_of

from ._arguments import as_int
from ._keyed import KeyedPermutation, PermutationSlice
from ._sampler import ShuffledSampler
from ._share import check_size

#: Part of the key; it keeps these numbers different from others with the same seed. Digits of pi.
_REPLACEMENTS: Final = 0x082EFA98EC4E6C89


class DistributedKeyedSampler(ShuffledSampler[int]):
    """All indices of a dataset in random order, in constant memory; each rank gets every ``world_size``-th index.

    .. code-block:: python

        sampler = DistributedKeyedSampler(10**9, rank=rank, world_size=world_size, seed=0)
        sampler.set_epoch(3)
        sampler[5 * 10**8]  # in constant time

    The order of all ranks is ``KeyedPermutation(n, (seed, epoch))``. It does not depend on the number of ranks or
    workers, so a run can be resumed with more or fewer of them. Each iteration yields the same indices until
    ``shuffle`` or ``set_epoch`` is called. Starting at any position takes constant time, whatever ``n`` is:
    ``sampler[position]`` is computed, and a state is a number.

    Args:
        n: Number of items in the dataset, up to 2**63 - 1.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        seed: Seed of the run: any integer.
        epoch: Epoch of the first iterations: any integer.
        ddp_drop_last_distributed_round: Drop the remainder, so that all ranks make the same number of steps; each epoch
            drops different items. ``False``: nothing is dropped, and some ranks may get one index more.
        refill: Whether a pipeline replaces items that fail or are dropped before its first aggregate, so that all ranks
            make the same number of full batches. Iterating the sampler itself is not affected.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: ``n`` or ``world_size`` is not positive, ``n`` is too large, ``rank`` is outside of
            ``[0, world_size)``, or there are fewer items than ranks and the last round is dropped.
    """

    def __init__(
        self,
        n: int,
        /,
        *,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        epoch: int = 0,
        ddp_drop_last_distributed_round: bool = True,
        refill: bool = False,
    ) -> None:
        self._n = check_size(n)
        super().__init__(self._n, rank, world_size, ddp_drop_last_distributed_round)
        self._seed = as_int("seed", seed)
        self._epoch = as_int("epoch", epoch)
        self._order = self._make_order()
        self._refill = bool(refill)

    @property
    def refill(self) -> bool:
        """Whether a pipeline replaces lost items."""
        return self._refill

    def replacement(self, position: int) -> int:
        """Return the item that replaces a lost one: a function of seed, epoch and the position of the replacement.

        It may be any item of the dataset, also one of another rank. If it is lost too, it is replaced in the same way.

        Args:
            position: A global position after those of the epoch: ``num_global`` or more.
        """
        state = _REPLACEMENTS
        for number in (self._seed, self._epoch, position):
            for word in words_of(number):
                state = absorb(state, word)
        return self._order[state % self._n]

    def at_global(self, position: SupportsIndex) -> int:
        """Get the item at a global position; with ``refill``, also at the position of a replacement.

        Raises:
            IndexError: The position is out of range.
        """
        number = operator.index(position)
        if self._refill and number >= self._n:
            return self.replacement(number)
        return super().at_global(number)

    def _reorder(self) -> None:
        self._order = self._make_order()

    def _make_order(self) -> KeyedPermutation:
        return KeyedPermutation(self._n, (self._seed, self._epoch))

    def _items_at(self, positions: range) -> Iterator[int]:
        return iter(PermutationSlice(self._order, positions))

    def _item_at(self, position: int) -> int:
        return self._order[position]

    def __repr__(self) -> str:
        share = self._share
        return (
            f"{type(self).__name__}({self._n}, rank={share.start}, world_size={share.step}, seed={self._seed}, "
            f"epoch={self._epoch}, total={share.stop})"
        )
