"""SplitMix64: 64-bit random numbers, each computed from its position in constant time.

Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), with the finaliser of
Vigna's reference implementation. The numbers are the same on every machine and will never change; the tests check some
of them.
"""

from typing import Final

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
