"""``MergeIterator``: several iterables as one, round-robin or drawn by weights."""

import base64
import math
import random
import struct
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from operator import length_hint
from typing import Any, Generic, TypeVar

from spdl._numbers import as_int
from spdl.resume._values import ResumeError, is_stateful

from ._states import Counted, go_on, make_state, read_state

T = TypeVar("T")

#: Special values of ``stop_after`` in the public interface.
_ALL_EXHAUSTED, _FIRST_EXHAUSTED = 0, -1


class MergeIterator(Generic[T]):
    """The items of several iterables: round-robin, or drawn at random by ``weights``.

    .. code-block:: python

        list(MergeIterator([[0, 1], [10, 11, 12]]))                    # [0, 10, 1, 11, 12]
        MergeIterator([sounds, videos], weights=[9, 1], stop_after=1000)

    Each ``iter()`` starts again, with the same draws. With ``state_dict()`` and ``load_state_dict(state)``, the next
    iteration resumes where the newest one is. For a mixture that can be indexed, see :class:`spdl.source.KeyedMix`.

    Args:
        iterables: Iterables to merge.
        weights: Relative frequency of each. Iterables of weight 0 are removed, also from ``.iterables`` and
            ``.weights``. ``None``: round-robin.
        stop_after: 0: stop when all iterables are exhausted. ``n`` > 0: stop after ``n`` items, or when all are
            exhausted. -1: stop when the next item should come from an exhausted iterable. With 0 and ``n``, exhausted
            iterables are no longer drawn, and the others keep their exact ratios, because weights are converted to
            integers.
        seed: Seed of the draws.

    Raises:
        ValueError: There are no iterables; ``stop_after`` < -1; the number of weights is wrong; weights are negative,
            NaN, infinite or not numbers, or their sum is 0.
        TypeError: ``stop_after`` or ``seed`` is not an integer.
    """

    def __init__(
        self,
        iterables: Sequence[Iterable[T]],
        *,
        weights: Sequence[float] | None = None,
        stop_after: int = 0,
        seed: int = 0,
    ) -> None:
        self.iterables: list[Iterable[T]] = list(iterables)
        if not self.iterables:
            raise ValueError("iterables must have at least one, got none")
        self.weights: list[float] | None = None
        if weights is not None:
            self.weights = _check_weights(weights, len(self.iterables))
            self.iterables = [iterable for iterable, weight in zip(self.iterables, self.weights, strict=True) if weight]
            self.weights = [weight for weight in self.weights if weight]
        self.stop_after = as_int("stop_after", stop_after, _FIRST_EXHAUSTED)
        self.seed = as_int("seed", seed)

        self._newest: _Merging[T] | None = None
        self._resumed: Mapping[str, Any] | None = None

    def __iter__(self) -> Iterator[T]:
        resumed, self._resumed = self._resumed, None
        merging = self._newest = _Merging(self.iterables, self._integers(), self.seed, resumed)
        return merging.items(self.stop_after)

    def _integers(self) -> list[int] | None:
        return None if self.weights is None else _as_integers(self.weights)

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "iterables": len(self.iterables),
            "weights": self._integers(),
            "stop_after": self.stop_after,
            "seed": self.seed,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the newest iteration: whose turn it is or the state of the draws, and each iterable's.

        For an iterable with ``state_dict``, this is its state; for others, the number of items taken. An iteration that
        has ended has the same state as one that has not begun.
        """
        progress = self._resumed
        if self._newest is not None and not self._newest.has_ended:
            progress = self._newest.progress()
        return make_state("MergeIterator", **self._fingerprint(), progress=progress)

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Make the next iteration resume from a state; later iterations begin at the start.

        Iterables that have no ``load_state_dict`` and cannot be indexed are read from their start; the items already
        taken are dropped.

        Raises:
            ResumeError: It is not the state of a ``MergeIterator`` with the same arguments. On ``iter()``: an iterable
                has fewer items, or cannot load its part of the state.
        """
        checked = read_state(state, "MergeIterator", **self._fingerprint())
        progress = checked.get("progress")
        if progress is not None:
            _check_progress(progress, len(self.iterables), is_drawn=self.weights is not None)
        self._resumed, self._newest = progress, None

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins at the start, even if it is made during an iteration.
        return {**self.__dict__, "_newest": None}


