"""What a cache keeps besides the bytes of objects, for runs without network: listings, sizes and versions."""

import json
import zlib
from collections.abc import Iterable

from ._located import ObjectInfo

# Of a name that no object has.
_MARK = "\0list\0"


def listing_name(folder: str) -> str:
    """The name in the cache of the list of a folder."""
    return _MARK + folder.strip("/")


def as_listing(found: Iterable[ObjectInfo]) -> bytes:
    """A list of objects as bytes."""
    rows = [[info.path, info.size, info.etag] for info in found]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)


def parse_listing(data: bytes) -> list[ObjectInfo] | None:
    """The objects of a list; ``None``: it is none."""
    try:
        return [ObjectInfo(str(path), int(size), etag) for path, size, etag in json.loads(zlib.decompress(data))]
    except (zlib.error, ValueError, TypeError):
        return None


def updated(found: list[ObjectInfo], info: ObjectInfo) -> list[ObjectInfo]:
    """A list with an object that was written."""
    return sorted([*(each for each in found if each.path != info.path), info], key=lambda each: each.path)
