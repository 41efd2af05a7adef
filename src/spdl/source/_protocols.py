"""Protocols of sources: the methods that pipelines and loaders look for."""

from collections.abc import Iterator
from typing import Protocol, TypeVar, runtime_checkable

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
