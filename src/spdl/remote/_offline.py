"""A store without network: what its cache has."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spdl._addresses import redacted, url_of

from ._client import Fetched, NotModified, ObjectInfo
from ._errors import RemoteChangedError, RemoteError, RemoteOfflineError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._cache import DiskCache


class OfflineClient:
    """Answers from a cache. Versions are those of the last run with network.

    Args:
        key: Name of the store in the cache.
    """

    def __init__(self, url: str, key: str, cache: "DiskCache") -> None:
        self._url, self._key, self._cache = url, key, cache

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
        if unless is not None:
            raise NotModified
        info = self.head(path, seconds=seconds)
        if etag is not None and info.etag != etag:
            raise RemoteChangedError(
                f"cannot read {self._name(path)}: the cache has version {info.etag}, not {etag}",
                url=self._name(path),
                action="read",
            )
        if span is not None:
            raise self._missing("read", path)
        return Fetched(None, info.size, info.etag)

    def fetch_start(self, path: str, count: int, *, etag: str | None, unless: str | None, seconds: float) -> Fetched:
        return self.fetch(path, (0, count), etag=etag, unless=unless, most=0, seconds=seconds)

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        raise self._missing("read", path)

    def fetch_range(self, path: str, span: tuple[int, int], seconds: float) -> "Buffer":
        raise self._missing("read", path)

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
        url = self._name(path)
        raise RemoteOfflineError(f"cannot write {url}: the store is offline", url=url, action="write")

    def retry_after(self, error: RemoteError) -> float | None:
        return None

    def _name(self, path: str) -> str:
        return redacted(url_of(self._url, path))

    def _missing(self, action: str, path: str) -> RemoteOfflineError:
        url = self._name(path)
        return RemoteOfflineError(
            f"cannot {action} {url}: it is not in the cache {self._cache.path!r}, and the store is offline;"
            " read it once without offline=True",
            url=url,
            action=action,
        )


def find_listing(cache: "DiskCache", key: str, prefix: str) -> list[ObjectInfo] | None:
    """The kept list of a folder, or of one that contains it."""
    folder = prefix.strip("/")
    while True:
        found = cache._recall_listing(key, folder)
        if found is not None or not folder:
            return found
        folder = folder.rpartition("/")[0]
