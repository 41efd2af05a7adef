"""What any child may say to its parent, whatever its function is.

A message is a frame of ``_transport``: a kind, a number, and a payload.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["AnyChild", "Phase"]


class AnyChild(IntEnum):
    """Kinds that no conversation may use for its own messages."""

    #: It ends because of an exception. Payload: ``RemoteFailure``. Number: a ``Phase``.
    FAILED = 255


class Phase(IntEnum):
    """How far a child was when it failed."""

    ARRIVING = 0  #: its function and arguments could not be put together
    RUNNING = 1  #: its function raised
