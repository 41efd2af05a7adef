"""``KeyedPermutation``: a random order in constant memory; position and value are computed from each other.

Behind it is a cipher, a Feistel network, whose round keys are all that is stored; small sizes are shuffled tables. The
numbers are guaranteed to be the same on every machine and in every release, so no change here may alter them; the tests
check some of them.

Source: the rounds are those of Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom
functions" (SIAM J. Comput. 1988). The two halves are changed alternately, so that they may differ in length (Lucks,
"Faster Luby-Rackoff ciphers", FSE 1996; also FF1 of NIST SP 800-38G). One half has any size and is changed by addition
modulo this size, and values beyond the domain go through again until they are inside; both from Black and Rogaway,
"Ciphers with arbitrary finite domains" (CT-RSA 2002). Shuffling datasets in this way is from Mitchell et al.,
"Bandwidth-optimal random shuffling for GPUs" (ACM Trans. Parallel Comput. 2022). The round function is a multiplicative
hash like MurmurHash3's finaliser, with a different multiplier in each round. Keys come from SHAKE-256 (FIPS 202).

This is made to shuffle well; it is not cryptographically secure.
"""

from __future__ import annotations

import hashlib
import operator
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from spdl._numbers import as_int

from ._sampler import as_position, check_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Chosen by measurement. Over 400 000 keys, the differences between values at pairs of positions are not uniform after
#: 4 rounds for n below 10 000 (chi-square, 30 to 50 standard deviations off), but are uniform for every n after 6 and 8
#: rounds. ``tests/source/test_keyed_uniform.py`` has such tests.
NUM_ROUNDS = 8

_MASK = 2**32 - 1
# The last multiplier of MurmurHash3's finaliser for 32 bits.
_MULTIPLIER = 0xC2B2AE35


