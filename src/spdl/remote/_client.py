"""The interface between a store and a library that sends requests to servers; objects, and parts of them."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spdl._addresses import redacted, url_of

from ._errors import RemoteError, is_beyond, is_changed

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
    """The answer to a request for bytes."""

    data: "Buffer | None"  #: the complete bytes; ``None``: the object is larger than one request may return
    size: int  #: of the whole object
    etag: str | None  #: its version; ``None``: the store has none

    @property
    def range_data(self) -> "Buffer":
        """The bytes, if the request was for a range: those are always complete."""
        assert self.data is not None
        return self.data


class Client:
    """One attempt at each action; thread-safe. Failures raise a ``RemoteError``.

    A kind of store has ``_fetch``, ``head``, ``list`` and ``put``. It replaces what it can do at a lower cost.

    Args:
        url: Root of the paths.
    """

    #: Bytes per request for objects that are read from start to end.
    _chunk = 8 << 20

    def __init__(self, url: str) -> None:
        self._url = url

    @abstractmethod
    def _fetch(
        self, path: str, span: tuple[int, int] | None, etag: str | None, unless: str | None, most: int, seconds: float
    ) -> Fetched:
        """``fetch``, but of a range as much as there is."""

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
            seconds: Time limit of the attempt.
        """
        fetched = self._fetch(path, span, etag, unless, most, seconds)
        if span is not None and span[1] > fetched.size:
            raise is_beyond(self._name(path), *span, fetched.size)
        return fetched

    def fetch_start(self, path: str, count: int, *, etag: str | None, unless: str | None, seconds: float) -> Fetched:
        """The first ``count`` bytes of an object, or all of a shorter one. ``etag`` and ``unless`` as for ``fetch``.

        Raises:
            RemoteRangeError: The object may be empty.
        """
        return self._fetch(path, (0, count), etag, unless, 0, seconds)

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        """The bytes of an object of any version, at the lowest cost. ``None``: it has more than ``most``."""
        return self._fetch(path, None, None, None, most, seconds).data

    def fetch_range(self, path: str, span: tuple[int, int], seconds: float) -> "Buffer":
        """The bytes of a range of any version, at the lowest cost."""
        return self.fetch(path, span, etag=None, unless=None, most=0, seconds=seconds).range_data

    def stream(
        self, path: str, start: int, etag: str | None, seconds: float
    ) -> tuple[int, str | None, Iterator[memoryview]]:
        """The size and the version of an object, and its bytes from ``start`` on.

        Args:
            seconds: Time limit for each part of the bytes.

        Raises:
            RemoteError: Also if the server sends whole objects only, and ``start`` is not zero.
        """
        info = self.head(path, seconds=seconds)
        self._check_version(path, info.etag, etag)
        spans = ((first, min(first + self._chunk, info.size)) for first in range(start, info.size, self._chunk))
        chunks = (self._part(path, span, info.etag, seconds) for span in spans)
        return info.size, info.etag, map(memoryview, chunks)

    def _part(self, path: str, span: tuple[int, int], etag: str | None, seconds: float) -> "Buffer":
        """A range of the version that is streamed."""
        return self._fetch(path, span, etag, None, 0, seconds).range_data

    @abstractmethod
    def head(self, path: str, *, seconds: float) -> ObjectInfo: ...

    @abstractmethod
    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]: ...

    @abstractmethod
    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None: ...

    def retry_after(self, error: RemoteError) -> float | None:
        """How many seconds to wait before the next attempt, if the server says so."""
        return None

    def _check_version(self, path: str, found: str | None, etag: str | None, unless: str | None = None) -> None:
        """Raise if the object has another version than ``etag``, or ``NotModified`` if it still has ``unless``."""
        if etag is not None and found != etag:
            raise is_changed(self._name(path), found, etag)
        if unless is not None and found == unless:
            raise NotModified

    def _name(self, path: str) -> str:
        """The URL of an object in messages."""
        return redacted(url_of(self._url, path))
