"""``ShardMix``: a weighted mixture of indexes of shards, of which each is read from few shards at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise, repeat
from operator import call
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from spdl._numbers import as_int
from spdl._random import STEP, absorb, mix, words_of
from spdl.source._mixture import Mixture, Order, Orders

from ._shard_order import Layout, Sharded, Windows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Part of the key of the words by which leaves are sorted. Digits of pi.
_LEAVES: Final = 0x13198A2E03707344
#: Longer blocks are divided until their parts, the leaves, are not longer.
_MAX_LEAF: Final = 256
#: Number of positions that are computed at a time: few at first, because the first item waits for all of them. Later
#: enough for each source, because NumPy's functions are called for each, and in all, to bound the memory.
_FIRST_CHUNK, _MAX_CHUNK, _LARGEST_CHUNK = 64, 4096, 32768
#: Number of words that are sorted at a time.
_MAX_WORDS: Final = 1 << 18


class MixedLocation(NamedTuple):
    """Where a sample of a mixture is."""

    source: int  #: number of the source
    location: Any  #: what ``locate`` of this source returned


class ShardMix(Mixture[MixedLocation]):
    """The samples of several indexes of shards, mixed by weights; each is read from ``open_shards`` shards at a time.

    It is to :class:`ShardOrder` what :class:`KeyedMix` is to a shuffled list: the samples of a source come in an order
    like that of ``ShardOrder``, so row groups of Parquet are decoded once, and files stay open. The order consists of
    *blocks* of ``sum(weights)`` positions. Every block has exactly ``weights[s]`` samples of source ``s``, at random
    places. A block of any length keeps the proportions in all of its parts: it is divided in halves, each with its
    share of every source, and only parts of up to 256 positions are shuffled. So weights may be the sizes of sources.

    It yields locations, and :meth:`read` reads the samples, in a stage with the concurrency that you set. Position and
    location are computed from each other in constant time, so a run resumes anywhere, with any number of ranks.

    .. code-block:: python

        code, web = JsonLines("corpus-{00..03}.jsonl"), ParquetRows("table-{00..15}.parquet", open_groups=10)
        mixed = ShardMix([code, web], [1, 3], at_end="repeat", open_shards=8, rank=rank, world_size=world_size)
        builder = PipelineBuilder().add_source(mixed).pipe(mixed.read, concurrency=4)

    Args:
        sources: Indexes to mix: :class:`TarIndex`, :class:`ParquetRows`, :class:`JsonLines`, :class:`LanceRows`, or
            other objects with ``shard_sizes``, ``locate(number)`` and ``[location]``.
        weights: Number of samples of each source in a block: integers >= 1, one for each source.
        at_end: Policy for a source that has no more samples: ``"stop"`` or ``"repeat"``, as for :class:`KeyedMix`.
        length: Number of positions of an epoch, of all ranks together; only with ``at_end="repeat"``. ``None``: the
            first full block after which every sample of every source has been used at least once ends the epoch.
        open_shards: Number of shards of a source that are mixed, or one number for each source.
        shuffle: Whether to shuffle the samples of each source. ``False``: they keep the order of the index, apart from
            the order within a block.
        rank: Rank of this process: ``torch.distributed.get_rank()``.
        world_size: Number of ranks: ``torch.distributed.get_world_size()``.
        seed: Seed of the run: any integer.
        epoch: Epoch of the first iterations: any integer.
        ddp_drop_last_distributed_round: Drop the remainder, so that all ranks make the same number of steps. ``False``:
            nothing is dropped, and some ranks may get one sample more.

    Raises:
        TypeError: A number is not an integer, or a source has no shards.
        ValueError: There are no sources; the number of weights or of ``open_shards`` is wrong, or one is < 1; a source
            is empty, or has too few samples for one block with ``at_end="stop"``; ``at_end`` is neither of the two;
            ``length`` is given with ``"stop"``, or is out of range; or ``rank`` is not below ``world_size``.

    Algorithm: position ``g`` is in block ``g // B``, where ``B = sum(weights)``. A part of more than 256 positions, at
    first the block, is divided in two: its first half, of ``h = n // 2`` positions of ``n``, gets
    ``e[s] * h // n - e[s - 1] * h // n`` samples of source ``s``, where ``e`` are the cumulative counts of the part.
    The samples of a part of at most 256 are numbered, those of source 0 first; the sources come in the order of the
    words of SplitMix64 for ``p + number + 1``, where ``p`` is the part's first position and the state is a hash of seed
    and epoch. The samples of a source keep their order: its sample number ``q``, counted over all passes, is in a
    source of ``n`` samples the one that :class:`ShardOrder` has at position ``q % n``, if its keys begin with
    ``(seed, epoch, s, q // n)``. The numbers are the same on every machine and will not change.
    """

    def __init__(
        self,
        sources: Sequence[Sharded[Any]],
        weights: Sequence[int],
        /,
        *,
        at_end: Literal["stop", "repeat"],
        length: int | None = None,
        open_shards: int | Sequence[int] = 16,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        epoch: int = 0,
        ddp_drop_last_distributed_round: bool = True,
    ) -> None:
        self._sources: list[Any] = list(sources)
        mixed = _one_for_each(open_shards, len(self._sources))
        self._layouts = [
            Layout.of(f"source {number}", source, each)
            for number, (source, each) in enumerate(zip(self._sources, mixed, strict=True))
        ]
        super().__init__(
            [layout.num_samples for layout in self._layouts],
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

    @property
    def sources(self) -> list[Sharded[Any]]:
        """The indexes that are mixed."""
        return list(self._sources)

    @property
    def open_shards(self) -> list[int]:
        """The number of shards of each source that are mixed."""
        return [layout.open_shards for layout in self._layouts]

    def read(self, sample: MixedLocation, /) -> Any:
        """Read a sample from its source: the result of ``sources[sample.source][sample.location]``."""
        source, location = sample
        return self._sources[source][location]

    def for_worker(self, worker: int, num_workers: int) -> ShardMix:
        """Return the mixture for one of several workers of this rank: every ``num_workers``-th of its positions.

        Raises:
            TypeError: An argument is not an integer.
            ValueError: ``num_workers`` is not positive, or ``worker`` is not in ``[0, num_workers)``.
        """
        return self._of_worker(worker, num_workers)

    def _make_orders(self, seed: int, epoch: int) -> _Orders:
        return _Orders(seed, epoch, self._layouts)

    def _item(self, source: int, item: int) -> MixedLocation:
        return MixedLocation(source, self._sources[source].locate(item))

    def _number_at(self, position: int, orders: Orders) -> tuple[int, int]:
        leaf = self._leaf(*divmod(position, self._block))
        value = cast(_Orders, orders).arranged(leaf)[position - leaf.start]
        source = bisect_right(leaf.ends, value)
        return source, leaf.firsts[source] + value - leaf.begin(source)

    def _position_of(self, source: int, number: int, orders: Orders) -> int:
        leaf = self._leaf(*divmod(number, self._weights[source]), source)
        value = number - leaf.firsts[source] + leaf.begin(source)
        return leaf.start + cast(_Orders, orders).arranged(leaf).index(value)

    def _leaf(self, block: int, place: int, source: int | None = None) -> _Leaf:
        """The leaf of a block at a place; with a source, at its item of this number in the block."""
        start, size = block * self._block, self._block
        counts, firsts = self._weights, [block * weight for weight in self._weights]
        while size > _MAX_LEAF:
            half, taken = size // 2, _of_first_half(size, counts)
            own = half if source is None else taken[source]
            if place < own:
                size, counts = half, taken
                continue
            start, size, place = start + half, size - half, place - own
            counts = [count - left for count, left in zip(counts, taken, strict=True)]
            firsts = [first + left for first, left in zip(firsts, taken, strict=True)]
        return _Leaf(start, list(accumulate(counts)), firsts)

    def _iterate(self, positions: range, orders: Orders) -> Iterator[MixedLocation]:
        try:
            import numpy  # noqa: F401  # whether it is installed
        except ImportError:
            return super()._iterate(positions, orders)
        return chain.from_iterable(self._chunks(positions, cast(_Orders, orders)))

    def _chunks(self, positions: range, orders: _Orders) -> Iterator[Iterator[MixedLocation]]:
        """The samples in chunks. Each is located when it is due, by functions that are not written in Python."""

        locate_in = [source.locate for source in self._sources].__getitem__
        largest = min(_MAX_CHUNK * len(self._sources), _LARGEST_CHUNK, _MAX_WORDS // min(positions.step, self._block))
        largest = max(1, largest)
        start, size = 0, min(_FIRST_CHUNK, largest)
        while own := positions[start : start + size]:
            sources, items = (each.tolist() for each in self._located(own, orders))
            located = map(call, map(locate_in, sources), items)
            # Three times as fast as the class itself.
            yield map(tuple.__new__, repeat(MixedLocation), zip(sources, located, strict=True))
            start, size = start + size, min(2 * size, largest)

    def _located(self, own: range, orders: _Orders) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sources and items at several ascending positions: what ``locate`` gives for one."""
        import numpy as np

        positions = np.arange(own.start, own.stop, own.step, dtype=np.int64)
        starts, ends, firsts = self._leaves_at(own)
        rows = np.searchsorted(starts, positions, "right") - 1
        places = rows, positions - starts[rows]
        values, sources = (each[places] for each in orders.arranged_all(starts, ends))
        begins = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], axis=1)
        numbers = firsts[rows, sources] - begins[rows, sources] + values
        passes, items = np.divmod(numbers, np.array(self._sizes)[sources])
        if self._shuffles:
            by_source = sources.astype(_smallest(len(self._sizes))).argsort(kind="stable")  # its passes ascend
            keys = np.stack([sources[by_source], passes[by_source]])
            firsts_of = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
            for first, stop in pairwise([0, *firsts_of.tolist(), len(by_source)]):
                chosen = by_source[first:stop]
                source, number = keys[:, first].tolist()
                items[chosen] = orders.windows(source, number).values_of(items[chosen])
        return sources, items

    def _leaves_at(self, positions: range) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The leaves at several ascending positions, as columns: ``(leaves,)``, and twice ``(leaves, sources)``."""
        import numpy as np

        blocks = range(positions[0] // self._block, positions[-1] // self._block + 1)
        if self._block <= _MAX_LEAF:  # each block is a leaf
            weights = np.array(self._weights)
            numbers = np.arange(blocks.start, blocks.stop)
            if positions.step > self._block:
                numbers = np.arange(positions.start, positions.stop, positions.step) // self._block
            ends = np.broadcast_to(np.cumsum(weights), (len(numbers), len(weights)))
            return numbers * self._block, ends, numbers[:, None] * weights
        leaves: list[_Leaf] = []
        todo = [
            (block * self._block, self._block, self._weights, [block * weight for weight in self._weights])
            for block in reversed(blocks)
        ]
        while todo:
            start, size, counts, firsts = todo.pop()
            place = bisect_left(positions, start)
            if place == len(positions) or positions[place] >= start + size:
                continue
            if size <= _MAX_LEAF:
                leaves.append(_Leaf(start, list(accumulate(counts)), firsts))
                continue
            half, taken = size // 2, _of_first_half(size, counts)
            left = [count - part for count, part in zip(counts, taken, strict=True)]
            todo.append((start + half, size - half, left, [sum(each) for each in zip(firsts, taken, strict=True)]))
            todo.append((start, half, taken, firsts))
        starts, ends, firsts_of = (np.array(column, np.int64) for column in zip(*leaves, strict=True))
        return starts, ends, firsts_of

    def _fingerprint(self) -> dict[str, Any]:
        indexes = [getattr(source, "fingerprint", None) for source in self._sources]
        return {**super()._fingerprint(), "open_shards": self.open_shards, "indexes": indexes}


def _of_first_half(size: int, counts: Sequence[int]) -> list[int]:
    """The share of each source in the first half of a part, rounded so that the sum is right and nothing negative."""
    cuts = [end * (size // 2) // size for end in accumulate(counts)]
    return [cut - before for before, cut in pairwise([0, *cuts])]


class _Leaf(NamedTuple):
    """Adjacent positions of a block with so many samples of each source, in an order that has yet to be drawn.

    A *value* is a number of one of these samples: first those of source 0, then those of source 1, and so on.
    """

    start: int  #: the first position
    ends: list[int]  #: of each source, the end of its values
    firsts: list[int]  #: of each source, the number of its samples before this leaf, in all passes

    def begin(self, source: int) -> int:
        """The first value of a source."""
        return self.ends[source - 1] if source else 0


class _Orders(Orders):
    """The orders of leaves, and the windows of passes."""

    __slots__ = ("_arranged", "_layouts", "_state")

    def __init__(self, seed: int, epoch: int, layouts: list[Layout]) -> None:
        super().__init__(seed, epoch)
        self._layouts = layouts
        self._arranged: tuple[int, list[int]] = -1, []
        self._state = _LEAVES
        for number in (seed, epoch):
            for word in words_of(number):
                self._state = absorb(self._state, word)

    def make(self, of: int, number: int, size: int) -> Order:
        return Windows(self._layouts[of], (self.seed, self.epoch, of, number))

    def windows(self, source: int, number: int) -> Windows:
        """The order of a pass through a source."""
        return cast(Windows, self.get(source, number, self._layouts[source].num_samples))

    def arranged(self, leaf: _Leaf) -> list[int]:
        """The values of a leaf in their order. Those of a source are ascending."""
        start, values = self._arranged
        if start != leaf.start:
            size = leaf.ends[-1]
            words = [mix(self._state + STEP * (leaf.start + value + 1)) for value in range(size)]
            drawn = sorted(range(size), key=words.__getitem__)
            sources = [bisect_right(leaf.ends, value) for value in drawn]
            values = [0] * size
            for value, place in enumerate(sorted(range(size), key=sources.__getitem__)):
                values[place] = value
            self._arranged = leaf.start, values
        return values

    def arranged_all(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Same as ``arranged``, for several leaves, and the sources: ``(leaves, positions)``.

        What follows a leaf is unused.
        """
        import numpy as np

        sizes = ends[:, -1:]
        numbers = np.arange(int(sizes.max()))
        words = _mixed((starts[:, None] + numbers + 1).view(np.uint64) * np.uint64(STEP) + np.uint64(self._state))
        words[numbers >= sizes] = np.iinfo(np.uint64).max
        sources = _sources_of(words.argsort(axis=1, kind="stable"), ends)
        # By source, in each leaf.
        num_keys = len(starts) * (ends.shape[1] + 1)
        keys = np.arange(0, num_keys, ends.shape[1] + 1)[:, None] + sources
        places = keys.ravel().astype(_smallest(num_keys)).argsort(kind="stable")
        values = np.empty(words.size, np.int64)
        values[places] = np.tile(numbers, len(starts))
        return values.reshape(words.shape), sources


