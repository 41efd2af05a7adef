"""SplitMix64: random numbers of 64 bits, of which any is computed from its place in constant time.

Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), with the finaliser of
Vigna's reference implementation. The numbers are the same on every machine and will not change; the tests hold some.
"""

from typing import Final

__all__ = ["MASK", "STEP", "absorb", "mix", "words_of"]

MASK: Final = 2**64 - 1
#: The increment of the generator.
STEP: Final = 0x9E3779B97F4A7C15
#: The multipliers of its finaliser.
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(state: int) -> int:
    """The output of the generator in a state, of which only the lowest 64 bits count: a bijection of these."""
    state &= MASK
    state = ((state ^ (state >> 30)) * _FIRST) & MASK
    state = ((state ^ (state >> 27)) * _SECOND) & MASK
    return state ^ (state >> 31)


def absorb(state: int, word: int) -> int:
    """The state of another generator, for each word of 64 bits. Different words give different states."""
    return mix(state + word + STEP)


def words_of(number: int) -> list[int]:
    """The number in two's complement, as the fewest 64-bit words that hold it with its sign; lowest first."""
    count = number.bit_length() // 64 + 1
    return [(number >> (64 * place)) & MASK for place in range(count)]
