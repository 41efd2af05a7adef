"""Private: lets one process show its state to another process of the same user. Independent of pipelines.

Here are the places of the sockets, one file ``PID.sock`` in a folder that only the user can enter, and who is at the
other end of one.
"""

import os
import re
import socket
import stat
import struct
import sys
import tempfile
from typing import Final

#: Longest path of a socket, in bytes: ``sun_path`` of unix(7), without the NUL at its end.
_LONGEST: Final = 107 if sys.platform == "linux" else 103


class MonitorError(RuntimeError):
    """A process cannot be monitored."""


def folders() -> list[str]:
    """Return the folders to search, the preferred one first. They need not exist."""
    user = os.getuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    found = [os.path.join(each, "spdl") for each in (runtime, f"/run/user/{user}") if each]
    found += [os.path.join(each, f"spdl-{user}") for each in (tempfile.gettempdir(), "/tmp")]
    return list(dict.fromkeys(found))


def own_folder(path: str) -> bool:
    """Whether a folder exists, belongs to this user, and is closed to others. False for a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077


def make_folder() -> str:
    """Return the folder for sockets of this process, creating it if needed: the first of those that can be used.

    Raises ``MonitorError``: another user owns a folder of that name, it cannot be created, or no path is short enough.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    candidates = [os.path.join(runtime, "spdl")] if runtime else []
    candidates.append(os.path.join(tempfile.gettempdir(), f"spdl-{os.getuid()}"))
    if any(_length(each) > _LONGEST for each in candidates):
        candidates.append(f"/tmp/spdl-{os.getuid()}")
    problems = []
    for path in candidates:
        if (size := _length(path)) > _LONGEST:
            problems.append(f"{path}: its path is too long for a socket ({size} bytes, at most {_LONGEST})")
            continue
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        except OSError as exc:
            problems.append(f"{path}: {exc.strerror}")
            continue
        if own_folder(path):
            return path
        problems.append(f"{path}: it must be a folder of this user with mode 0700")
    raise MonitorError(f"cannot make a folder for the monitor's socket: {'; '.join(problems)}")


def _length(folder: str) -> int:
    return len(os.fsencode(socket_of(os.getpid(), folder)))


def socket_of(pid: int, folder: str) -> str:
    return os.path.join(folder, f"{pid}.sock")


def pids() -> dict[int, str]:
    """Return the paths of all sockets of this user by pid. Some may be left by processes that were killed."""
    found: dict[int, str] = {}
    for folder in folders():
        if not own_folder(folder):
            continue
        for name in sorted(os.listdir(folder)):
            match = re.fullmatch(r"(\d+)\.sock", name)
            if match is not None:
                found.setdefault(int(match[1]), os.path.join(folder, name))
    return found


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
        pass
    return None


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user. False if the user is unknown."""
    return user_of(connection) == os.geteuid()
