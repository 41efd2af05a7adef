"""``Rows``: the base class of all tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from operator import index as as_index
from typing import Any, TypeVar

T = TypeVar("T")


class Rows(Sequence[T]):
    """Rows by number, in shards, as a sequence that ``ShardOrder`` accepts."""

    #: The number of the first row of each shard, and the total number of rows.
    _firsts: list[int]

    @abstractmethod
    def _row(self, number: int) -> T:
        """Read a row; the number is in range."""

    def _rows(self, numbers: range) -> list[T]:
        """Read several rows; the numbers are in range."""
        return [self._row(number) for number in numbers]

    def locate(self, number: int) -> int:
        """The item that ``ShardOrder`` yields for a row: its number."""
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
