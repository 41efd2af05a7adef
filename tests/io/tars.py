"""Tar archives for tests, as the standard library writes them and as it would not."""

import io
import tarfile
from collections.abc import Iterable
from typing import Any

import spdl.io


def make_tar(members: Iterable[tuple[str, bytes]], *, format: int = tarfile.PAX_FORMAT, **options: Any) -> bytes:
    """An archive of regular files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=format, **options) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def header(name: bytes, size: bytes, type: bytes = b"0", magic: bytes = b"ustar\x0000", prefix: bytes = b"") -> bytes:
    """One header block with these fields as they are, and the checksum that it should have."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = type
    block[257 : 257 + len(magic)] = magic
    block[345 : 345 + len(prefix)] = prefix
    return with_checksum(block)


def with_checksum(block: bytearray, *, is_signed: bool = False) -> bytes:
    """The block with the right checksum, of unsigned bytes or of signed ones."""
    block[148:156] = b" " * 8
    total = sum(byte - 256 * (is_signed and byte > 127) for byte in block)
    block[148:156] = b"%06o\0 " % total
    return bytes(block)


def padded(data: bytes) -> bytes:
    """Data as it follows a header."""
    return data + bytes(-len(data) % 512)


def pax(*records: tuple[str, str], type: bytes = b"x") -> bytes:
    """An extension header with these records."""
    data = b""
    for key, value in records:
        body = f" {key}={value}\n".encode("utf-8", "surrogateescape")
        length = len(body)
        while length != len(str(length)) + len(body):
            length = len(str(length)) + len(body)
        data += str(length).encode() + body
    return header(b"PaxHeader", b"%011o" % len(data), type) + padded(data)


END = bytes(1024)


def members_of(data: Any) -> list[tuple[str, bytes]]:
    """All members, in memory of their own."""
    return [(name, bytes(view)) for name, view in spdl.io.iter_tarfile(data)]


def members_of_stream(data: bytes) -> list[tuple[str, bytes]]:
    """All members, read from a stream of these bytes."""
    return list(spdl.io.iter_tarfile(io.BytesIO(data)))


def members_by_tarfile(data: bytes) -> list[tuple[str, bytes]]:
    """What the standard library finds."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for info in archive:
            if info.isfile():
                stream = archive.extractfile(info)
                assert stream is not None
                found.append((info.name, stream.read()))
    return found
