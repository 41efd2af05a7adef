"""Base classes of samplers and streams: all ranks share one order; each rank gets every ``world_size``-th item."""

from __future__ import annotations

import copy
import operator
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar, overload

from spdl._numbers import as_int
from spdl.resume._values import ResumeError

from ._states import Counted, make_state, read_count, read_integers, read_state

if TYPE_CHECKING:
    from typing import Self


def check_size(n: object) -> int:
    """Get the number of items of a dataset, which is positive."""
    size = as_int("n", n)
    if size <= 0:
        raise ValueError(f"n, the number of items, must be > 0, got {size}")
    return size


def share_of(total: int, rank: object, world_size: object, drop_last_round: bool, what: str = "items") -> range:
    """Get the positions of ``rank``: ``range(rank, stop, world_size)``.

    ``stop`` is ``total``, or less if the last round is dropped, so that all ranks get the same number.
    """
    size = as_int("world_size", world_size, 1)
    own = as_int("rank", rank)
    if not 0 <= own < size:
        raise ValueError(f"rank must be in range [0, {size}), got {own}")
    if drop_last_round:
        if total < size:
            raise ValueError(
                f"world_size must be <= the number of {what}, got {size} for {total} {what}: a round of all ranks "
                "would not be full. With ddp_drop_last_distributed_round=False some ranks get nothing instead"
            )
        total -= total % size
    return range(own, total, size)


T = TypeVar("T")


class Sampler(Generic[T]):
    """The share of one rank in an order that all ranks agree on.

    There are two kinds of positions. A *local* position counts the items of this rank: ``sampler[0]`` is its first. A
    *global* position counts the items of all ranks: ``sampler.at_global(0)`` is the first item of rank 0, on every
    rank. Looking up either takes constant time.
    """

    def __init__(
        self, total: int, rank: object, world_size: object, drop_last_round: bool, what: str = "items"
    ) -> None:
        self._total, self._what = total, what
        self._share = share_of(total, rank, world_size, drop_last_round, what)
        self._drop_last = bool(drop_last_round)
        self._start = 0
        self._newest: Counted[T] | None = None

    @abstractmethod
    def _items_at(self, positions: range) -> Iterator[T]:
        """The items at these global positions, which are in ascending order."""

    @abstractmethod
    def _item_at(self, position: int) -> T:
        """The item at a global position."""

    def _settings(self) -> dict[str, Any]:
        """Settings that determine the order and may change after construction, such as the epoch; part of the state."""
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Set the settings from a state that has been checked."""

    def _fingerprint(self) -> dict[str, Any]:
        """Constructor arguments that must be the same where the state is loaded; not those of a rank."""
        return {"num_global": self.num_global}

    def _forget(self) -> None:
        """Make the next iteration begin at the start, because its order has changed."""
        self._start = 0
        self._newest = None

    @property
    def rank(self) -> int:
        """The rank whose items these are."""
        return self._share.start

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self._share.step

    @property
    def num_global(self) -> int:
        """The number of global positions: of all ranks together, including a last round that is dropped."""
        return self._total

    @property
    def drop_last(self) -> bool:
        """Whether the remainder is dropped."""
        return self._drop_last

    def _of_worker(self, worker: object, num_workers: object) -> Self:
        """A copy for one of several workers of this rank, each of which is like a rank."""
        count = as_int("num_workers", num_workers, 1)
        own = as_int("worker", worker)
        if not 0 <= own < count:
            raise ValueError(f"worker must be in range [0, {count}), got {own}")
        rank, world_size = self.rank + own * self.world_size, self.world_size * count
        copied = copy.copy(self)
        copied._share = share_of(self._total, rank, world_size, self._drop_last, self._what)
        copied._forget()
        return copied

    def global_position(self, position: SupportsIndex) -> int:
        """Return the global position of a local one: ``rank + world_size * position``.

        Raises:
            IndexError: The position is out of range.
        """
        return self._share[as_position(position, len(self), "items of this rank")]

    def at_global(self, position: SupportsIndex) -> T:
        """Return the item at a global position, also one of another rank or of a last round that is dropped.

        With it, a pipeline loads items that other ranks have not loaded, when a run resumes with another number of
        ranks.

        Raises:
            IndexError: The position is not in ``range(num_global)``.
        """
        return self._item_at(as_position(position, self.num_global, "items of all ranks"))

    def __len__(self) -> int:
        return len(self._share)

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> T | Sequence[T]:
        """The item at a local position; for a slice, a list of items."""
        if isinstance(index, slice):
            positions = self._share[index]
            if positions.step < 0:
                return list(self._items_at(positions[::-1]))[::-1]
            return list(self._items_at(positions))
        return self._item_at(self.global_position(index))

    def iterate_from(self, index: SupportsIndex) -> Iterator[T]:
        """Iterate over the items from a local position on; faster than indexing them one by one."""
        return self._items_at(self._share[operator.index(index) :])

    def __iter__(self) -> Iterator[T]:
        start, self._start = self._start, 0
        self._newest = Counted(self._items_at(self._share[start:]), start)
        return self._newest.items

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the newest iteration, as numbers and text.

        Only loaders that iterate over the sampler need its state; loaders that use positions do not.
        """
        position = self._start if self._newest is None else self._newest.count
        return make_state(
            type(self).__name__,
            **self._fingerprint(),
            **self._settings(),
            world_size=self.world_size,
            position=position,
        )

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Make the next iteration resume from a state; later iterations begin at the start.

        The state may be from any rank, because all ranks have taken the same number of items. It may be from another
        number of ranks, if the items they had taken together divide evenly among the current ranks. Choosing another
        order or epoch afterwards makes the next iteration begin at the start.

        Raises:
            ResumeError: It is not the state of a sampler of this class with the same arguments.
        """
        kind = type(self).__name__
        checked = read_state(state, kind, **self._fingerprint())
        taken = read_count(checked, "position") * read_count(checked, "world_size")
        if checked["world_size"] != self.world_size and taken % self.world_size:
            raise ResumeError(
                f"cannot load a state into {kind}: {checked['world_size']} ranks had taken {taken} items, which do not "
                f"divide among {self.world_size}"
            )
        position = taken // self.world_size
        if position > len(self):
            raise ResumeError(
                f"cannot load a state into {kind}: it is at position {position}, and there are {len(self)} items"
            )
        self._restore(checked)
        self._newest = None
        self._start = position

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins at the start, even if it is made during an iteration.
        return {**self.__dict__, "_newest": None}


class Epochs:
    """A source whose iterations depend on an epoch."""

    _epoch: int

    @property
    def epoch(self) -> int:
        """The epoch of the iterations that begin now."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the iterations that begin from now on; the seed stays. Only the last call counts.

        If a state was loaded, the next iteration resumes from it only if this is the epoch in the state.

        Raises:
            TypeError: ``epoch`` is not an integer.
        """
        given = as_int("epoch", epoch)
        if given != self._epoch:
            self._epoch = given
            self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Make the next iteration begin at the start, because its order has changed."""


