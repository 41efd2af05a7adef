"""Indices in random order, distributed over the ranks: drawn with NumPy, or computed on demand."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from spdl._numbers import as_int
from spdl._random import absorb, words_of

from ._keyed import KeyedPermutation, PermutationSlice
from ._sampler import Sampler, ShuffledSampler, check_size
from ._states import read_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Number of indices that are converted at a time.
_BLOCK: Final = 4096


class DistributedRandomSampler(Sampler[int]):
    """Indices of a dataset in random order; each rank gets every ``world_size``-th index.

    .. code-block:: python

        sampler = DistributedRandomSampler(1000, rank=0, world_size=4, seed=0)
        for epoch in range(2):
            sampler.shuffle(seed=epoch)
            assert len(list(sampler)) == 250

    All ranks draw the same ``numpy.random.default_rng(seed).choice(n, ...)``, so they need not communicate.
    Each iteration draws again from the seed: the order is the same until ``shuffle`` sets another seed.
    No global random state is used.

    The indices of all ranks are drawn at once and take 8 bytes each. For large datasets, use
    :class:`DistributedKeyedSampler`. Indexing (``sampler[position]``) draws all indices once and keeps them until
    ``shuffle``.

    Args:
        n: Number of items in the dataset.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        num_draws: Number of indices that all ranks together draw; ``None``: ``n``. May exceed ``n`` only with
            ``weights``.
        weights: Relative frequency of each item: ``n`` numbers, which are copied. Draws are then with replacement: an
            item may be drawn several times or never.
        seed: Seed of the first iterations, >= 0.
        ddp_drop_last_distributed_round: Draw a multiple of ``world_size``, so that all ranks make the same number of
            steps. ``False``: some ranks may get one index more than others.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``n``, ``world_size`` or ``num_draws`` is not positive; ``rank`` is outside of ``[0, world_size)``;
            there are fewer draws than ranks and the last round is dropped; more draws than items without ``weights``;
            ``weights`` are not ``n`` finite numbers >= 0, or their sum is 0 or overflows; the seed is negative.
    """

    def __init__(
        self,
        n: int,
        /,
        *,
        rank: int,
        world_size: int,
        num_draws: int | None = None,
        weights: Sequence[float] | NDArray[Any] | None = None,
        seed: int = 0,
        ddp_drop_last_distributed_round: bool = True,
    ) -> None:
        self._n = check_size(n)
        total = self._n
        if num_draws is not None:
            total = as_int("num_draws", num_draws, 1)
        if weights is None and total > self._n:
            raise ValueError(
                f"num_draws must be <= n without weights, since nothing is drawn twice, got {total} of {self._n} items"
            )
        super().__init__(total, rank, world_size, ddp_drop_last_distributed_round, what="draws")
        self._probabilities = None if weights is None else _as_probabilities(weights, self._n)
        self._seed = as_int("seed", seed, 0)
        self._kept: NDArray[Any] | None = None

    def shuffle(self, seed: int) -> None:
        """Set the seed of the iterations that begin from now on. Only the last call counts.

        If a state was loaded, the next iteration resumes from it only if this is the seed in the state.

        Raises:
            TypeError: ``seed`` is not an integer.
            ValueError: ``seed`` is negative.
        """
        chosen = as_int("seed", seed, 0)
        if chosen != self._seed:
            self._seed = chosen
            self._kept = None
            self._forget()

    @property
    def num_global(self) -> int:
        """The number of indices that all ranks draw together. A different number gives a different order."""
        return self._share.stop

    def __iter__(self) -> Iterator[int]:
        """Iterate over the indices, which are drawn at the first ``next``."""
        return super().__iter__()

    def _items_at(self, positions: range) -> Iterator[int]:
        return self._draw_at(positions, self._seed)

    def _draw_at(self, positions: range, seed: int) -> Iterator[int]:
        # A generator, so that nothing is drawn before the first `next`.
        drawn = self._draw(seed) if self._kept is None or seed != self._seed else self._kept
        own = drawn[positions.start : positions.stop : positions.step]
        if positions.step > 1:
            own = own.copy()  # so that the other ranks' indices are freed
        del drawn
        for start in range(0, len(own), _BLOCK):  # not all at once: as integers of Python they take four times as much
            yield from own[start : start + _BLOCK].tolist()

    def _item_at(self, position: int) -> int:
        if self._kept is None:
            self._kept = self._draw(self._seed)
        return int(self._kept[position])

    def _draw(self, seed: int) -> NDArray[Any]:
        import numpy as np

        return np.random.default_rng(seed).choice(
            self._n, size=self._share.stop, replace=self._probabilities is not None, p=self._probabilities
        )

    def _settings(self) -> dict[str, Any]:
        return {"seed": self._seed}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.shuffle(seed=read_count(state, "seed"))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_kept": None}

    def __repr__(self) -> str:
        share = self._share
        return (
            f"{type(self).__name__}({self._n}, rank={share.start}, world_size={share.step}, num_draws={share.stop}, "
            f"weights={'None' if self._probabilities is None else '...'}, seed={self._seed})"
        )


def _as_probabilities(weights: Sequence[float] | NDArray[Any], n: int) -> NDArray[np.float64]:
    """The weights divided by their sum, shape ``(n,)``."""
    import numpy as np

    try:
        given = np.array(weights, dtype=np.float64)
    except (TypeError, OverflowError) as exc:
        raise ValueError(f"weights must be numbers: {exc}") from exc
    if given.shape != (n,):
        raise ValueError(f"weights must be one number for each of the {n} items, got shape {given.shape}")
    is_good = np.isfinite(given) & (given >= 0)
    if not is_good.all():
        position = int(np.argmin(is_good))
        raise ValueError(f"weights must be finite and >= 0, got {given[position]} at position {position}")
    with np.errstate(over="ignore"):
        total = given.sum()
    if not np.isfinite(total):
        raise ValueError("weights must have a finite sum, got one that overflows: divide them by the largest")
    if total <= 0:
        raise ValueError("weights must have a sum > 0, got 0: no item could be drawn")
    given /= total
    return given


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
        self._begin_at(seed, epoch)
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
