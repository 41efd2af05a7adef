"""The interface between a store and a library that sends requests to servers; objects, and parts of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ._errors import RemoteError

if TYPE_CHECKING:
    from typing_extensions import Buffer


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


class NotModified(Exception):
    """The object still has the version that the request named, so its bytes were not sent."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a request for bytes.

    Attributes:
        data: The complete bytes. ``None``: the object is larger than one request may return.
        size: Number of bytes of the whole object.
        etag: Version of the object. ``None``: the store has none.
    """

    data: "Buffer | None"
    size: int
    etag: str | None

    @property
    def range_data(self) -> "Buffer":
        """The bytes, if the request was for a range: those are always complete."""
        assert self.data is not None
        return self.data


class Client(Protocol):
    """One attempt at each action; thread-safe. Failures raise a ``RemoteError``.

    Args:
        seconds: Time limit of the attempt.
    """

    def fetch(
        self,
        path: str,
        span: tuple[int, int] | None,
        *,
        etag: str | None,
        unless: str | None,
        most: int,
        seconds: float,
    ) -> Fetched:
        """The bytes of an object, or of the range ``[start, stop)`` of it.

        Args:
            etag: Version that it must have, else ``RemoteChangedError``.
            unless: Known version: raises ``NotModified`` if the object still has it.
            most: Most bytes to take, without a range.
        """
        ...

    def fetch_start(self, path: str, count: int, *, etag: str | None, unless: str | None, seconds: float) -> Fetched:
        """The first ``count`` bytes of an object, or all of a shorter one. ``etag`` and ``unless`` as for ``fetch``.

        Raises:
            RemoteRangeError: The object may be empty.
        """
        ...

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        """The bytes of an object of any version, at the lowest cost. ``None``: it has more than ``most``."""
        ...

    def fetch_range(self, path: str, span: tuple[int, int], seconds: float) -> "Buffer":
        """The bytes of a range of any version, at the lowest cost."""
        ...

    def stream(
        self, path: str, start: int, etag: str | None, seconds: float
    ) -> "tuple[int, str | None, Iterator[memoryview]]":
        """The size and the version of an object, and its bytes from ``start`` on, by one request.

        Args:
            seconds: Time limit for each part of the bytes.

        Raises:
            RemoteError: Also if the server sends whole objects only, and ``start`` is not zero.
        """
        ...

    def head(self, path: str, *, seconds: float) -> ObjectInfo: ...

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]: ...

    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None: ...

    def retry_after(self, error: RemoteError) -> float | None:
        """How many seconds to wait before the next attempt, if the server says so."""
        ...