class Seeded(Epochs):
    """A source whose iterations depend on a seed and an epoch."""

    _seed: int

    def _begin_at(self, seed: object, epoch: object) -> None:
        """Set both; called by the constructor."""
        self._seed, self._epoch = as_int("seed", seed), as_int("epoch", epoch)

    @property
    def seed(self) -> int:
        """The seed of the iterations that begin now."""
        return self._seed


class ShuffledSampler(Seeded, Sampler[T]):
    """A sampler whose order depends on a seed and an epoch, which its constructor sets."""

    @abstractmethod
    def _reorder(self) -> None:
        """Replace or forget what was computed from seed and epoch, which have changed."""

    def shuffle(self, seed: int) -> None:
        """Set the seed of the iterations that begin from now on; the epoch stays. Only the last call counts.

        If a state was loaded, the next iteration resumes from it only if this is the seed in the state.

        Raises:
            TypeError: ``seed`` is not an integer.
        """
        self._choose(as_int("seed", seed), self._epoch)

    def _choose(self, seed: int, epoch: int) -> None:
        if (seed, epoch) != (self._seed, self._epoch):
            self._seed, self._epoch = seed, epoch
            self._forget()

    def _forget(self) -> None:
        self._reorder()
        Sampler._forget(self)

    def _settings(self) -> dict[str, Any]:
        return {"seed": self._seed, "epoch": self._epoch}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._choose(*read_integers(state, "seed", "epoch"))


def as_position(position: SupportsIndex, length: int, what: str, name: str = "position") -> int:
    """The position as a number from 0 on: negative ones count from the end."""
    number = operator.index(position)
    if 0 <= number < length:
        return number
    if -length <= number < 0:
        return number + length
    raise IndexError(f"{name} {number} is out of range for {length} {what}")


class StreamShare(Epochs):
    """Base class of sources without positions, whose parts (such as archives) are distributed over the ranks."""

    def __init__(self, total: int, what: str, rank: int, world_size: int, num_samples: int | None) -> None:
        share = share_of(total, rank, world_size, False, what)
        self._rank, self._world = share.start, share.step
        self._num_samples = None if num_samples is None else as_int("num_samples", num_samples)
        if self._num_samples is not None and self._num_samples < 1:
            raise ValueError(f"num_samples must be >= 1, or None for all, got {self._num_samples}")

    @property
    def rank(self) -> int:
        """The rank whose samples these are."""
        return self._rank

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self._world

    @property
    def num_samples(self) -> int | None:
        """The number of samples per rank and epoch; ``None``: all."""
        return self._num_samples


class DistributedDeterministicSampler(Sampler[int]):
    """The indices ``0 .. n - 1`` in ascending order; each rank gets every ``world_size``-th index.

    .. code-block:: python

        assert list(DistributedDeterministicSampler(8, rank=1, world_size=4)) == [1, 5]

    Every iteration yields ``range(rank, total, world_size)``. No two ranks get the same index; together they get all.
    It can be indexed (``sampler[position]``), and has a state.

    Args:
        n: Number of items in the dataset.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        ddp_drop_last_distributed_round: Drop the remainder, so that all ranks make the same number of steps; a
            ``UserWarning`` says how many items are dropped, because these are never loaded in any epoch. ``False``:
            nothing is dropped, and some ranks get one index more than others.

    Raises:
        TypeError: An argument is not an integer.
        ValueError: ``n`` or ``world_size`` is not positive, ``rank`` is outside of ``[0, world_size)``, or there are
            fewer items than ranks and the last round is dropped.
    """

    def __init__(self, n: int, /, *, rank: int, world_size: int, ddp_drop_last_distributed_round: bool = True) -> None:
        size = check_size(n)
        super().__init__(size, rank, world_size, ddp_drop_last_distributed_round)
        if self._share.stop < size:
            warnings.warn(
                f"{size} items do not divide among {self._share.step} ranks: the last {size - self._share.stop} are "
                "never loaded. With ddp_drop_last_distributed_round=False they are, and some ranks get one item more",
                stacklevel=2,
            )

    def _items_at(self, positions: range) -> Iterator[int]:
        return iter(positions)

    def _item_at(self, position: int) -> int:
        return position

    def __repr__(self) -> str:
        share = self._share
        return f"{type(self).__name__}(rank={share.start}, world_size={share.step}, total={share.stop})"
