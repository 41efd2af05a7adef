"""Interfaces for the buffers of messages: a ``Store`` on the sending side, a ``Receiver`` on the receiving side.

Two kinds exist: the automatic arena (``_arena``), and a user's explicit arena (``_custom``). If a store has no room, or
there is no store, buffers go through the socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

#: Where the buffers of one message are. Small and picklable; only a store and its receiver interpret it.
Spans: TypeAlias = Any


class Store(Protocol):
    """Sending side. Calls are made one at a time."""

    def put(self, buffers: Sequence[Any]) -> Spans | None:
        """Put the contents of all ``buffers`` where the other side can read them.

        Args:
            buffers: Objects with the buffer protocol, each C- or Fortran-contiguous.

        Returns:
            Their places, in order; ``None`` if there is no room, and then nothing was put.

        Raises:
            BufferError: There is no room, and the user's arena requires an error. Nothing was put.
        """

    def take_back(self, spans: Spans) -> None:
        """Undo a put that will not be sent."""


class Receiver(Protocol):
    """Receiving side. Calls are made one at a time."""

    @property
    def bytes_as_views(self) -> bool:
        """Whether bytes-like objects arrive as writable views of the store, not as copies of their own type."""

    def get(self, spans: Spans) -> list[Any]:
        """Return the buffers, in order, as objects with the buffer protocol: writable, one-dimensional, format ``B``.

        Their memory is freed when the last view of them is gone.
        """

    def drop(self, spans: Spans) -> None:
        """Free the memory of a message that will not be read."""
