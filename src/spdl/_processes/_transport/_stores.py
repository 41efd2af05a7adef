"""What carries the buffers of a message: a ``Store`` on the sending side, a ``Receiver`` on the receiving one.

Two kinds exist: the automatic arena (``_arena``), and an explicit arena of the user's (``_custom``). Where a store has
no room, or there is none, buffers go through the socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Receiver", "Spans", "Store"]

#: Where the buffers of one message are. Small, picklable, made and understood by a store and its receiver only.
Spans: TypeAlias = Any


class Store(Protocol):
    """Sending side. Calls are made one at a time."""

    def put(self, buffers: Sequence[Any]) -> Spans | None:
        """Put the contents of all ``buffers`` where the other side finds them.

        Args:
            buffers: Objects with the buffer protocol, each C- or Fortran-contiguous.

        Returns:
            Their places, in order; ``None``: there is no room, and nothing was put.

        Raises:
            BufferError: There is no room, and the user wants to know. Nothing was put.
        """

    def take_back(self, spans: Spans) -> None:
        """What was put will not be sent after all."""


class Receiver(Protocol):
    """Receiving side. Calls are made one at a time."""

    @property
    def bytes_as_views(self) -> bool:
        """A bytes-like object comes back as a writable ``memoryview`` of the store, not as a copy of its own type."""

    def get(self, spans: Spans) -> list[Any]:
        """The buffers, in order, as objects with the buffer protocol: writable, one-dimensional, format ``B``.

        Their memory goes back when the last view of them is gone.
        """

    def drop(self, spans: Spans) -> None:
        """Give back the memory of a message that nobody will look at."""
