"""What tables have in common: rows by number, in shards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from operator import index as as_index
from typing import Any, TypeVar

__all__ = ["Rows"]

T = TypeVar("T")


class Rows(Sequence[T]):
    """Rows by number, as a sequence that ``ShardOrder`` takes."""

    #: The number of the first row of each shard, and of all rows.
    _firsts: list[int]

    @abstractmethod
    def _row(self, number: int) -> T:
        """The row of a number that there is."""

    def _rows(self, numbers: range) -> list[T]:
        """The rows of numbers that there are."""
        return [self._row(number) for number in numbers]

    def locate(self, number: int) -> int:
        """What ``ShardOrder`` gives for a row: its number."""
        return number

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getitem__(self, number: Any) -> Any:
        """Read the row of a number; for a slice, a list of rows."""
        if isinstance(number, slice):
            return self._rows(range(len(self))[number])
        given = as_index(number)
        row = given + len(self) if given < 0 else given
        if not 0 <= row < len(self):
            raise IndexError(f"row {given} is out of range for {len(self)} rows")
        return self._row(row)
