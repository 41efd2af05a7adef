"""An object as a file: read by ranges, or from start to end by one request, which every server understands."""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ._client import Client, Located, ObjectInfo
from ._errors import RemoteChangedError, RemoteError, RemoteUnavailableError
from ._requests import Requests

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Bytes of the buffer from which small reads of a stream are served.
_BUFFER = 1 << 20
#: Bytes per request: small enough for random access, large enough for sequential reading.
_BLOCK = 1024 * 1024


class _Reader(io.RawIOBase):
    """One version of an object, read by range requests."""

    def __init__(self, read: Callable[[Located], bytes], info: ObjectInfo, name: str) -> None:
        self._read, self._info = read, info
        self._position = 0
        self.name = name

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
            view[:length] = self._read(Located(info.path, self._position, length, info.etag))
            self._position += length
        return length


def open_reader(read: Callable[[Located], bytes], info: ObjectInfo, url: str) -> io.BufferedReader:
    """Return a buffered file of that version of an object."""
    return io.BufferedReader(_Reader(read, info, url), _BLOCK)


class _Stream(io.RawIOBase):
    """The bytes of one version of an object. If the connection breaks, a new request continues where it broke."""

    def __init__(self, requests: Requests, path: str, name: str, etag: str | None) -> None:
        self._requests, self._path, self._etag = requests, path, etag
        self._chunks: Iterator[memoryview] | None = None
        self._size: int | None = None
        self._position = 0  # of the first byte that is not in `_chunk`
        self._chunk = memoryview(b"")
        self.name = name
        self._fill()  # what is missing is reported now

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        if not self._chunk and len(view):
            self._fill()
        count = min(len(view), len(self._chunk))
        view[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        return count

    def close(self) -> None:
        self._chunks = None  # ends the request
        super().close()

    def _fill(self) -> None:
        if self._position != self._size:
            self._chunk = self._requests.run_long(self._next)
            self._position += len(self._chunk)

    def _next(self, client: Client, seconds: float) -> memoryview:
        """The next bytes, of this request or a new one."""
        try:
            chunks = self._chunks
            if chunks is None:
                chunks = self._chunks = self._open(client, seconds)
            chunk = next(chunks, None)
            if chunk is None and self._position != self._size:
                reason = f"the answer ended after {self._position} of {self._size} bytes"
                raise RemoteUnavailableError._at("read", self.name, reason)
        except BaseException:
            self._chunks = None
            raise
        return memoryview(b"") if chunk is None else chunk

    def _open(self, client: Client, seconds: float) -> Iterator[memoryview]:
        start = self._position
        try:
            size, etag, chunks = client.stream(self._path, start, self._etag, seconds)
        except RemoteError as error:
            if not error._ignores_ranges:
                raise
            # Read the first part once more.
            size, etag, chunks = client.stream(self._path, 0, self._etag, seconds)
            chunks = _skipped(chunks, start)
        if self._size is None:
            self._size, self._etag = size, etag or self._etag
        elif size != self._size:
            raise RemoteChangedError._at("read", self.name, f"it had {self._size} bytes and has {size}")
        return chunks


def _skipped(chunks: Iterator[memoryview], count: int) -> Iterator[memoryview]:
    for chunk in chunks:
        if count < len(chunk):
            yield chunk[count:]
        count = max(count - len(chunk), 0)


def open_stream(requests: Requests, path: str, name: str, etag: str | None = None) -> io.BufferedReader:
    """Open an object as a file that can only be read from start to end.

    Raises:
        RemoteError: As for ``RemoteStore.get``.
    """
    return io.BufferedReader(_Stream(requests, path, name, etag), _BUFFER)
