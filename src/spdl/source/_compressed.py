"""What files are by their first bytes, for messages; and decompression of streams."""

from __future__ import annotations

import zlib
from typing import Any, Final

from spdl.source._stores import CompressedShardError

#: Number of bytes to look at.
SNIFFED: Final = 64
#: RFC 1952, RFC 8878, and the formats' own specifications.
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
}
_OTHERS: Final = {
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "an empty zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"PAR1": "Parquet",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"version https://git-lfs": "a Git LFS pointer: fetch the file with `git lfs pull`",
}
#: Text in any case, after white space: what servers send instead of a file.
_TEXTS: Final = {
    b"<!doctype html": "HTML: see what the server said",
    b"<html": "HTML: see what the server said",
    b"<?xml": "XML: see what the server said",
    b"<error": "XML: see what the server said",
    b"{": "JSON: see what the server said",
    b"[": "JSON: see what the server said",
}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def compression_of(start: bytes) -> str | None:
    """The name of the compression of a file that begins so; ``None``: it is not compressed, or not in a known way."""
    return next((name for magic, name in _COMPRESSED.items() if start.startswith(magic)), None)


def describe_beginning(start: bytes) -> str:
    """What a file looks like that begins so: ``"; it looks like HTML: see ..."``, or ``""`` if nothing is known."""
    known = next((name for magic, name in _OTHERS.items() if start.startswith(magic)), None) or compression_of(start)
    if known is None:
        text = start[:SNIFFED].removeprefix(_BYTE_ORDER_MARK).lstrip().lower()
        known = next((name for begin, name in _TEXTS.items() if text.startswith(begin)), None)
    return "" if known is None else f"; it looks like {known}"


#: Errors that modules of the standard library raise for damaged compressed data. Errors of the files derive from these.
UNPACKING_ERRORS: Final = (EOFError, zlib.error)


def unpacked(stream: Any, path: str) -> Any:
    """Return a stream of the same bytes, decompressed if they are compressed. Closing it does not close ``stream``.

    Raises:
        CompressedShardError: The standard library does not support the compression.
    """
    source: Any = _Peeked(stream)  # has the file methods that the decompressors use
    compression = compression_of(source.peek(6))
    if compression == "gzip":
        import gzip

        return _Whole(gzip.GzipFile(fileobj=source, mode="rb"))
    if compression == "bzip2":
        import bz2

        return _Whole(bz2.BZ2File(source))
    if compression == "xz":
        import lzma

        return _Whole(lzma.LZMAFile(source))
    if compression is not None:
        raise CompressedShardError(
            f"cannot read {path!r}: it is compressed with {compression}. Give an open_shard that decompresses it",
            shard=path,
            offset=0,
        )
    return source


class _Whole:
    """A decompressor that raises only two types of errors."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._file.read(size)
        except OSError as error:  # bz2 and gzip raise this for damaged data; lzma has its own error
            if error.errno is not None:
                raise
            raise EOFError(str(error)) from error
        except Exception as error:
            if type(error).__name__ == "LZMAError":
                raise EOFError(str(error)) from error
            raise
        return data


class _Peeked:
    """A stream whose first bytes can be read without consuming them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (data := self._stream.read(size - len(self._ahead))):
            self._ahead += data
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if not self._ahead:
            data: bytes = self._stream.read(size)
            return data
        ahead = self._ahead if size < 0 else self._ahead[:size]
        self._ahead = self._ahead[len(ahead) :]
        return ahead

    # Methods that the decompressors need.
    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return False
