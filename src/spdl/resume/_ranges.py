"""Sets of integers as ranges: stores which positions are done in little memory, for any number of positions.

:class:`Ranges` is a set, as sorted, disjoint, half-open ranges. :class:`RangeChain` is a sequence of ranges with
strides, one after the other. The cost of every operation depends on the number of ranges, not on the number of
integers.
"""

from __future__ import annotations

import operator
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, Final, SupportsIndex, TypeAlias, overload

#: The result of ``Ranges.to_json``.
RangesJson: TypeAlias = list[int | list[int]]

#: How many integers :meth:`Ranges.joined` takes one by one at most: this takes one second and makes 100 MB of JSON.
_MAX_ALONE: Final = 2**22


class Ranges:
    """An immutable set of integers, as sorted and disjoint ranges ``[start, stop)``.

    Args:
        pairs: Ranges in any order, which may overlap, touch or be empty.
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for start, stop in sorted((start, stop) for start, stop in pairs if start < stop):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(stop, merged[-1][1])
            else:
                merged.append((start, stop))
        self._pairs = tuple(merged)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Ranges:
        """The set of these integers, in any order."""
        return cls((number, number + 1) for number in numbers)

    @classmethod
    def joined(cls, parts: Iterable[range]) -> Ranges:
        """The set of the integers of ranges with strides, which do not overlap.

        The interleaved strides of all ranks become one range. Integers without such neighbours are taken one by one.

        Raises:
            OverflowError: More than 2**22 integers would have to be taken one by one.
        """
        pairs: list[tuple[int, int]] = []
        alone: list[range] = []
        by_step: dict[int, list[range]] = {}
        for part in parts:
            if len(part) == 1 or (part and part.step == 1):
                pairs.append((part[0], part[-1] + 1))
            elif part:
                by_step.setdefault(part.step, []).append(part)
        for step, group in by_step.items():
            group.sort(key=operator.itemgetter(0))
            place = 0
            while place < len(group):
                side_by_side = group[place : place + step]
                # Between these, each of `step` neighbours is in one of the ranges.
                low = side_by_side[-1][0]
                high = min(part[-1] for part in side_by_side) + 1
                residues = {part[0] % step for part in side_by_side}
                if len(residues) < step or low >= high:
                    alone.append(group[place])
                    place += 1
                    continue
                pairs.append((low, high))
                for part in side_by_side:
                    alone += _outside(part, low, high)
                place += step
        if sum(map(len, alone)) > _MAX_ALONE:
            raise OverflowError(f"more than {_MAX_ALONE} positions that are not in a row")
        pairs += ((number, number + 1) for part in alone for number in part)
        return cls(pairs)

    @classmethod
    def from_json(cls, value: object) -> Ranges:
        """The set that :meth:`to_json` wrote.

        Raises:
            ValueError: It is not such a list of ascending, separate ranges.
        """
        if not isinstance(value, list):
            raise ValueError(f"ranges must be a list, got {value!r}")
        pairs: list[tuple[int, int]] = []
        for each in value:
            if type(each) is int and pairs and each <= sys.maxsize:
                start = pairs[-1][1] - 1 + each
                stop = start + 1
            else:
                start, stop = _integers(each, 2)
            # ``source[-1]`` would be an item of another position.
            if not 0 <= start < stop or (pairs and start < pairs[-1][1]):
                raise ValueError(f"ranges must be >= 0, ascending, disjoint and not empty, got {value!r}")
            pairs.append((start, stop))
        return cls(pairs)

    def to_json(self) -> RangesJson:
        """``[[start, stop], ...]``, with a plain integer for a range of one.

        This integer is the distance from the previous number in the set: ``[[3, 5], 2, 4]`` is 3, 4, 6, 10. So isolated
        numbers take two or three characters each, however large they are.
        """
        found: RangesJson = []
        last = None
        for start, stop in self._pairs:
            found.append(start - last if last is not None and stop - start == 1 else [start, stop])
            last = stop - 1
        return found

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The ranges, as ``(start, stop)``."""
        return self._pairs

    @property
    def stop(self) -> int:
        """One more than the largest; 0 if the set is empty."""
        return self._pairs[-1][1] if self._pairs else 0

    def count(self) -> int:
        """The number of integers. ``len()`` could not return one beyond ``sys.maxsize``."""
        return sum(stop - start for start, stop in self._pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(start, stop) for start, stop in self._pairs)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        place = bisect_right(self._pairs, number, key=operator.itemgetter(0)) - 1
        return place >= 0 and number < self._pairs[place][1]

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges((*self._pairs, *other._pairs))

    def __sub__(self, other: Ranges) -> Ranges:
        left: list[tuple[int, int]] = []
        place, cuts = 0, other._pairs
        for first, stop in self._pairs:
            start = first
            while place < len(cuts) and cuts[place][1] <= start:
                place += 1
            ahead = place
            while ahead < len(cuts) and cuts[ahead][0] < stop:
                left.append((start, cuts[ahead][0]))
                start = max(start, cuts[ahead][1])
                ahead += 1
            left.append((start, stop))
        return Ranges(left)

    def __and__(self, other: Ranges) -> Ranges:
        return self - (self - other)

    def take(self, count: int) -> tuple[Ranges, Ranges]:
        """Split into the ``count`` smallest (all of them, if there are fewer) and the rest."""
        first: list[tuple[int, int]] = []
        rest: list[tuple[int, int]] = []
        for start, stop in self._pairs:
            middle = min(stop, start + count)
            first.append((start, middle))
            rest.append((middle, stop))
            count -= middle - start
        return Ranges(first), Ranges(rest)

    def every(self, step: int, first: int = 0) -> RangeChain:
        """The integers at places ``first``, ``first + step``, ... in ascending order: ``sorted(self)[first::step]``."""
        found: list[range] = []
        for start, stop in self._pairs:
            size = stop - start
            if first < size:
                own = range(start + first, stop, step)
                found.append(own)
                first = own[-1] + step - stop
            else:
                first -= size
        return RangeChain(_with_longest_strides(found))

    def __eq__(self, other: object) -> bool:
        return self._pairs == other._pairs if isinstance(other, Ranges) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"Ranges({list(self._pairs)})"


