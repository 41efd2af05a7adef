"""Messages that any child may send to its parent, whatever its function.

A message is a frame of ``_transport``: a kind, a number, and a payload.
"""

from __future__ import annotations

from enum import IntEnum


class AnyChild(IntEnum):
    """Reserved kinds of messages."""

    #: The child ends because of an exception. Payload: ``RemoteFailure``. Number: a ``Phase``.
    FAILED = 255


class Phase(IntEnum):
    """How far a child was when it failed."""

    ARRIVING = 0  #: its function and arguments could not be unpickled
    RUNNING = 1  #: its function raised
