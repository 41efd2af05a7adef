"""``Mixture``: the base class of weighted mixtures; position and item are computed from each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ._arguments import as_int
from ._keyed import KeyedPermutation
from ._sampler import ShuffledSampler

T = TypeVar("T")

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
    """Items of several sources in blocks, each with as many items of a source as its weight.

    Args:
        sizes: Number of items of each source.
        weights: Number of items of each source in a block.
        at_end: ``"stop"`` or ``"repeat"``.
        length: Number of positions with ``"repeat"``; ``None``: until every item has been used.
        shuffle: Whether to shuffle the items of each source.
        rank: Rank of this process.
        world_size: Number of ranks.
        seed: Seed of the run.
        epoch: Epoch of the first iterations.
        drop_last_round: Whether to drop the remainder.
    """

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
        self._repeats = _check_at_end(at_end) == "repeat"
        self._shuffles = bool(shuffle)
        super().__init__(self._length(length), rank, world_size, drop_last_round, "positions")
        self._seed = as_int("seed", seed)
        self._epoch = as_int("epoch", epoch)
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


def _check_at_end(at_end: str) -> str:
    if at_end not in ("stop", "repeat"):
        raise ValueError(f"at_end must be 'stop' or 'repeat', got {at_end!r}")
    return at_end


def _check_length(length: int) -> int:
    if length > _MAX_LENGTH:
        raise ValueError(f"the number of positions must be <= 2**63 - 1, got {length}")
    return length
