"""``RemoteStore``: objects in a bucket, on a web server or in a folder."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from spdl._addresses import redacted, root_of, url_of
from spdl._numbers import as_int, as_seconds

from ._client import Client, Fetched, Located, NotModified, ObjectInfo, Part
from ._errors import RemoteChangedError, RemoteError, is_beyond, is_changed
from ._files import FileClient
from ._fsspec import FsspecClient
from ._library import divide_options, import_obstore
from ._obstore import ObstoreClient
from ._offline import OfflineClient
from ._patterns import compile_pattern, fixed_prefix, matching
from ._reader import open_reader, open_stream
from ._requests import PART, Attempts, Interruptible, Requests, coalesce

if TYPE_CHECKING:
    import io

    from typing_extensions import Buffer

    from ._cache import DiskCache

T = TypeVar("T")
# Inside the class, `list` is a method.
Infos: TypeAlias = list[ObjectInfo]
Several: TypeAlias = list[bytes]

#: One request reads ranges this close to each other: a request costs more than this many bytes.
GAP = 64 * 1024
#: Schemes that obstore reads.
_OBSTORE_SCHEMES = frozenset(("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "http", "https"))
# How often a read restarts because the object was replaced in the meantime.
_MOST_VERSIONS = 3


class RemoteStore:
    """Objects in a bucket, on a web server or in a folder, read from any number of threads.

    .. code-block:: python

        store = RemoteStore(Path("photos"))  # or "s3://bucket/photos"
        names = [info.path for info in store.list("*.jpg")]
        builder = PipelineBuilder().add_source(names).pipe(store.get, concurrency=16)

    Creating it opens nothing. Each process makes its own connections at the first use, so a store can be pickled, and
    used before and after a fork. Requests release the GIL. Requests that fail for a temporary reason (throttling, 5xx,
    broken connections, time limits) are retried, with random pauses, until one deadline.

    Args:
        url: Root of all paths: ``s3://bucket/folder``, ``gs://``, ``az://container/``, ``https://host/``,
            ``file:///folder``, or a local folder. fsspec opens any other scheme, if it and the package for the scheme
            are installed.
        cache: Keeps data on a local disk, for all processes that use the same folder.
        options: Configuration, as for the stores of obstore: ``region``, ``endpoint``, ``skip_signature``,
            ``access_key_id`` and so on, and those of its HTTP client, such as ``allow_http``. Other settings come from
            the provider's environment variables, such as ``AWS_REGION``. For fsspec: its storage options.
        timeout: Limit in seconds for a request with all its attempts. Objects of more than 32 MiB take several
            requests.
        attempts: Most attempts per request. ``None``: as many as ``timeout`` allows.
        offline: Make no requests: objects, listings and versions are those that the cache has from earlier runs. What
            it does not have raises ``RemoteOfflineError``.

    Raises:
        ValueError: The URL has no scheme and is no folder, or has a query; a number is out of range; an option is
            given twice; or it is offline and has no cache.
        TypeError: An argument is of the wrong type.
        RemotePackageError: obstore is not installed.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        cache: "DiskCache | None" = None,
        options: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        attempts: int | None = None,
        offline: bool = False,
    ) -> None:
        seconds = as_seconds("timeout", timeout, positive=True)
        most = None if attempts is None else as_int("attempts", attempts, 1)
        if offline and cache is None:
            raise ValueError("cache must be given with offline=True: an offline store reads only what its cache has")
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options must be a dict, got {type(options).__name__}")
        self._url = root_of(url)
        self._cache = cache
        self._options = dict(options or {})
        self._is_offline = bool(offline)
        if _is_obstores(self._url):
            divide_options(self._url, self._options)
        self._begin(Attempts(most=most, seconds=min(seconds, 1e9)))
        if _is_obstores(self._url) and not offline:
            # Now rather than at the first request: a process forked while another thread imports the module cannot
            # import it.
            import_obstore(self._url)

    #: URLs of objects that the root and the path do not determine, such as signed ones.
    _exact: Mapping[str, str] = MappingProxyType({})

    def _begin(self, attempts: Attempts) -> None:
        # The name of the store in the cache: equal paths at different endpoints are different objects.
        self._key = f"{self._options.get('endpoint', '')}|{self._url}"
        self._requests = Requests(self._connect, attempts)
        # Versions that this process has seen, so that a cached object is validated once per process.
        self._versions: dict[str, ObjectInfo] = {}

    def _connect(self) -> Client:
        """Make the connections of this process."""
        if self._is_offline:
            assert self._cache is not None
            return OfflineClient(self._url, self._key, self._cache)
        if self._url.startswith("file://"):
            return FileClient(self._url)
        if _is_obstores(self._url):
            return ObstoreClient(self._url, self._options, self._exact)
        return FsspecClient(self._url, self._options)

    @classmethod
    def _of_system(cls, system: Any) -> "RemoteStore":
        """The files of an existing fsspec file system. Paths are whole URLs."""
        store = cls("fsspec://")
        store._url = ""
        store._requests = Requests(partial(FsspecClient.of, system), store._requests.attempts)
        return store

    @property
    def url(self) -> str:
        """The root of all paths. Ends with a slash."""
        return self._url

    @property
    def cache(self) -> "DiskCache | None":
        """The cache, as given."""
        return self._cache

    def url_of(self, path: str) -> str:
        """The URL of an object, which all functions that take a URL accept."""
        return self._exact.get(path) or url_of(self._url, path)

    def _shown(self, path: str) -> str:
        """The URL of an object for messages: without a signature."""
        return redacted(self.url_of(path))

    # ------------------------------------------------------------------------------------------------------- looking

    def list(self, pattern: str = "", /) -> Infos:
        """The objects below a folder, or those that match a pattern, sorted by path.

        Args:
            pattern: ``""``: all. A folder: all below it. With special characters, a pattern of whole paths: ``*``
                matches within a name, ``**/`` any number of folders, ``?`` one character, ``[ab]`` one of several.

        Raises:
            RemoteError: The store cannot be listed. Only HTTP servers that speak WebDAV can.
        """
        expression = compile_pattern(pattern)
        prefix = pattern if expression is None else fixed_prefix(pattern)
        cache = self._cache

        found = self._requests.run(
            lambda client, seconds: sorted(client.list(prefix, seconds=seconds), key=lambda info: info.path)
        )
        if cache is not None and not self._is_offline:
            cache._remember_listing(self._key, prefix, found)
        if expression is not None:
            found = matching(pattern, found)
        if cache is not None:
            self._versions.update((info.path, info) for info in found)
        return found

    def head(self, path: str) -> ObjectInfo:
        """Size and version of an object.

        Raises:
            RemoteNotFoundError: There is no such object.
            RemoteError: See the other classes derived from it.
        """
        _check_path(path)
        info = self._requests.run(lambda client, seconds: client.head(path, seconds=seconds))
        if self._cache is not None:
            self._versions[path] = info
        return info

    def size(self, path: str) -> int:
        """Number of bytes of an object. Errors are those of ``head``."""
        return self.head(path).size

    def refresh(self) -> None:
        """Forget which versions of objects were seen, so that each cached object is validated again by one request."""
        self._versions.clear()

    # ------------------------------------------------------------------------------------------------------- reading

    def get(self, path: str, *, etag: str | None = None) -> bytes:
        """A whole object.

        Args:
            path: Path below the root.
            etag: Version that it must have, as returned by ``head`` and ``list``.

        Raises:
            RemoteNotFoundError: There is no such object.
            RemoteDeniedError: The credentials are missing or do not suffice.
            RemoteChangedError: It has another version.
            RemoteThrottledError, RemoteUnavailableError, RemoteTimeoutError: No attempt succeeded.
            RemoteError: Anything else.
        """
        return bytes(self._get(path, etag))

    def get_range(self, path: str, offset: int, length: int, *, etag: str | None = None) -> bytes:
        """The bytes ``[offset, offset + length)`` of an object.

        Raises:
            RemoteRangeError: The object is shorter. Also a ``ValueError``.
            ValueError: A number is negative.
            RemoteError: As for ``get``.
        """
        return self.read(Located(path, offset, length, etag))

    def get_ranges(self, path: str, ranges: Iterable[tuple[int, int]], *, etag: str | None = None) -> Several:
        """Several ranges ``(offset, length)`` of an object, in the order given.

        Ranges less than 64 KiB apart are read by one request. Errors are those of ``get_range``.
        """
        return self.read_many([Located(path, offset, length, etag) for offset, length in ranges])

    def read(self, located: Part, /) -> bytes:
        """The bytes that ``located`` describes: a ``Located``, or anything with the same attributes.

        Errors are those of ``get`` and ``get_range``.
        """
        if located.length is None:
            if located.offset == 0:
                return self.get(located.path, etag=located.etag)
            info = self._version(located.path)
            if located.offset > info.size:
                raise is_beyond(self._shown(located.path), located.offset, located.offset, info.size)
            located = Located(located.path, located.offset, info.size - located.offset, located.etag)
        assert located.length is not None
        return bytes(self._read(located.path, located.offset, located.offset + located.length, located.etag))

    def read_many(self, located: Iterable[Part], /) -> Several:
        """``read`` for each, with fewer requests: ranges of an object less than 64 KiB apart are read by one."""
        items = [*located]
        results: list[bytes] = [b""] * len(items)
        groups: dict[tuple[str, str | None], list[int]] = {}
        for index, item in enumerate(items):
            if item.length is None:
                results[index] = self.read(item)
            else:
                groups.setdefault((item.path, item.etag), []).append(index)
        for (path, etag), indices in groups.items():
            ranges = [(items[index].offset, items[index].length or 0) for index in indices]
            for span in coalesce(ranges, gap=GAP, largest=PART):
                data = memoryview(self._read(path, span.start, span.stop, etag))
                for member in span.members:
                    offset, length = ranges[member]
                    results[indices[member]] = bytes(data[offset - span.start : offset - span.start + length])
        return results

    def open(self, path: str) -> "io.BufferedReader":
        """A seekable binary file that reads an object in blocks, for code that needs a file.

        The version is the one at the time of the call: if the object is replaced later, reading raises
        ``RemoteChangedError``. Opening raises the same errors as ``head``.
        """
        return open_reader(self.read, self._version(path), self.url_of(path))

    # ------------------------------------------------------------------------------------------------------- writing

    def put(self, path: str, data: "Buffer") -> str | None:
        """Write an object, replacing an existing one. Readers see either the old object or the new one.

        Returns:
            Version of the new object, if the store reports it.

        Raises:
            RemoteDeniedError: The credentials are missing or do not suffice.
            RemoteError: As for ``get``; or the store, such as a web server, does not accept objects.
        """
        _check_path(path)
        self._versions.pop(path, None)
        etag = self._requests.run(lambda client, seconds: client.put(path, data, seconds=seconds))
        if self._cache is not None and etag is not None:
            self._cache._note_written(self._key, ObjectInfo(path, memoryview(data).nbytes, etag), data)
        return etag

    # ------------------------------------------------------------------------------------------ versions and the cache

    def _with_exact(self, exact: Mapping[str, str]) -> "RemoteStore":
        """The same store, which requests some objects by given URLs."""
        other = object.__new__(RemoteStore)
        other.__setstate__(self.__getstate__() | {"_exact": {**self._exact, **exact}})
        return other

    def _open_stream(self, path: str) -> "io.BufferedReader":
        """An object as a file that is read from start to end, by one request. Errors are those of ``get``."""
        return open_stream(self._requests, path, self._shown(path))

    def _with(self, attempts: Attempts, interruptible: Interruptible) -> "RemoteStore":
        """The same store with the same connections, but other settings for requests."""
        other = object.__new__(RemoteStore)
        other.__dict__.update(self.__dict__)
        other._requests = self._requests.otherwise(attempts, interruptible)
        return other

    def _get(self, path: str, etag: str | None) -> "Buffer":
        _check_path(path)
        cache = self._cache
        if cache is not None:
            version = self._versions.get(path)
            if version is not None and (etag is None or version.etag == etag):  # the fast path in a second epoch
                data = cache._read_whole(self._key, version)
                if data is not None:
                    return data
            return self._unchanged(path, etag, lambda: self._get_cached(cache, path, etag))
        if etag is None:
            whole = self._requests.fetch_whole(path)
            if whole is not None:
                return whole
        return self._unchanged(path, etag, lambda: self._get_plainly(path, etag))

    def _get_plainly(self, path: str, etag: str | None) -> "Buffer":
        fetched = self._requests.fetch(path, None, etag)
        if fetched.data is not None:
            return fetched.data
        try:
            return self._requests.fetch_span(path, 0, fetched.size, fetched.etag)
        except RemoteError as error:
            if not error._ignores_ranges:
                raise
            return self._stream_whole(path, etag)

    def _stream_whole(self, path: str, etag: str | None) -> bytes:
        """An object of any size, by one request."""
        with open_stream(self._requests, path, self._shown(path), etag) as stream:
            return stream.read()

    def _get_cached(self, cache: "DiskCache", path: str, etag: str | None) -> "Buffer":
        version, data = self._validated(
            cache, path, etag, lambda known: self._requests.fetch(path, None, etag, unless=known)
        )
        return self._read_cached(cache, version, 0, version.size) if data is None else data

    def _validated(
        self, cache: "DiskCache", path: str, etag: str | None, fetch: Callable[[str | None], Fetched]
    ) -> "tuple[ObjectInfo, Buffer | None]":
        """The version of an object, and the bytes that came with it if it is not the one that the cache has.

        Args:
            fetch: Reads it, unless it has the given version. Called if this process has not seen the version.
        """
        version = self._versions.get(path)
        if version is not None and (etag is None or version.etag == etag):
            return version, None
        known = cache._find(self._key, path)
        data = None
        try:
            fetched = fetch(None if known is None else known.etag)
        except NotModified:
            assert known is not None
            version = known
            if etag is not None and known.etag != etag:
                raise is_changed(self._shown(path), known.etag, etag) from None
        else:
            version, data = ObjectInfo(path, fetched.size, fetched.etag), fetched.data
            if data is not None:
                cache._store(self._key, version, 0, data)
        self._versions[path] = version
        return version, data

    def _read(self, path: str, start: int, stop: int, etag: str | None) -> "Buffer":
        _check_path(path)
        if start == stop:
            return b""
        cache = self._cache
        if cache is None and etag is None and stop - start <= PART:
            return self._requests.fetch_range(path, (start, stop))

        def read() -> "Buffer":
            if cache is None:
                return self._requests.fetch_span(path, start, stop, etag)
            version = self._version(path)
            if etag is not None and version.etag != etag:
                raise is_changed(self._shown(path), version.etag, etag)
            if stop > version.size:
                raise is_beyond(self._shown(path), start, stop, version.size)
            return self._read_cached(cache, version, start, stop)

        return self._unchanged(path, etag, read)

    def _read_cached(self, cache: "DiskCache", version: ObjectInfo, start: int, stop: int) -> "Buffer":
        whole: memoryview | None = None

        def fetch(start: int, stop: int) -> "Buffer":
            nonlocal whole
            if whole is None and (stop - start < version.size or version.size > PART):
                try:
                    return self._requests.fetch_span(version.path, start, stop, version.etag)
                except RemoteError as error:
                    if not error._ignores_ranges:
                        raise
                    whole = memoryview(self._stream_whole(version.path, version.etag))
            elif whole is None:  # one plain request, which every server understands
                data = self._requests.fetch(version.path, None, version.etag).data
                if data is None:  # it has grown, or the store is offline
                    return self._requests.fetch_span(version.path, start, stop, version.etag)
                whole = memoryview(data).cast("B")
            if len(whole) != version.size:
                raise is_changed(self._shown(version.path), f"of {len(whole)} bytes", f"of {version.size}")
            return whole[start:stop]

        return cache._read_through(self._key, version, start, stop, fetch)

    def _unchanged(self, path: str, etag: str | None, read: Callable[[], T]) -> T:
        """Read again if the object was replaced and any version is accepted, or if the known version is outdated."""
        for _ in range(_MOST_VERSIONS - 1):
            had = self._versions.get(path)
            try:
                return read()
            except RemoteChangedError:
                self._versions.pop(path, None)
                if etag is not None and had is None:
                    raise
        return read()

    def _version(self, path: str) -> ObjectInfo:
        return self._versions.get(path) or self.head(path)

    # ------------------------------------------------------------------------------------------------- other processes

    def __getstate__(self) -> dict[str, Any]:
        state = {name: self.__dict__[name] for name in ("_url", "_cache", "_options", "_is_offline")}
        state["_exact"] = dict(self._exact)
        return {**state, "attempts": self._requests.attempts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attempts = state.pop("attempts")
        self.__dict__.update(state)
        self._begin(attempts)

    def __repr__(self) -> str:
        # Options may hold credentials.
        cache = "" if self._cache is None else f", cache={self._cache!r}"
        return f"RemoteStore({redacted(self._url)!r}{cache}{', offline=True' if self._is_offline else ''})"


def _is_obstores(url: str) -> bool:
    return url.partition("://")[0] in _OBSTORE_SCHEMES


def _check_path(path: str) -> None:
    if not isinstance(path, str):
        raise TypeError(f"path must be str, got {type(path).__name__}")
    if not path.strip("/"):
        raise RemoteError(f"path must name an object, got {path!r}", action="read")
