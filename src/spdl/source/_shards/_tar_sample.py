"""``Shard`` and ``TarSample``: the description of an archive, and of a sample in it, from an index."""

from __future__ import annotations

from typing import Any, NamedTuple

from spdl.source._errors import ShardError


class Shard(NamedTuple):
    """Description of one archive in an index."""

    path: str
    size: int  #: in bytes, when the index was built
    etag: str | None  #: its version at that time: the ETag, or the modification time of a local file
    num_samples: int
    skipped: dict[str, int]  #: number of skipped archive members, by kind


class TarSample(NamedTuple):
    """Location of a sample: a byte range of a shard, which a store can read, and the files in it."""

    path: str  #: of the shard
    offset: int  #: of the first byte of its first file
    length: int  #: up to the last byte of its last file
    etag: str | None  #: version of the shard when it was indexed; for a local file, its modification time
    key: str  #: name of the sample, without extensions
    files: tuple[tuple[str, int, int], ...]  #: extension, start within the byte range, and size of each file

    def split(self, data: bytes) -> dict[str, Any]:
        """Split the bytes of this sample into its files, as returned by :meth:`TarIndex.read`.

        Raises:
            ShardError: ``data`` is too short.
        """
        if len(data) != self.length:
            raise cut_off(self, len(data))
        found: dict[str, Any] = {"__key__": self.key, "__url__": self.path}
        for extension, start, size in self.files:
            found[extension] = bytes(data[start : start + size])
        return found


def cut_off(sample: TarSample, length: int) -> ShardError:
    """The error for a shard that is shorter than when it was indexed."""
    return ShardError(
        f"cannot read sample {sample.key!r} of {sample.path!r}: it has {sample.length} bytes from byte {sample.offset} "
        f"on, and {length} were read. The shard is shorter than when it was indexed: build the index again",
        shard=sample.path,
        offset=sample.offset + length,
    )
