"""Iterators that let somebody read ahead without counting what the user has not seen yet. Imports nothing from spdl."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

__all__ = ["Holding", "hold"]


@runtime_checkable
class Holding(Protocol):
    """An iterator whose ``state_dict`` can lag behind what was taken from it.

    Code that prefetches calls ``hold`` before the first ``next()``, ``token`` after each, whether it has returned a
    batch or raised, and ``commit`` when the user has got that batch or exception. Commits come in the order of the
    tokens, and may come from another thread.
    """

    def hold(self) -> None:
        """Count nothing as taken by the user until it is committed."""

    def token(self) -> Any:
        """Stands for all that was taken until now."""

    def commit(self, token: Any) -> None:
        """Count as taken what the token stands for."""


def hold(batches: Iterator[Any]) -> Holding | None:
    """Hold an iterator; ``None`` if it does not know how."""
    if not isinstance(batches, Holding):
        return None
    batches.hold()
    return batches
