"""The file format of indexes: columns of numbers, each of which can be read without the others.

Layout, all numbers little-endian: ``SPDLIDX\\n``, version (4 bytes), CRC-32 of all that follows it (4), length of the
description (8), the description as JSON, then the columns, each at a multiple of 8 bytes from the start of the file.
The description has the offset, length and type of each column. The type is the smallest that holds the numbers.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Final
from zlib import crc32

from ._stores import ShardError

_MAGIC: Final = b"SPDLIDX\n"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQ")
#: Offset of the first byte that the checksum covers.
_CHECKED: Final = 16
#: Larger files are memory-mapped: processes share the memory, and unused pages are not read.
_MAX_READ: Final = 64 << 20
_TYPES: Final = {code: array(code).itemsize for code in "BHIQ"}

Columns = dict[str, "memoryview[int]"]


def as_column(numbers: Iterable[int], largest: int) -> array[int]:
    """Store numbers from 0 to ``largest`` in the smallest type that holds them."""
    code = next(code for code, size in _TYPES.items() if largest < 1 << (8 * size))
    return array(code, numbers)


def encode_index(kind: str, description: Mapping[str, Any], columns: Mapping[str, array[int]]) -> bytes:
    """Return the contents of an index file of this kind."""
    placed: dict[str, tuple[str, int, int]] = {}
    body: list[bytes] = []
    place = 0
    for name, column in columns.items():
        if sys.byteorder == "big":
            column = array(column.typecode, column)
            column.byteswap()
        data = column.tobytes()
        placed[name] = column.typecode, place, len(column)
        data += bytes(-len(data) % 8)
        body.append(data)
        place += len(data)
    text = json.dumps({"kind": kind, **description, "columns": placed}).encode("ascii")
    text += b" " * (-(len(text) + _HEADER.size) % 8)
    checked = struct.pack("<Q", len(text)) + text + b"".join(body)
    return _HEADER.pack(_MAGIC, _VERSION, crc32(checked), len(text))[:_CHECKED] + checked


def open_file(path: str | os.PathLike[str]) -> memoryview[int]:
    """The bytes of a file: read into memory, or memory-mapped if the file is large."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size <= _MAX_READ:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def decode_index(kind: str, data: memoryview[int], path: str) -> tuple[dict[str, Any], Columns, int]:
    """Get the description, the columns as views of ``data``, and the checksum.

    Raises:
        ShardError: The file is not an index, has another kind or version, or is damaged.
    """
    if len(data) < _HEADER.size or bytes(data[:8]) != _MAGIC:
        raise ShardError(f"cannot open {path!r}: it is not an index of shards", shard=path)
    _, version, checksum, length = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ShardError(
            f"cannot open the index {path!r}: it has version {version}, and this release of SPDL reads version "
            f"{_VERSION}. Build it again",
            shard=path,
        )
    if crc32(data[_CHECKED:]) != checksum:
        raise ShardError(
            f"cannot open the index {path!r}: its checksum is wrong, so it is damaged. Remove it and build it again",
            shard=path,
        )
    try:
        description, columns = _parsed(data, length)
        own = description["kind"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise damaged_index(path, f"its description cannot be read ({exc!r})") from exc
    if own != kind:
        raise ShardError(f"cannot open {path!r}: it is an index of {own}, not of {kind}", shard=path)
    return description, columns, checksum


def damaged_index(path: str, reason: str) -> ShardError:
    """The error for an index whose checksum is right and whose content is not."""
    return ShardError(
        f"cannot open the index {path!r}: {reason}, so it is damaged. Remove it and build it again", shard=path
    )


def _parsed(data: memoryview[int], length: int) -> tuple[dict[str, Any], Columns]:
    description: dict[str, Any] = json.loads(bytes(data[_HEADER.size : _HEADER.size + length]))
    start = _HEADER.size + length
    columns: Columns = {}
    for name, (code, place, count) in description.pop("columns").items():
        stop = start + place + count * _TYPES[code]
        if place < 0 or count < 0 or stop > len(data):
            raise ValueError(f"column {name!r} is not inside the file")
        column = data[start + place : stop].cast(code)
        if sys.byteorder == "big":
            swapped = array(code, column)
            swapped.byteswap()
            column = memoryview(swapped)
        columns[name] = column
    return description, columns
