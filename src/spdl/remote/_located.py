"""Locations of bytes in a store: an object, or a part of one."""

from dataclasses import dataclass
from typing import Protocol


class Part(Protocol):
    """Any object with the attributes of ``Located``."""

    @property
    def path(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int | None: ...
    @property
    def etag(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Located:
    """A part of an object in a store. ``RemoteStore.read`` takes it; an index of shards gives it.

    Attributes:
        path: Path of the object, relative to the root of its store.
        offset: Position of the first byte.
        length: Number of bytes. ``None``: up to the end.
        etag: Version for which the index was made. Reading another version raises ``RemoteChangedError``. ``None``:
            any.
    """

    path: str
    offset: int = 0
    length: int | None = None
    etag: str | None = None

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            ValueError: ``offset`` or ``length`` is negative.
        """
        if self.offset < 0:
            raise ValueError(f"offset must be >= 0, got {self.offset}")
        if self.length is not None and self.length < 0:
            raise ValueError(f"length must be >= 0 or None, got {self.length}")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store says about an object.

    Attributes:
        path: Path, relative to the root of the store.
        size: Number of bytes.
        etag: Version. ``None``: the store has none.
    """

    path: str
    size: int
    etag: str | None = None
