"""The interface of connections that carry messages to another process.

A ``Link`` is one implementation: a socket and shared memory on one machine. Others may connect to other machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

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
