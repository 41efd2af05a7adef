"""Exceptions of shards and of their indexes."""

from typing import Any


def _rebuild(cls: type["ShardError"], args: tuple[Any, ...], shard: str, offset: int | None) -> "ShardError":
    return cls(*args, shard=shard, offset=offset)


class ShardError(RuntimeError):
    """A shard, or an index of shards, is damaged, truncated, or not of the expected format.

    Attributes:
        shard: Path of the shard, or of the index.
        offset: Position of the fault, in bytes; ``None`` if unknown.
    """

    def __init__(self, message: str, *, shard: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.shard = shard
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.shard, self.offset)


class CompressedShardError(ShardError, ValueError):
    """A shard is compressed as a whole, so its samples cannot be read individually."""


class StaleIndexError(ShardError):
    """The shards have changed since they were indexed."""
