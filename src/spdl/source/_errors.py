"""Exceptions of shards."""

from typing import Any

__all__ = ["CompressedShardError", "ShardError", "StaleIndexError"]


def _rebuild(cls: type["ShardError"], args: tuple[Any, ...], shard: str, offset: int | None) -> "ShardError":
    return cls(*args, shard=shard, offset=offset)


class ShardError(RuntimeError):
    """A shard, or the index of shards, is damaged, cut off, or not what it should be.

    Attributes:
        shard: Path of the shard, or of the index.
        offset: The byte where it was noticed; ``None`` if there is none.
    """

    def __init__(self, message: str, *, shard: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.shard = shard
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.shard, self.offset)


class CompressedShardError(ShardError, ValueError):
    """A shard is compressed as a whole, so no sample of it can be read without all that is before."""


class StaleIndexError(ShardError):
    """An index is not that of the shards as they are now."""
