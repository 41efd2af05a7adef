"""The methods that pipelines and loaders look for in sources, and the base class of tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from ._sampler import as_position

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class IterableWithShuffle(Protocol[T_co]):
    """An iterable that can be iterated repeatedly, and whose order a seed changes."""

    def __iter__(self) -> Iterator[T_co]: ...

    def shuffle(self, seed: int) -> None:
        """Change the order of the iterations that follow. Called with the keyword: ``shuffle(seed=0)``."""
        ...


@runtime_checkable
class SizedIterable(Protocol[T_co]):
    """An iterable that can be iterated repeatedly and has a length."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...


@runtime_checkable
class SizedIterableWithShuffle(Protocol[T_co]):
    """Both: :class:`SizedIterable` and :class:`IterableWithShuffle`."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]: ...

    def shuffle(self, seed: int) -> None:
        """Change the order of the iterations that follow. Called with the keyword: ``shuffle(seed=0)``."""
        ...


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
        return self._row(as_position(number, len(self), "rows", "row"))