class _Merging(Generic[T]):
    """One iteration over several iterables, and its position. Iterables are identified by number.

    ``resumed`` is the result of ``progress`` of an earlier one; ``None``: it begins at the start.
    """

    def __init__(
        self, iterables: list[Iterable[T]], weights: list[int] | None, seed: int, resumed: Mapping[str, Any] | None
    ) -> None:
        self._iterables = iterables
        self._weights = weights
        count = len(iterables)
        at_start = {"alive": range(count), "turn": 0, "exhausted": [], "draw": None, "taken": [(0, None)] * count}
        start: Mapping[str, Any] = resumed or at_start
        #: Iterables not known to be exhausted, and the place among them of the next turn.
        self._alive: list[int] = list(start["alive"])
        self._turn: int = start["turn"]
        self._turns: Iterator[Iterator[T]] | None = None
        #: Iterables found to be exhausted in this round.
        self._exhausted: list[int] = list(start["exhausted"])
        self._rng = random.Random(seed)
        if start["draw"] is not None:
            self._rng.setstate(_read_draw(start["draw"]))
        self._sources = [
            Counted(go_on(iterable, count, state), count)
            for iterable, (count, state) in zip(iterables, start["taken"], strict=True)
        ]
        self.has_ended = False

    @property
    def count(self) -> int:
        """The number of items yielded."""
        return sum(source.count for source in self._sources)

    def items(self, stop_after: int) -> Iterator[T]:
        ends_early = stop_after == _FIRST_EXHAUSTED
        items = self._in_turn(ends_early) if self._weights is None else self._drawn(self._weights, ends_early)
        if stop_after > _ALL_EXHAUSTED:
            items = islice(items, min(max(0, stop_after - self.count), sys.maxsize))
        yield from items
        self.has_ended = True

    def _in_turn(self, ends_early: bool) -> Iterator[T]:
        first, exhausted = self._turn, self._exhausted
        while self._alive:
            iterators = [self._sources[number].items for number in self._alive]
            while True:
                # The number of remaining elements tells whose turn it is, without counting.
                self._turns = turns = iter(iterators)
                if first:
                    next(islice(turns, first, first), None)
                    first = 0
                for iterator in turns:
                    try:
                        item = next(iterator)
                    except StopIteration:
                        if ends_early:
                            return
                        exhausted.append(self._alive[self._place() - 1])
                    else:
                        yield item
                if exhausted:
                    break
            self._alive = [number for number in self._alive if number not in exhausted]
            exhausted.clear()

    def _place(self) -> int:
        """The place of the next turn, among the iterables that are not exhausted."""
        return self._turn if self._turns is None else len(self._alive) - length_hint(self._turns)

    def _drawn(self, weights: list[int], ends_early: bool) -> Iterator[T]:
        while self._alive:
            iterators = [self._sources[number].items for number in self._alive]
            if len(iterators) == 1:  # no draw is needed
                yield from iterators[0]
                return
            bounds = list(accumulate(weights[number] for number in self._alive))
            while True:
                chosen = bisect_right(bounds, self._rng.randrange(bounds[-1]))
                try:
                    item = next(iterators[chosen])
                except StopIteration:
                    break
                yield item
            if ends_early:
                return
            del self._alive[chosen]

    def progress(self) -> dict[str, Any]:
        """The position of this iteration, for another iteration to resume from."""
        ids = Counter(map(id, self._iterables))
        taken = []
        for iterable, source in zip(self._iterables, self._sources, strict=True):
            # An iterable that is merged twice has one state but two places.
            is_asked = is_stateful(iterable) and ids[id(iterable)] == 1
            taken.append([source.count, iterable.state_dict() if is_asked else None])  # type: ignore[attr-defined]
        return {
            "alive": list(self._alive),
            "turn": self._place(),
            "exhausted": list(self._exhausted),
            "draw": None if self._weights is None else _write_draw(self._rng),
            "taken": taken,
        }


#: The version of the states of ``random.Random``, and their number of 32-bit words.
_DRAW_VERSION, _DRAW_WORDS = 3, 625


def _write_draw(rng: random.Random) -> str:
    _, words, _ = rng.getstate()
    return base64.b85encode(struct.pack(f"<{_DRAW_WORDS}I", *words)).decode("ascii")


def _read_draw(text: str) -> tuple[int, tuple[int, ...], None]:
    return _DRAW_VERSION, struct.unpack(f"<{_DRAW_WORDS}I", base64.b85decode(text)), None


def _check_progress(progress: Any, count: int, *, is_drawn: bool) -> None:
    try:
        if is_drawn:
            random.Random(0).setstate(_read_draw(progress["draw"]))
        taken = [number for number, _ in progress["taken"]]
        is_good = (
            len(taken) == count
            and all(isinstance(number, int) and number >= 0 for number in taken)
            and {*progress["alive"], *progress["exhausted"]} <= set(range(count))
            and 0 <= progress["turn"] <= count
        )
        if not is_good:
            raise ValueError(f"not of {count} iterables")
    except (KeyError, TypeError, ValueError, struct.error) as exc:
        raise ResumeError(
            "cannot load a state into MergeIterator: its 'progress' is damaged; use an older state"
        ) from exc


def _as_integers(weights: list[float]) -> list[int]:
    """Integers in exactly the same ratios: each float is an integer over a power of two."""
    ratios = [weight.as_integer_ratio() for weight in weights]
    common = max(denominator for _, denominator in ratios)
    whole = [numerator * (common // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole)
    return [number // divisor for number in whole]


def _check_weights(weights: Sequence[float], count: int) -> list[float]:
    given = list(weights)
    if len(given) != count:
        raise ValueError(f"weights must be one for each of the {count} iterables, got {len(given)}")
    checked = [_as_weight(weight, position) for position, weight in enumerate(given)]
    if not any(checked):
        raise ValueError("weights must have a sum > 0, got only zeros: nothing could be drawn")
    return checked


def _as_weight(value: object, position: int) -> float:
    # Text has no __float__, although float() accepts it.
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise ValueError(f"weights must be numbers, got {value!r} at position {position}")
    try:
        weight = float(value)  # type: ignore[arg-type]  # just checked
    except (OverflowError, TypeError, ValueError) as exc:
        raise ValueError(
            f"weights must be numbers that fit into a float, got {value!r} at position {position}"
        ) from exc
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"weights must be finite and >= 0, got {weight} at position {position}")
    return weight
