"""Passes an end of a connection to a running process over a Unix socket."""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
from multiprocessing import context, reduction
from typing import Any, Final

from ._connecting import LinkEnd

#: Bytes of data, number of descriptors.
_HEADER: Final = struct.Struct("<IB")
#: An end has a socket, two arenas with a bell each, and two rings.
_MOST_DESCRIPTORS: Final = 16


class _Passed:
    """A descriptor of an end, during and after pickling."""

    def __init__(self, value: int) -> None:
        self.value = value

    def detach(self) -> int:
        return self.value


class _Popen:
    """Collects descriptors while an end is pickled, as the ``Popen`` of a start method does."""

    DupFd = _Passed

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        self.descriptors.append(fd)
        return len(self.descriptors) - 1


class _Pickler(reduction.ForkingPickler):
    def persistent_id(self, obj: Any) -> int | None:
        return obj.value if type(obj) is _Passed else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, descriptors: list[int]) -> None:
        super().__init__(io.BytesIO(data))
        self._descriptors = descriptors

    def persistent_load(self, number: Any) -> _Passed:
        return _Passed(self._descriptors[number])


def send_end(sock: socket.socket, end: LinkEnd) -> None:
    """Send ``end``, which stays open here.

    Raises:
        OSError: The other side is gone.
    """
    popen, stream = _Popen(), io.BytesIO()
    context.set_spawning_popen(popen)  # type: ignore[arg-type]  # it has the needed interface
    try:
        _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(end)
    finally:
        context.set_spawning_popen(None)
    data = stream.getvalue()
    socket.send_fds(sock, [_HEADER.pack(len(data), len(popen.descriptors))], popen.descriptors)
    sock.sendall(data)


def receive_end(sock: socket.socket) -> LinkEnd:
    """Receive an end. This unpickles data: use it only with a trusted process.

    Raises:
        OSError: It did not arrive completely, for example for lack of descriptors.
    """
    header, descriptors, _, _ = socket.recv_fds(sock, _HEADER.size, _MOST_DESCRIPTORS)
    try:
        for each in descriptors:
            os.set_inheritable(each, False)
        if len(header) < _HEADER.size:
            raise ConnectionAbortedError("the other side has closed the connection instead of passing an end")
        size, num_descriptors = _HEADER.unpack(header)
        if len(descriptors) != num_descriptors:
            raise OSError(f"{len(descriptors)} of {num_descriptors} descriptors arrived")
        data = b""
        while len(data) < size:
            part = sock.recv(size - len(data))
            if not part:
                raise ConnectionAbortedError("the other side has closed the connection while passing an end")
            data += part
        end: LinkEnd = _Unpickler(data, descriptors).load()
    except BaseException:
        for each in descriptors:
            os.close(each)
        raise
    return end
