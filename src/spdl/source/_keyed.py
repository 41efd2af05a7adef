"""A random order of any number of items that takes no memory: position and value are computed from each other."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, SupportsIndex, overload

from ._arguments import as_int
from ._feistel import Feistel, make_feistel, shuffled_table
from ._share import check_size

__all__ = ["KeyedPermutation"]

_MAX_SIZE = 2**63 - 1
#: Up to here all values are drawn and kept, a few KB: exactly uniform, and no slower. Halves of fewer than five bits
#: would need more rounds than larger ones.
_MAX_TABLE = 1024
#: Values computed at a time with NumPy: the first block small, since the first value waits for all of it, then enough
#: that calling NumPy costs little for each, and little enough that the block stays in the processor's cache.
_FIRST_BLOCK, _MAX_BLOCK = 512, 8192


class KeyedPermutation(Sequence[int]):
    """The integers ``0 .. n - 1`` in a pseudo-random order that the key alone decides, in constant memory.

    ``permutation[position]`` is a value, ``permutation.index_of(value)`` its position; neither needs the others. The
    order is the same on every machine, with NumPy or without, and will not change. Over the keys, all orders are
    equally likely as far as can be measured (for ``n`` up to 1024 by construction; beyond, see the source). It is not a
    secret: do not use it where somebody gains by guessing.

    .. code-block:: python

        order = KeyedPermutation(10**9, key=(seed, epoch))
        order[0], order[-1]
        mine = order[rank::world_size]  # a view, which takes no memory either
        for index in mine[:1000]:
            ...

    Iterating computes blocks of values with NumPy if it can be imported (some 60 ns each), else one by one (some
    microseconds each); the values are Python's ``int`` in either case. Any number of threads may use it at once.

    Args:
        n: How many, 1 to 2**63 - 1.
        key: One or several integers of any size, such as a seed, or a seed and an epoch. ``5`` is the same as ``(5,)``.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``n`` is out of range, or the key is empty.

    Algorithm: a Feistel network of eight rounds on a domain a little larger than ``n``, values beyond ``n`` sent
    through again; up to 1024, a table by Fisher and Yates. The papers are named in the module ``_feistel`` beside this.
    """

    __slots__ = ("_cipher", "_key", "_n", "_table")

    def __init__(self, n: int, key: int | tuple[int, ...]) -> None:
        self._n = check_size(n)
        if self._n > _MAX_SIZE:
            raise ValueError(f"n, the number of items, must be <= 2**63 - 1, got {self._n}")
        parts = key if isinstance(key, tuple) else (key,)
        if not parts:
            raise ValueError("key must have at least one integer, got ()")
        self._key = tuple(as_int("key", part) for part in parts)
        self._table: list[int] | None = None
        self._cipher: Feistel | None = None
        if self._n <= _MAX_TABLE:
            self._table = shuffled_table(self._n, self._key)
        else:
            self._cipher = make_feistel(self._n, self._key)

    @property
    def n(self) -> int:
        """How many integers there are."""
        return self._n

    @property
    def key(self) -> tuple[int, ...]:
        """What decides their order."""
        return self._key

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> PermutationSlice: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | PermutationSlice:
        """The value at a position; for a slice, a view of its positions, without memory, that can be sliced again."""
        if isinstance(index, slice):
            return PermutationSlice(self, range(self._n)[index])
        return self._value_at(_position(index, self._n))

    def __iter__(self) -> Iterator[int]:
        return self._values_at(range(self._n))

    def __reversed__(self) -> Iterator[int]:
        return self._values_at(range(self._n - 1, -1, -1))

    def __contains__(self, value: object) -> bool:
        number = _as_number(value)
        return number is not None and 0 <= number < self._n

    def index_of(self, value: SupportsIndex) -> int:
        """Get the position of a value: ``permutation[permutation.index_of(value)] == value``.

        Raises:
            TypeError: It is not an integer.
            ValueError: It is not in ``range(n)``.
        """
        number = operator.index(value)
        if not 0 <= number < self._n:
            raise ValueError(f"value must be in range [0, {self._n}), got {number}")
        if self._table is not None:
            return self._table.index(number)
        cipher = self._cipher
        assert cipher is not None
        number = cipher.decrypt(number)
        while number >= self._n:
            number = cipher.decrypt(number)
        return number

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """As :meth:`index_of`, within ``[start, stop)``, as of other sequences."""
        return _index_within(self, value, start, stop)

    def count(self, value: Any) -> int:
        """1 if the value is in ``range(n)``, else 0."""
        return int(value in self)

    def __eq__(self, other: object) -> bool:
        """Whether the other is a permutation of as many with the same key."""
        if not isinstance(other, KeyedPermutation):
            return NotImplemented
        return self._n == other._n and self._key == other._key

    def __hash__(self) -> int:
        return hash((self._n, self._key))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._n, self._key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._n}, key={self._key[0] if len(self._key) == 1 else self._key})"

    def _value_at(self, position: int) -> int:
        if self._table is not None:
            return self._table[position]
        cipher = self._cipher
        assert cipher is not None
        value = cipher.encrypt(position)
        while value >= self._n:
            value = cipher.encrypt(value)
        return value

    def _values_at(self, positions: range) -> Iterator[int]:
        if self._table is not None:
            return map(self._table.__getitem__, positions)
        if len(positions) < _FIRST_BLOCK:  # not worth the import
            return map(self._value_at, positions)
        try:
            import numpy as np  # noqa: F401  # asked only whether it is there
        except ImportError:
            return map(self._value_at, positions)
        return chain.from_iterable(self._blocks(positions))

    def _blocks(self, positions: range) -> Iterator[list[int]]:
        start, size = 0, _FIRST_BLOCK
        while start < len(positions):
            yield self._block(positions[start : start + size])
            start += size
            size = min(2 * size, _MAX_BLOCK)

    def _block(self, positions: range) -> list[int]:
        import numpy as np

        cipher = self._cipher
        assert cipher is not None
        offsets = np.arange(len(positions), dtype=np.int64) * positions.step
        values = cipher.encrypt_array((offsets + positions.start).view(np.uint64))
        beyond = np.flatnonzero(values >= self._n)
        while beyond.size:
            again = cipher.encrypt_array(values[beyond])
            values[beyond] = again
            beyond = beyond[again >= self._n]
        listed: list[int] = values.tolist()
        return listed


class PermutationSlice(Sequence[int]):
    """Some positions of a :class:`KeyedPermutation`, evenly spaced: what slicing one gives."""

    __slots__ = ("_permutation", "_positions")

    def __init__(self, permutation: KeyedPermutation, positions: range) -> None:
        self._permutation = permutation
        self._positions = positions

    @property
    def permutation(self) -> KeyedPermutation:
        """What this is a part of."""
        return self._permutation

    @property
    def positions(self) -> range:
        """The positions there."""
        return self._positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> PermutationSlice: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | PermutationSlice:
        if isinstance(index, slice):
            return PermutationSlice(self._permutation, self._positions[index])
        position = _position(index, len(self._positions))
        return self._permutation._value_at(self._positions[position])

    def __iter__(self) -> Iterator[int]:
        return self._permutation._values_at(self._positions)

    def __reversed__(self) -> Iterator[int]:
        return self._permutation._values_at(self._positions[::-1])

    def __contains__(self, value: object) -> bool:
        number = _as_number(value)
        if number is None or number not in self._permutation:
            return False
        return self._permutation.index_of(number) in self._positions

    def index_of(self, value: SupportsIndex) -> int:
        """Get the position of a value in this slice.

        Raises:
            TypeError: It is not an integer.
            ValueError: It is not in this slice.
        """
        position = self._permutation.index_of(value)
        if position not in self._positions:
            raise ValueError(f"value {operator.index(value)} is not in this slice: it is at {position}")
        return self._positions.index(position)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """As :meth:`index_of`, within ``[start, stop)``, as of other sequences."""
        return _index_within(self, value, start, stop)

    def count(self, value: Any) -> int:
        """1 if the value is in this slice, else 0."""
        return int(value in self)

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same positions of an equal permutation."""
        if not isinstance(other, PermutationSlice):
            return NotImplemented
        return self._permutation == other._permutation and self._positions == other._positions

    def __hash__(self) -> int:
        return hash((self._permutation, self._positions))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._permutation, self._positions)

    def __repr__(self) -> str:
        # The stop of a range that counts down to the first position is -1, which a slice would take for the last.
        own = self._positions
        stop = None if own.stop < 0 else own.stop
        return f"{self._permutation!r}[{own.start}:{'' if stop is None else stop}:{own.step}]"


def _position(index: SupportsIndex, length: int) -> int:
    position = operator.index(index)
    if position < 0:
        position += length
    if not 0 <= position < length:
        raise IndexError(f"position {operator.index(index)} is out of range for {length} values")
    return position


def _as_number(value: object) -> int | None:
    try:
        return operator.index(value)  # type: ignore[arg-type]  # the except clause is the check
    except TypeError:
        return None


def _index_within(of: KeyedPermutation | PermutationSlice, value: Any, start: int, stop: int | None) -> int:
    if _as_number(value) is None:
        raise ValueError(f"{value!r} is not in {of!r}")
    position = of.index_of(value)
    if position not in range(*slice(start, stop).indices(len(of))):
        raise ValueError(f"value {value} is not in [{start}, {stop}): it is at {position}")
    return position
