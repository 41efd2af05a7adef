"""Protocol of iterators that can be prefetched without counting batches the user has not seen. Imports no spdl."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable


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
        """Return a token for everything that was taken so far."""

    def commit(self, token: Any) -> None:
        """Count everything up to the token as taken by the user."""


def hold(batches: Iterator[Any]) -> Holding | None:
    """Hold an iterator; ``None`` if it does not support holding."""
    if not isinstance(batches, Holding):
        return None
    batches.hold()
    return batches
