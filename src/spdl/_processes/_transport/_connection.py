"""What code that talks to another process needs of what carries its messages.

A ``Link`` is one implementation: a socket and shared memory on one machine. Others may lead to other machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ._pickling import NOTHING, Encoded

__all__ = ["Connection", "Message"]


class Message(Protocol):
    """A message that has arrived. Its payload is put together by ``load``, once, or given back by ``discard``."""

    @property
    def kind(self) -> int: ...

    @property
    def number(self) -> int: ...

    def load(self) -> Any:
        """Return the payload; ``NOTHING`` if there is none.

        Raises:
            Exception: What unpickling raises.
        """

    def discard(self) -> None:
        """Give the payload's memory back unseen. Idempotent; nothing after ``load``."""


class Connection(Protocol):
    """One end of a two-way connection. One thread may receive; any number may send. Messages arrive in order."""

    @property
    def sender(self) -> Any:
        """The store in which ops can have memory before it is sent (``arena_slot``); ``None``: there is none."""

    def encode(self, payload: Any) -> Encoded:
        """Take ``payload`` apart. Give the result to ``send_encoded``, once.

        Raises:
            Exception: What pickling raises.
        """

    def send(self, kind: int, number: int = 0, payload: Any = NOTHING) -> None:
        """Send one message.

        Raises:
            OSError: The other end is gone.
            Exception: What pickling raises; then nothing was sent.
        """

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]]) -> None:
        """Send messages, each a kind, a number and a payload. What the payloads refer to may change afterwards.

        Raises:
            OSError: The other end is gone.
        """

    def recv(self) -> Message:
        """Return the next message.

        Raises:
            EOFError: The other end is gone, or has said that it sends no more.
        """