def numbers_to_json(numbers: Sequence[int], origin: int = 0) -> RangesJson:
    """``Ranges.of(number - origin for number in numbers).to_json()``, in a tenth of the time.

    Used to save pending positions, perhaps in every training step.

    Args:
        numbers: Ascending.
        origin: Subtracted from each number.
    """
    if not numbers:
        return []
    first, last = numbers[0] - origin, numbers[-1] - origin
    if last - first == len(numbers) - 1:
        return [[first, last + 1]]
    distances = list(map(operator.sub, numbers[1:], numbers))
    if 1 not in distances:
        return [[first, first + 1], *distances]
    found: RangesJson = [[first, first + 1]]
    append = found.append
    for number, distance in zip(numbers[1:], distances, strict=True):
        if distance != 1:
            append(distance)
        elif isinstance(newest := found[-1], list):
            newest[1] += 1
        else:
            start = number - 1 - origin
            found[-1] = [start, start + 2]
    return found


class RangeChain(Sequence[int]):
    """Ascending integers, as ranges with strides, one after the other. Immutable; any of them is found in O(log).

    Args:
        ranges: Ranges with positive steps, each beginning after the end of the previous one. Empty ones are removed.

    Raises:
        ValueError: They do not ascend.
    """

    __slots__ = ("_ends", "_ranges")

    def __init__(self, ranges: Iterable[range] = ()) -> None:
        kept: list[range] = []
        for each in ranges:
            if not each:
                continue
            if each.step < 1 or (kept and each[0] <= kept[-1][-1]):
                raise ValueError(f"ranges must ascend, got {each} after {kept[-1] if kept else 'nothing'}")
            kept.append(each)
        self._ranges = tuple(kept)
        # The number of integers up to the end of each.
        self._ends = list(accumulate(len(each) for each in kept))

    @classmethod
    def from_json(cls, value: object) -> RangeChain:
        """The chain that :meth:`to_json` wrote.

        Raises:
            ValueError: It is not a list of ``[start, stop, stride]`` that ascend.
        """
        if not isinstance(value, list):
            raise ValueError(f"ranges must be a list, got {value!r}")
        ranges = [range(*_integers(triple, 3)) for triple in value]
        if not all(ranges) or any(each[0] < 0 or each[-1] < 0 for each in ranges):
            raise ValueError(f"ranges must be >= 0 and not empty, got {value!r}")
        return cls(ranges)

    def to_json(self) -> list[list[int]]:
        """``[[start, stop, stride], ...]``."""
        return [[each.start, each.stop, each.step] for each in self._ranges]

    @property
    def ranges(self) -> tuple[range, ...]:
        """The ranges, none of them empty."""
        return self._ranges

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._ranges)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> RangeChain: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | RangeChain:
        """The integer at an index; for a slice with a positive step, a chain."""
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        place = operator.index(index)
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(f"place {operator.index(index)} is out of range for {len(self)} positions")
        number = bisect_right(self._ends, place)
        return self._ranges[number][place - (self._ends[number - 1] if number else 0)]

    def _slice(self, start: int, stop: int, step: int) -> RangeChain:
        if step < 1:
            raise ValueError(f"step must be >= 1, got {step}")
        found: list[range] = []
        begin = 0
        for each, end in zip(self._ranges, self._ends, strict=True):
            if start >= stop:
                break
            if start < end:
                own = each[start - begin : stop - begin : step]
                found.append(own)
                start += len(own) * step
            begin = end
        return RangeChain(found)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The index of an integer.

        Raises:
            ValueError: It is not in the chain, or its index is not in ``[start, stop)``.
        """
        number = bisect_right(self._ranges, value, key=operator.itemgetter(0)) - 1
        if number >= 0 and value in self._ranges[number]:
            place = (self._ends[number - 1] if number else 0) + self._ranges[number].index(value)
            if place in range(*slice(start, stop).indices(len(self))):
                return place
        raise ValueError(f"{value!r} is not among these positions")

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int):
            return False
        number = bisect_right(self._ranges, value, key=operator.itemgetter(0)) - 1
        return number >= 0 and value in self._ranges[number]

    def __eq__(self, other: object) -> bool:
        return self._ranges == other._ranges if isinstance(other, RangeChain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._ranges)

    def __repr__(self) -> str:
        return f"RangeChain({list(self._ranges)})"


def _with_longest_strides(ranges: list[range]) -> Iterator[range]:
    """The same integers, with evenly spaced single ones merged into one range."""
    pending: range | None = None
    for each in ranges:
        if len(each) != 1:
            if pending is not None:
                yield pending
                pending = None
            yield each
        elif pending is None:
            pending = each
        elif len(pending) == 1:
            pending = range(pending[0], each[0] + 1, each[0] - pending[0])
        elif each[0] == pending[-1] + pending.step:
            pending = range(pending[0], each[0] + 1, pending.step)
        else:
            yield pending
            pending = each
    if pending is not None:
        yield pending


def _outside(part: range, low: int, high: int) -> list[range]:
    """The parts of a range below ``low``, and at ``high`` or above."""
    first = max(0, -((part[0] - low) // part.step))
    last = max(0, -((part[0] - high) // part.step))
    return [part[:first], part[last:]]


def _integers(value: object, count: int) -> list[int]:
    if not isinstance(value, list) or len(value) != count:
        raise ValueError(f"a range must be a list of {count} integers, got {value!r}")
    for number in value:
        if not isinstance(number, int) or isinstance(number, bool) or abs(number) > sys.maxsize:
            raise ValueError(f"a range must be a list of {count} integers, got {value!r}")
    return value