def _sources_of(values: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sources of values in leaves: in row ``r``, those below ``ends[r, 0]`` are of source 0, and so on."""
    import numpy as np

    if ends.strides[0] == 0:  # all leaves are alike
        return np.arange(ends.shape[1]).repeat(np.diff(ends[0], prepend=0))[values]
    # One search for all rows: each is moved behind the one before.
    rows, width = np.arange(len(ends))[:, None], _MAX_LEAF + 1
    moved = (ends + rows * width).ravel()
    return np.asarray(np.searchsorted(moved, values + rows * width, "right") - rows * ends.shape[1])


def _smallest(limit: int) -> type[np.unsignedinteger[Any]]:
    """The type for numbers below a limit that is sorted fastest: those of 16 bits in linear time."""
    import numpy as np

    return np.uint16 if limit <= 1 << 16 else np.uint64


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Same as ``mix``, for several states."""
    import numpy as np

    first, second = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
    states = (states ^ (states >> np.uint64(30))) * first
    states = (states ^ (states >> np.uint64(27))) * second
    return states ^ (states >> np.uint64(31))


def _one_for_each(open_shards: int | Sequence[int], count: int) -> list[int]:
    if not hasattr(open_shards, "__len__"):
        return [as_int("open_shards", open_shards)] * count
    given = [as_int("open_shards", each) for each in open_shards]  # type: ignore[union-attr]  # it is a sequence
    if len(given) != count:
        raise ValueError(f"open_shards must be one number, or one for each of the {count} sources, got {len(given)}")
    return given
