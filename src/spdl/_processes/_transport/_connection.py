"""The interfaces of connections that carry messages to another process, and of the places for their buffers.

A ``Link`` is one connection: a socket and shared memory on one machine. Others may connect to other machines. A
``Store`` on the sending side and a ``Receiver`` on the receiving side are an automatic arena (``_arena``) or a user's
explicit one (``_custom``). If a store has no room, or there is no store, buffers go through the connection.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from ._pickling import NOTHING, Encoded


class Message(Protocol):
    """A received message. ``load`` unpickles its payload, once; or ``discard`` frees it."""

    @property
    def kind(self) -> int: ...

    @property
    def number(self) -> int: ...

    def load(self) -> Any:
        """Return the payload; ``NOTHING`` if there is none.

        Raises:
            Exception: Any error of unpickling.
        """

    def discard(self) -> None:
        """Free the payload's memory without loading it. Idempotent; does nothing after ``load``."""


class Connection(Protocol):
    """One end of a two-way connection. One thread may receive; any number may send. Messages arrive in order."""

    @property
    def sender(self) -> Any:
        """The store from which ops can get memory in advance (``arena_slot``); ``None`` if there is none."""

    def encode(self, payload: Any) -> Encoded:
        """Encode ``payload``. Pass the result to ``send_encoded``, once.

        Raises:
            Exception: Any error of pickling.
        """

    def send(self, kind: int, number: int = 0, payload: Any = NOTHING) -> None:
        """Send one message.

        Raises:
            OSError: The other end is gone.
            Exception: Any error of pickling; then nothing was sent.
        """

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]]) -> None:
        """Send messages, each a kind, a number and a payload. The memory of the payloads may change afterwards.

        Raises:
            OSError: The other end is gone.
        """

    def recv(self) -> Message:
        """Return the next message.

        Raises:
            EOFError: The other end has closed or died, or sends no more.
        """


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


def wait_readable(descriptors: Iterable[int], timeout: float | None) -> list[int]:
    """Wait until at least one descriptor is readable or its other end is gone. Return all of these.

    Args:
        descriptors: At least one.
        timeout: Seconds; ``None``: no limit.

    Returns:
        Empty after a timeout.
    """
    if not hasattr(select, "poll"):  # Windows
        return select.select(list(descriptors), [], [], timeout)[0]
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    # Rounded up, so that a wait of a microsecond does not become a busy loop.
    milliseconds = None if timeout is None else min(int(timeout * 1000) + (timeout > 0), 0x7FFFFFFF)
    return [ready for ready, _ in poll.poll(milliseconds)]
