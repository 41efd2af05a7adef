"""The seeds of a stage's calls: functions of the run's seed, the stage, and the place of the item.

The place of an item is a tree, as its origin is. Its leaves are positions of sources; an output of a call with several
is a part of what the call was given; an aggregate is the tuple of what is in it.

The seed of a position is an output of SplitMix64: of the generator that run seed, stage name, number of the source, and
epoch choose. So in one epoch the seeds of a stage all differ, and in all else they collide no more often than random
numbers. The seeds of parts and of aggregates are computed from those of what they are of, by the same mixing. All this
is part of what is promised: the same on every machine, and in every release.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from ._splitmix import MASK, STEP, absorb, mix, words_of

__all__ = ["ItemPart", "ItemPlace", "ItemPosition", "RngKey", "StageSeeds", "key_of"]

#: Keep parts, aggregates and positions apart: the first digits of pi, as words.
_PART: Final = 0x243F6A8885A308D3
_JOIN: Final = 0x13198A2E03707344
#: Generators kept by a stage, for sources and epochs that are under way.
_MAX_KEPT: Final = 64


class ItemPosition(NamedTuple):
    """A position of a source."""

    epoch: int  #: the number of the pass over the source
    position: int  #: in the order of all ranks
    source: int = 0  #: its number, in a pipeline that merges several
    item: int | str | None = None  #: what the source gave (``key_of``), such as a path; no part of the seed


def key_of(item: object) -> int | str | None:
    """Return the key of what a source gave: itself if it is a number or a text, and of a path the text."""
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
    """One output of a call with several."""

    of: ItemPlace  #: what the call was given
    number: int  #: of the output


ItemPlace: TypeAlias = "ItemPosition | ItemPart | tuple[ItemPlace, ...]"


class RngKey(NamedTuple):
    """All that a seed depends on."""

    seed: int  #: of the run
    stage: str  #: the name of the stage
    place: ItemPlace  #: of the item


class StageSeeds:
    """The seeds of the calls of one stage.

    Any number of threads may use it at once.

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
        # Only a cache: what another thread has removed or added at the same time makes no difference.
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
        # mix(), written out: calling it would cost a quarter of the whole.
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
        """The seed for an output of a call, from the seed for what it was given, and the number of the output."""
        return mix((seed ^ _PART) + (number + 1) * STEP)

    @staticmethod
    def joined(seeds: Iterable[int]) -> int:
        """The seed for an aggregate, from those for its items, in their order."""
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
