"""Sends objects between two processes: small ones through a socket, large ones through shared memory.

Independent of pipelines. ``_pickling`` splits an object into a small head and large buffers, a ``Store`` puts the
buffers where the other side can read them in place, and a ``Link`` carries the heads.
"""

from ._connecting import LinkEnd as LinkEnd
from ._connecting import link_ends as link_ends
from ._connecting import link_pair as link_pair
from ._connection import Connection as Connection
from ._connection import Message as Message
from ._frame import Frame as Frame
from ._link import Link as Link
from ._pickling import NOTHING as NOTHING
from ._pickling import Encoded as Encoded
from ._stores import Receiver as Receiver
from ._stores import Store as Store
from ._waiting import wait_readable as wait_readable

__all__ = [
    "NOTHING",
    "Connection",
    "Encoded",
    "Frame",
    "Link",
    "LinkEnd",
    "Message",
    "Receiver",
    "Store",
    "link_ends",
    "link_pair",
    "wait_readable",
]
