"""Items that record their origin, so that a test can follow them without the engine."""

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Position", "Token", "Value", "label_of", "number_of", "positions_of", "tokens_of"]

#: The number of the source, and the index of the item.
Position: TypeAlias = tuple[int, int]
Value: TypeAlias = "Token | list[Value]"


@dataclass(frozen=True, slots=True)
class Token:
    """One item.

    Attributes:
        label: The history of the item, unique in a run.
        positions: The source positions from which it descends.
        number: The number that decides what ops do with it, independent of the interleaving.
    """

    label: object
    positions: frozenset[Position]
    number: int

    @classmethod
    def of_source(cls, source: int, index: int) -> "Token":
        return cls((source, index), frozenset([(source, index)]), index)

    def __repr__(self) -> str:
        return f"Token({self.label!r})"


def tokens_of(value: Value) -> list[Token]:
    """The tokens in a value; nested lists are flattened."""
    if isinstance(value, Token):
        return [value]
    return [token for one in value for token in tokens_of(one)]


def label_of(value: Value) -> object:
    return value.label if isinstance(value, Token) else [label_of(one) for one in value]


def positions_of(value: Value) -> frozenset[Position]:
    return frozenset(position for token in tokens_of(value) for position in token.positions)


def number_of(value: Value) -> int:
    return sum(token.number for token in tokens_of(value))