@dataclass(frozen=True, slots=True)
class Feistel:
    """A permutation of ``range(num_left << right_bits)``, on pairs of ``left < num_left`` and ``right_bits`` bits.

    ``num_left`` is at most 2**31 and ``right_bits`` at most 32, so that each half fits into 32 bits. ``keys`` has two
    words for each round: the first is combined with a half by exclusive or; the second, which is odd, multiplies it.
    """

    num_left: int
    right_bits: int
    keys: tuple[tuple[int, int], ...]

    def encrypt(self, value: int) -> int:
        num_left, right_bits = self.num_left, self.right_bits
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        shift = 32 - right_bits
        keys = iter(self.keys)
        for (add, multiply), (next_add, next_multiply) in zip(keys, keys, strict=True):
            mixed = ((right ^ add) * multiply) & _MASK
            left += ((((mixed ^ (mixed >> 16)) * _MULTIPLIER) & _MASK) * num_left) >> 32
            if left >= num_left:
                left -= num_left
            mixed = ((left ^ next_add) * next_multiply) & _MASK
            right ^= (((mixed ^ (mixed >> 16)) * _MULTIPLIER) & _MASK) >> shift
        return left << right_bits | right

    def decrypt(self, value: int) -> int:
        num_left, right_bits = self.num_left, self.right_bits
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        shift = 32 - right_bits
        keys = iter(reversed(self.keys))
        for (add, multiply), (next_add, next_multiply) in zip(keys, keys, strict=True):
            mixed = ((left ^ add) * multiply) & _MASK
            right ^= (((mixed ^ (mixed >> 16)) * _MULTIPLIER) & _MASK) >> shift
            mixed = ((right ^ next_add) * next_multiply) & _MASK
            left -= ((((mixed ^ (mixed >> 16)) * _MULTIPLIER) & _MASK) * num_left) >> 32
            if left < 0:
                left += num_left
        return left << right_bits | right

    def encrypt_array(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Encrypt each element of an array: ``(n,)`` to a new ``(n,)``."""
        import numpy as np

        right_bits = np.uint64(self.right_bits)
        left = (values >> right_bits).astype(np.uint32)
        right = (values & np.uint64((1 << self.right_bits) - 1)).astype(np.uint32)
        num_left, bits_of_word = np.uint64(self.num_left), np.uint64(32)
        modulus, shift = np.uint32(self.num_left), np.uint32(32 - self.right_bits)
        mixed, high = np.empty_like(left), np.empty_like(left)
        wide = np.empty_like(values)
        for number, (add, multiply) in enumerate(self.keys):
            np.bitwise_xor(left if number % 2 else right, np.uint32(add), out=mixed)
            np.multiply(mixed, np.uint32(multiply), out=mixed)
            np.right_shift(mixed, np.uint32(16), out=high)
            np.bitwise_xor(mixed, high, out=mixed)
            np.multiply(mixed, np.uint32(_MULTIPLIER), out=mixed)
            if number % 2:
                np.right_shift(mixed, shift, out=mixed)
                np.bitwise_xor(right, mixed, out=right)
            else:
                np.multiply(mixed, num_left, out=wide, dtype=np.uint64)
                np.right_shift(wide, bits_of_word, out=wide)
                np.add(left, wide, out=left, casting="unsafe")
                # For a sum below the modulus, the subtraction wraps around to a larger number, so the minimum keeps it.
                np.subtract(left, modulus, out=high)
                np.minimum(left, high, out=left)
        joined = left.astype(np.uint64)
        joined <<= right_bits
        joined |= right
        return joined


def make_feistel(n: int, key: tuple[int, ...]) -> Feistel:
    """Return the cipher on the smallest domain of this form that contains ``range(n)``, for ``n`` up to 2**63.

    Less than one in ``num_left`` of the domain's values is ``>= n``.
    """
    bits = max((n - 1).bit_length(), 2)
    right_bits = bits - bits // 2
    words = _words(n, key, 2 * NUM_ROUNDS)
    keys = tuple((words[place], words[place + 1] | 1) for place in range(0, 2 * NUM_ROUNDS, 2))
    return Feistel(-(-n >> right_bits), right_bits, keys)


def shuffled_table(n: int, key: tuple[int, ...]) -> list[int]:
    """Return a whole permutation of ``range(n)``: Fisher and Yates' shuffle (Durstenfeld, CACM 1964, algorithm 235).

    A draw below ``bound`` is the high part of a 64-bit word times ``bound``; its bias is less than ``bound / 2**64``.
    """
    table = list(range(n))
    words = _words(n, key, 2 * n)
    for last in range(n - 1, 0, -1):
        word = words[2 * last] << 32 | words[2 * last + 1]
        chosen = word * (last + 1) >> 64
        table[last], table[chosen] = table[chosen], table[last]
    return table


def _words(n: int, key: tuple[int, ...], count: int) -> list[int]:
    """Pseudo-random 32-bit words that are a function of ``n`` and the key."""
    # In hexadecimal, for which Python has no length limit; with separators, so that (1, 23) differs from (12, 3).
    text = ",".join(f"{number:x}" for number in (n, *key))
    stream = hashlib.shake_256(b"spdl keyed permutation " + text.encode("ascii")).digest(4 * count)
    return [int.from_bytes(stream[place : place + 4], "little") for place in range(0, 4 * count, 4)]


_MAX_SIZE = 2**63 - 1
#: Up to this size, all values are drawn and stored (a few KB). That is exactly uniform and no slower. A cipher whose
#: halves have fewer than five bits would need more rounds.
_MAX_TABLE = 1024
#: Block sizes for computing values with NumPy. The first block is small, because the first value waits for all of it.
#: Later blocks are large enough to make NumPy's cost per value small, and small enough for the processor's cache.
_FIRST_BLOCK, _MAX_BLOCK = 512, 8192


class _Values(Sequence[int]):
    """Values of which each occurs once."""

    __slots__ = ()

    @abstractmethod
    def index_of(self, value: SupportsIndex) -> int: ...

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Same as :meth:`index_of`, for positions in ``[start, stop)``: the interface of sequences."""
        if _as_number(value) is None:
            raise ValueError(f"{value!r} is not in {self!r}")
        position = self.index_of(value)
        if position not in range(*slice(start, stop).indices(len(self))):
            raise ValueError(f"value {value} is not in [{start}, {stop}): it is at {position}")
        return position

    def count(self, value: Any) -> int:
        """Return 1 if the value is among these, else 0."""
        return int(value in self)


class KeyedPermutation(_Values):
    """The integers ``0 .. n - 1`` in a pseudo-random order that depends only on the key, in constant memory.

    ``permutation[position]`` is a value, and ``permutation.index_of(value)`` is its position; each is computed without
    the other values. The order is the same on every machine, with or without NumPy, and will not change. Over all keys,
    all orders are equally likely as far as can be measured (for ``n`` up to 1024 by construction; for larger ``n``, see
    the source). Not cryptographically secure: the order can be guessed.

    .. code-block:: python

        order = KeyedPermutation(10**9, key=(seed, epoch))
        order[0], order[-1]
        mine = order[rank::world_size]  # a view, also in constant memory
        for index in mine[:1000]:
            ...

    Iterating computes blocks of values with NumPy if it can be imported (some 60 ns each), else one by one (some
    microseconds each); the values are Python ``int`` in either case. Thread-safe.

    Args:
        n: Number of integers, 1 to 2**63 - 1.
        key: One or several integers of any size, such as a seed, or a seed and an epoch. ``5`` is the same as ``(5,)``.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``n`` is out of range, or the key is empty.

    Algorithm: a Feistel network of eight rounds on a domain slightly larger than ``n``; values ``>= n`` go through it
    again. For ``n`` up to 1024: a table shuffled by Fisher and Yates. The source names the papers.
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
        """The number of integers."""
        return self._n

    @property
    def key(self) -> tuple[int, ...]:
        """The key that determines the order."""
        return self._key

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> PermutationSlice: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | PermutationSlice:
        """The value at a position; for a slice, a view in constant memory, which can be sliced again."""
        if isinstance(index, slice):
            return PermutationSlice(self, range(self._n)[index])
        return self._value_at(as_position(index, self._n, "values"))

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
            TypeError: The value is not an integer.
            ValueError: The value is not in ``range(n)``.
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

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is a permutation with the same ``n`` and key."""
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
            import numpy as np  # noqa: F401  # only to see whether it is installed
        except ImportError:
            return map(self._value_at, positions)
        return chain.from_iterable(self._blocks(positions))

    def _blocks(self, positions: range) -> Iterator[list[int]]:
        import numpy as np

        start, size = 0, _FIRST_BLOCK
        while start < len(positions):
            own = positions[start : start + size]
            listed: list[int] = self._values_of(np.arange(len(own), dtype=np.int64) * own.step + own.start).tolist()
            yield listed
            start += size
            size = min(2 * size, _MAX_BLOCK)

    def _values_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values at several positions, which must be in range, in any order."""
        import numpy as np

        if self._table is not None:
            return np.array(self._table, np.int64)[positions]
        cipher = self._cipher
        assert cipher is not None
        values = cipher.encrypt_array(positions.view(np.uint64))
        beyond = np.flatnonzero(values >= self._n)
        while beyond.size:
            again = cipher.encrypt_array(values[beyond])
            values[beyond] = again
            beyond = beyond[again >= self._n]
        return values.view(np.int64)


class PermutationSlice(_Values):
    """A slice of a :class:`KeyedPermutation`: a view of evenly spaced positions."""

    __slots__ = ("_permutation", "_positions")

    def __init__(self, permutation: KeyedPermutation, positions: range) -> None:
        self._permutation = permutation
        self._positions = positions

    @property
    def permutation(self) -> KeyedPermutation:
        """The permutation that this is a slice of."""
        return self._permutation

    @property
    def positions(self) -> range:
        """The positions in the permutation."""
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
        position = as_position(index, len(self._positions), "values")
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
            TypeError: The value is not an integer.
            ValueError: The value is not in this slice.
        """
        position = self._permutation.index_of(value)
        if position not in self._positions:
            raise ValueError(f"value {operator.index(value)} is not in this slice: it is at {position}")
        return self._positions.index(position)

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is a slice with the same positions of an equal permutation."""
        if not isinstance(other, PermutationSlice):
            return NotImplemented
        return self._permutation == other._permutation and self._positions == other._positions

    def __hash__(self) -> int:
        return hash((self._permutation, self._positions))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._permutation, self._positions)

    def __repr__(self) -> str:
        # A range that counts down to position 0 has stop -1; in a slice, -1 would mean the last position.
        own = self._positions
        stop = None if own.stop < 0 else own.stop
        return f"{self._permutation!r}[{own.start}:{'' if stop is None else stop}:{own.step}]"


def _as_number(value: object) -> int | None:
    try:
        return operator.index(value)  # type: ignore[arg-type]  # the except clause is the check
    except TypeError:
        return None
