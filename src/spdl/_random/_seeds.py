"""The seeds of a stage's calls: functions of the run's seed, the stage, and the place of the item.

The place of an item is a tree, like its origin. Its leaves are positions of sources. If a call has several outputs,
each one is a part of the call's input. An aggregate is the tuple of its items' places.

The seed of a position is an output of SplitMix64, from the generator that run seed, stage name, source number and epoch
select. So all seeds of a stage differ within an epoch, and otherwise they collide no more often than random numbers.
The seeds of parts and aggregates are computed from those of their inputs by the same mixing. This is guaranteed to be
the same on every machine and in every release.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from ._splitmix import MASK, STEP, absorb, mix, words_of

#: Constants that separate parts, aggregates and positions: the first digits of pi, as words.
_PART: Final = 0x243F6A8885A308D3
_JOIN: Final = 0x13198A2E03707344
#: Number of generators that a stage keeps, for sources and epochs in progress.
_MAX_KEPT: Final = 64


class ItemPosition(NamedTuple):
    """A position of a source."""

    epoch: int  #: the number of the pass over the source
    position: int  #: in the order of all ranks
    source: int = 0  #: its number, in a pipeline that merges several
    item: int | str | None = None  #: the source's item (``key_of``), such as a path; not part of the seed


def key_of(item: object) -> int | str | None:
    """Return the key of a source's item: the item itself if it is a number or text, and the text of a path."""
    cls = type(item)
    if cls is int or cls is str:
        return item  # type: ignore[return-value]
    try:
        if hasattr(cls, "__fspath__"):
            path = os.fspath(item)  # type: ignore[call-overload]
            return path if type(path) is str else None
        if cls is not bool and hasattr(cls, "__index__"):  # a NumPy integer
            return operator.index(item)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - of the user's class
        return None
    return None


class ItemPart(NamedTuple):
    """One output of a call with several outputs."""

    of: ItemPlace  #: the input of the call
    number: int  #: of the output


ItemPlace: TypeAlias = "ItemPosition | ItemPart | tuple[ItemPlace, ...]"


class RngKey(NamedTuple):
    """Everything that a seed depends on."""

    seed: int  #: of the run
    stage: str  #: the name of the stage
    place: ItemPlace  #: of the item


class StageSeeds:
    """The seeds of the calls of one stage.

    Thread-safe.

    Args:
        seed: Of the run: any integer.
        stage: The name of the stage.
    """

    __slots__ = ("_base", "_generators", "seed", "stage")

    def __init__(self, seed: int, stage: str) -> None:
        self.seed = seed
        self.stage = stage
        state = 0
        for word in words_of(seed):
            state = absorb(state, word)
        import hashlib  # late: children start faster without it

        name = hashlib.sha256(b"spdl stage " + stage.encode("utf-8", "surrogatepass")).digest()
        self._base = absorb(state, int.from_bytes(name[:8], "little"))
        # Only a cache: concurrent changes by another thread do no harm.
        self._generators: dict[tuple[int, int], int] = {}

    def at(self, epoch: int, position: int, source: int = 0) -> int:
        """The seed for an item that comes from one position, in ``[0, 2**64)``.

        Args:
            epoch: Any integer.
            position: >= 0, in the order of all ranks.
            source: The number of the source.
        """
        state = self._generators.get((epoch, source))
        if state is None:
            state = self._generator(epoch, source)
        # mix(), inlined: calling it would take a quarter of the total time.
        state = (state + (position + 1) * STEP) & MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        return state ^ (state >> 31)

    def of(self, place: ItemPlace) -> int:
        """The seed for an item at any place. Iterative: places are nested as deeply as the pipeline is long."""
        seeds: list[int] = []
        rest: list[ItemPlace | int | _Count] = [place]
        while rest:
            each = rest.pop()
            if isinstance(each, ItemPosition):
                seeds.append(self.at(each.epoch, each.position, each.source))
            elif isinstance(each, ItemPart):
                rest += (each.number, each.of)
            elif isinstance(each, int):
                seeds[-1] = self.part(seeds[-1], each)
            elif isinstance(each, _Count):
                first = len(seeds) - each.count
                seeds[first:] = [self.joined(seeds[first:])]
            else:
                rest.append(_Count(len(each)))
                rest.extend(reversed(each))
        return seeds[0]

    @staticmethod
    def part(seed: int, number: int) -> int:
        """The seed for an output of a call, from the seed for its input and the number of the output."""
        return mix((seed ^ _PART) + (number + 1) * STEP)

    @staticmethod
    def joined(seeds: Iterable[int]) -> int:
        """The seed for an aggregate, from the seeds for its items, in order."""
        state = _JOIN
        for seed in seeds:
            state = absorb(state, seed)
        return state

    def _generator(self, epoch: int, source: int) -> int:
        state = absorb(self._base, source)
        for word in words_of(epoch):
            state = absorb(state, word)
        if len(self._generators) >= _MAX_KEPT:
            self._generators.clear()
        self._generators[epoch, source] = state
        return state

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.seed, self.stage)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.seed}, {self.stage!r})"


class _Count:
    """The number of seeds to join."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count
