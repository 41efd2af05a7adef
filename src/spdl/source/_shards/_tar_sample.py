"""What an index of tar archives says of an archive, and of a sample in it."""

from __future__ import annotations

from typing import Any, NamedTuple

from spdl.source._errors import ShardError

__all__ = ["Shard", "TarSample", "cut_off"]


class Shard(NamedTuple):
    """What an index knows of one archive."""

    path: str
    size: int  #: in bytes, when the index was built
    etag: str | None  #: its version then: the ETag, or the time of the last change for a local file
    num_samples: int
    skipped: dict[str, int]  #: what is no part of a sample, by kind


class TarSample(NamedTuple):
    """Where a sample is: a part of a shard, which a store can read, and the files in it."""

    path: str  #: of the shard
    offset: int  #: of the first byte of its first file
    length: int  #: up to the last byte of its last file
    etag: str | None  #: the version of the shard when it was indexed; of a local file, its time of change
    key: str  #: its name without extensions
    files: tuple[tuple[str, int, int], ...]  #: of each: extension, start within the part, size

    def split(self, data: bytes) -> dict[str, Any]:
        """Get the files of this sample from its part of the shard, as :meth:`TarIndex.read` returns them.

        Raises:
            ShardError: These are fewer bytes.
        """
        if len(data) != self.length:
            raise cut_off(self, len(data))
        found: dict[str, Any] = {"__key__": self.key, "__url__": self.path}
        for extension, start, size in self.files:
            found[extension] = bytes(data[start : start + size])
        return found


def cut_off(sample: TarSample, length: int) -> ShardError:
    """The error of a part that is shorter than it was."""
    return ShardError(
        f"cannot read sample {sample.key!r} of {sample.path!r}: it has {sample.length} bytes from byte {sample.offset} "
        f"on, and {length} came. The shard is shorter than when it was indexed: build the index again",
        shard=sample.path,
        offset=sample.offset + length,
    )
