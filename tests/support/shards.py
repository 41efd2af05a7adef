"""Tar archives for tests, and a store in memory that holds them."""

import fnmatch
import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["MemoryStore", "StoredObject", "tar_of", "write_shards"]


def tar_of(files: Iterable[tuple[str, bytes]], **options: Any) -> bytes:
    """A tar archive of files, by the standard library."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", **options) as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def write_shards(folder: Path, counts: Iterable[int], *, prefix: str = "shard") -> list[Path]:
    """Shards with so many samples each, of two files: ``txt`` has the shard and number, ``cls`` the number."""
    paths = []
    for shard, count in enumerate(counts):
        files = []
        for number in range(count):
            files += [
                (f"{shard:03}/{number:05}.txt", f"{shard} {number}".encode()),
                (f"{shard:03}/{number:05}.cls", b"%d" % number),
            ]
        path = folder / f"{prefix}-{shard:06}.tar"
        path.write_bytes(tar_of(files))
        paths.append(path)
    return paths


@dataclass(frozen=True)
class StoredObject:
    """What the store says of an object."""

    path: str
    size: int
    etag: str | None


class MemoryStore:
    """Objects in memory: ``list``, ``read`` and ``put``, as a remote store has them. Records what it is asked."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = dict(objects)
        self.versions = dict.fromkeys(self.objects, 1)
        self.reads: list[tuple[str, int, int]] = []
        self.listings: list[str] = []

    def list(self, pattern: str, /) -> list[StoredObject]:
        self.listings.append(pattern)
        names = fnmatch.filter(self.objects, pattern)
        return [StoredObject(name, len(self.objects[name]), f"v{self.versions[name]}") for name in names]

    def read(self, located: Any, /) -> bytes:
        self.reads.append((located.path, located.offset, located.length))
        return self.objects[located.path][located.offset : located.offset + located.length]

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = bytes(data)
        self.versions[path] = self.versions.get(path, 0) + 1
