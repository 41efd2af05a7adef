"""Identifies the user at the other end of a Unix socket."""

import os
import socket
import struct
import sys

# macOS and the BSDs: SOL_LOCAL, LOCAL_PEERCRED and ``struct xucred`` of <sys/un.h> and <sys/ucred.h>.
_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE = 0, 1, 76


def user_of(connection: socket.socket) -> int | None:
    """Return the user id of the connected process; ``None`` if the system does not report it."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", found)[1])
        if sys.platform == "darwin" or "bsd" in sys.platform:
            found = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE)
            return int(struct.unpack_from("2I", found)[1])
    except (OSError, struct.error):
        return None
    return None


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user. False if the user is unknown."""
    return user_of(connection) == os.geteuid()
