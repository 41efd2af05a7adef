"""Random numbers per item: seeds that depend only on the position of an item, and generators made from them.

The seeds of a stage's calls are functions of the run's seed, the stage, and the place of the item, which is a tree,
like its origin. Its leaves are positions of sources. If a call has several outputs, each one is a part of the call's
input. An aggregate is the tuple of its items' places. The seed of a position is an output of SplitMix64, from the
generator that run seed, stage name, source number and epoch select. So all seeds of a stage differ within an epoch, and
otherwise they collide no more often than random numbers. The seeds of parts and aggregates are computed from those of
their inputs by the same mixing.

SplitMix64 is 64-bit random numbers, each computed from its position in constant time: Steele, Lea and Flood, "Fast
splittable pseudorandom number generators" (OOPSLA 2014), with the finaliser of Vigna's reference implementation. The
numbers are the same on every machine and will never change; the tests check some of them.

Used by all packages. Imports NumPy and torch only for their generators.
"""

from __future__ import annotations

import operator
import os
import random
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spdl._numbers import as_int

if TYPE_CHECKING:
    import numpy as np
    import torch


MASK: Final = 2**64 - 1
#: The increment of the generator.
STEP: Final = 0x9E3779B97F4A7C15
#: The multipliers of its finaliser.
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(state: int) -> int:
    """The output of the generator for a state. Only the lowest 64 bits count: a bijection of these."""
    state &= MASK
    state = ((state ^ (state >> 30)) * _FIRST) & MASK
    state = ((state ^ (state >> 27)) * _SECOND) & MASK
    return state ^ (state >> 31)


def absorb(state: int, word: int) -> int:
    """The state of another generator for a 64-bit word. Different words give different states."""
    return mix(state + word + STEP)


def words_of(number: int) -> list[int]:
    """The number in two's complement, as the fewest 64-bit words that hold it with its sign; lowest word first."""
    count = number.bit_length() // 64 + 1
    return [(number >> (64 * place)) & MASK for place in range(count)]


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


class Rng:
    """Random numbers for one item in one stage: the same wherever and whenever the op runs for it.

    They depend on the run's seed, the epoch, the item's position in the order of all ranks, and the name of the stage.
    They do not depend on threads, processes, the order of calls, the number of ranks, or on whether the run was
    interrupted. Global generators are neither used nor changed.

    .. code-block:: python

        def augment(image, rng):
            top, left = rng.numpy().integers(0, 32, 2)
            return image[top : top + 224, left : left + 224]

    Generators are created on first use. All start from the same seed, so use only one of them for an item. You may keep
    a generator: it continues its own sequence, and no later item gets it.

    Args:
        seed: In ``[0, 2**64)``.
        key: The values that the seed was computed from; ``None`` if unknown.

    Raises:
        TypeError: The seed is not an integer.
        ValueError: It is out of range.
    """

    __slots__ = ("_key", "_numpy", "_python", "_seed", "_torch")

    def __init__(self, seed: int, key: RngKey | None = None) -> None:
        if type(seed) is not int:  # the usual case costs nothing
            seed = as_int("seed", seed)
        if not 0 <= seed <= MASK:
            raise ValueError(f"seed must be in range [0, 2**64), got {seed}")
        self._seed = seed
        self._key = key
        self._python: random.Random | None = None
        self._numpy: np.random.Generator | None = None
        self._torch: torch.Generator | None = None

    @property
    def seed(self) -> int:
        """A random number in ``[0, 2**64)``, to seed other generators. Different for each item."""
        return self._seed

    @property
    def key(self) -> RngKey | None:
        """What the seed was computed from: the run's seed, the name of the stage, and the place of the item."""
        return self._key

    def python(self) -> random.Random:
        """``random.Random(seed)``: the same object each time."""
        if self._python is None:
            self._python = random.Random(self._seed)
        return self._python

    def numpy(self) -> np.random.Generator:
        """``numpy.random.Generator(numpy.random.Philox(key=seed))``: the same object each time.

        Creating one takes about 20 microseconds, resetting it 2. So each thread keeps one and resets it for the next
        item, unless other code still refers to it or to its bit generator.
        """
        if self._numpy is None:
            self._numpy = _numpy_generator(self._seed)
        return self._numpy

    def torch(self) -> torch.Generator:
        """``torch.Generator().manual_seed(seed)``, for the CPU: the same object each time."""
        if self._torch is None:
            import torch

            self._torch = torch.Generator().manual_seed(self._seed)
        return self._torch

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy starts again with the first number.
        return type(self), (self._seed, self._key)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._seed})" if self._key is None else f"{type(self).__name__}(key={self._key})"
        )


class _Reusable:
    """A NumPy generator that can be reset to the start of the sequence of any seed."""

    __slots__ = ("_bit_generator", "_generator", "_idle", "_key", "_probe", "_state")

    def __init__(self) -> None:
        import numpy as np

        self._bit_generator = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bit_generator)
        # A new key, and everything else as at the start. Setting the state copies the numbers.
        self._state = self._bit_generator.state
        self._key = self._state["state"]["key"]
        # No other code can refer to this object.
        self._probe = object()
        self._idle = self._num_others()

    def _num_others(self) -> int:
        # Compares with the references to the probe, so it does not matter which references the interpreter itself
        # counts. The generator's own references to its bit generator are counted when no other code can have any.
        own = sys.getrefcount(self._probe)
        return sys.getrefcount(self._generator) + sys.getrefcount(self._bit_generator) - 2 * own

    def is_idle(self) -> bool:
        """Whether no other code refers to the generator or to its bit generator."""
        return self._num_others() == self._idle

    def begin(self, seed: int) -> np.random.Generator:
        self._key[0] = seed
        self._bit_generator.state = self._state
        return self._generator


# One per thread, so that items of different threads never share one, and no lock is needed.
_of_thread = threading.local()


def _numpy_generator(seed: int) -> np.random.Generator:
    reusable: _Reusable | None = getattr(_of_thread, "reusable", None)
    if reusable is None or not reusable.is_idle():
        reusable = _of_thread.reusable = _Reusable()
    return reusable.begin(seed)
