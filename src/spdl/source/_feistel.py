"""The cipher under keyed permutations: a Feistel network, and shuffled tables for what is small.

Nothing is stored but the round keys, and position and value are found from each other by as many rounds. The numbers
are part of what is promised (the same on every machine and in every release), so nothing here may change them; the
tests hold some of them.

Source: the rounds are those of Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom
functions" (SIAM J. Comput. 1988), the two halves changed in turn, so that they may differ in length (Lucks, "Faster
Luby-Rackoff ciphers", FSE 1996; also FF1 of NIST SP 800-38G). One half is of any size, changed by addition modulo it,
and what falls beyond the domain goes through again until it does not: both from Black and Rogaway, "Ciphers with
arbitrary finite domains" (CT-RSA 2002). To shuffle data sets so is the idea of Mitchell et al., "Bandwidth-optimal
random shuffling for GPUs" (ACM Trans. Parallel Comput. 2022). The round function is a multiplicative hash in the manner
of MurmurHash3's finaliser, with a multiplier of its own per round. Keys come from SHAKE-256 (FIPS 202).

This is made to shuffle well, not to keep secrets.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NUM_ROUNDS", "Feistel", "make_feistel", "shuffled_table"]

#: Over 400 000 keys, how the values at pairs of positions differ shows after 4 rounds for n below 10 000 (chi-square,
#: 30 to 50 standard deviations off), and after 6 and 8 for none. ``tests/source/test_keyed_uniform.py`` has such tests.
NUM_ROUNDS = 8

_MASK = 2**32 - 1
# The last multiplier of MurmurHash3's finaliser for 32 bits.
_MULTIPLIER = 0xC2B2AE35


@dataclass(frozen=True, slots=True)
class Feistel:
    """A permutation of ``range(num_left << right_bits)``, seen as pairs: ``left`` below ``num_left``, and the rest.

    ``num_left`` is at most 2**31 and ``right_bits`` at most 32, so that all of it fits into words of 32 bits. ``keys``
    has two words for each round: one is joined to a half by exclusive or, one, odd, multiplies it.
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
        """The same for each of an array, ``(n,)`` to a new ``(n,)``."""
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
                # Less than the modulus: subtracting it wraps around, to more than there was.
                np.subtract(left, modulus, out=high)
                np.minimum(left, high, out=left)
        joined = left.astype(np.uint64)
        joined <<= right_bits
        joined |= right
        return joined


def make_feistel(n: int, key: tuple[int, ...]) -> Feistel:
    """Get the cipher of the least domain of this form that holds ``range(n)``, for ``n`` up to 2**63.

    Little of it lies beyond ``n``: less than one in ``num_left``.
    """
    bits = max((n - 1).bit_length(), 2)
    right_bits = bits - bits // 2
    words = _words(n, key, 2 * NUM_ROUNDS)
    keys = tuple((words[place], words[place + 1] | 1) for place in range(0, 2 * NUM_ROUNDS, 2))
    return Feistel(-(-n >> right_bits), right_bits, keys)


def shuffled_table(n: int, key: tuple[int, ...]) -> list[int]:
    """Get a permutation of ``range(n)`` in full: Fisher and Yates' shuffle (Durstenfeld, CACM 1964, algorithm 235).

    A draw below ``bound`` is the high part of a word of 64 bits times ``bound``: off by less than ``bound / 2**64``.
    """
    table = list(range(n))
    words = _words(n, key, 2 * n)
    for last in range(n - 1, 0, -1):
        word = words[2 * last] << 32 | words[2 * last + 1]
        chosen = word * (last + 1) >> 64
        table[last], table[chosen] = table[chosen], table[last]
    return table


def _words(n: int, key: tuple[int, ...], count: int) -> list[int]:
    """Words of 32 bits that ``n`` and the key decide, as if drawn at random for each."""
    # In hexadecimal, for which Python has no limit of length, and apart, so that (1, 23) is not (12, 3).
    text = ",".join(f"{number:x}" for number in (n, *key))
    stream = hashlib.shake_256(b"spdl keyed permutation " + text.encode("ascii")).digest(4 * count)
    return [int.from_bytes(stream[place : place + 4], "little") for place in range(0, 4 * count, 4)]
