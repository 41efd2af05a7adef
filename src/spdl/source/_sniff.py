"""Recognise files that are not what their name says, from their first bytes; for messages."""

from __future__ import annotations

from typing import Final

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
