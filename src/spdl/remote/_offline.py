"""A store without network: what its cache has."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._client import Client, Fetched, NotModified, ObjectInfo
from ._errors import RemoteChangedError, RemoteOfflineError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._cache import DiskCache


class OfflineClient(Client):
    """Answers from a cache. Versions are those of the last run with network.

    Args:
        key: Name of the store in the cache.
    """

    def __init__(self, url: str, key: str, cache: "DiskCache") -> None:
        super().__init__(url)
        self._key, self._cache = key, cache

    def _fetch(
        self, path: str, span: tuple[int, int] | None, etag: str | None, unless: str | None, most: int, seconds: float
    ) -> Fetched:
        if unless is not None:
            raise NotModified
        info = self.head(path, seconds=seconds)
        if etag is not None and info.etag != etag:
            raise RemoteChangedError._at("read", self._name(path), f"the cache has version {info.etag}, not {etag}")
        if span is not None:
            raise self._missing("read", path)
        return Fetched(None, info.size, info.etag)

    def stream(
        self, path: str, start: int, etag: str | None, seconds: float
    ) -> tuple[int, str | None, Iterator[memoryview]]:
        raise self._missing("read", path)

    def head(self, path: str, *, seconds: float) -> ObjectInfo:
        info = self._cache._find(self._key, path) or self._cache._recall_head(self._key, path)
        if info is None:
            found = find_listing(self._cache, self._key, path.rpartition("/")[0])
            info = next((each for each in found or () if each.path == path), None)
        if info is None:
            raise self._missing("look at", path)
        return info

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]:
        found = find_listing(self._cache, self._key, prefix)
        if found is None:
            raise self._missing("list", prefix)
        folder = prefix.strip("/")
        return iter([info for info in found if not folder or info.path.startswith(f"{folder}/")])

    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None:
        raise RemoteOfflineError._at("write", self._name(path), "the store is offline")

    def _missing(self, action: str, path: str) -> RemoteOfflineError:
        return RemoteOfflineError._at(
            action,
            self._name(path),
            f"it is not in the cache {self._cache.path!r}, and the store is offline; read it once without offline=True",
        )


def find_listing(cache: "DiskCache", key: str, prefix: str) -> list[ObjectInfo] | None:
    """The kept list of a folder, or of one that contains it."""
    folder = prefix.strip("/")
    while True:
        found = cache._recall_listing(key, folder)
        if found is not None or not folder:
            return found
        folder = folder.rpartition("/")[0]
