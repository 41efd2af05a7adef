"""An object as a file."""

import io
from typing import TYPE_CHECKING

from ._located import Located, ObjectInfo

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from typing_extensions import Buffer

    from ._store import RemoteStore

__all__ = ["open_reader"]

#: Bytes per request: small enough for random access, large enough for sequential reading.
_BLOCK = 1024 * 1024


class _Reader(io.RawIOBase):
    """One version of an object, read by range requests."""

    def __init__(self, store: "RemoteStore", info: ObjectInfo) -> None:
        self._store, self._info = store, info
        self._position = 0
        self.name = store.url_of(info.path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._info.size}
        if whence not in bases:
            raise ValueError(f"whence must be 0, 1 or 2, got {whence}")
        position = bases[whence] + offset
        if position < 0:
            raise ValueError(f"cannot seek to {position}: the file begins at 0")
        self._position = position
        return position

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._info.size - self._position))
        if length:
            info = self._info
            data: Buffer = self._store.read(Located(info.path, self._position, length, info.etag))
            view[:length] = data
            self._position += length
        return length


def open_reader(store: "RemoteStore", info: ObjectInfo) -> io.BufferedReader:
    """Return a buffered file of that version of an object."""
    return io.BufferedReader(_Reader(store, info), _BLOCK)
