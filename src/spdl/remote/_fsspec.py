"""Requests by fsspec, for schemes that obstore does not support.

Of local files, links are followed, to files and to folders, also out of the root: as people use them for data sets that
are put together from several disks. FIFOs, sockets and devices are no objects: to open a FIFO would wait for its
writer, and a device may have no end.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ._client import Fetched, NotModified, ObjectInfo
from ._errors import (
    RemoteChangedError,
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemotePackageError,
    RemoteRangeError,
    RemoteTimeoutError,
    RemoteUnavailableError,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class LocalFiles:
    """The files below the root of a ``file`` URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._root = unquote(urlsplit(url).path)

    def check(self, path: str) -> None:
        """Refuse what is neither a file nor a folder. What does not exist, or is a loop, is left to the caller.

        Raises:
            RemoteError: It is a FIFO, a socket or a device.
        """
        try:
            mode = os.stat(f"{self._root}/{path}").st_mode
        except (OSError, ValueError):
            return
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise RemoteError(
                f"cannot read {self._url}{path}: it is not a regular file, but {_kind_of(mode)}",
                url=self._url + path,
                action="read",
            )

    def paths(self, prefix: str) -> Iterator[str]:
        """Yield the paths of all files below a folder of the root, for folders with links that lead back.

        A link to a folder that it is in is left out, as are links to nothing, and everything that is no file.
        """
        start = prefix.strip("/")
        folders = [(start, frozenset({_place_of(f"{self._root}/{start}")}))]
        while folders:
            folder, above = folders.pop()
            try:
                names = sorted(os.listdir(f"{self._root}/{folder}"))
            except OSError as exc:
                if not folder or folder == start:
                    raise
                raise OSError(exc.errno, f"folder {folder}: {exc.strerror}") from exc
            for name in names:
                path = f"{folder}/{name}" if folder else name
                try:
                    found = os.stat(f"{self._root}/{path}")
                except OSError:  # a link to nothing or to itself, or a file that has just been removed
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield path
                elif stat.S_ISDIR(found.st_mode) and (place := (found.st_dev, found.st_ino)) not in above:
                    folders.append((path, above | {place}))


def _place_of(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _kind_of(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(mode), "something else")


# In this order: the first match counts.
_KINDS: tuple[tuple[type[Exception], type[RemoteError]], ...] = (
    (FileNotFoundError, RemoteNotFoundError),
    (PermissionError, RemoteDeniedError),
    (TimeoutError, RemoteTimeoutError),
    (ConnectionError, RemoteUnavailableError),
)


#: Bytes per request for objects that are read from start to end.
_CHUNK = 8 << 20


class FsspecClient:
    """A file system of fsspec. It uses its own time limits: see the storage options of its package."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            import fsspec  # type: ignore[import-untyped, import-not-found, unused-ignore]  # an extra
        except ImportError as exc:
            raise RemotePackageError(
                f"cannot open {url!r}: obstore has no such scheme, and fsspec is not installed; install it with:"
                " pip install 'spdl-native[fsspec]', and the package for the scheme",
                url=url,
                action="open",
            ) from exc
        self._url = url
        self._root: str | None
        try:
            self._system, self._root = fsspec.core.url_to_fs(url, **options)
        except ImportError as exc:
            raise RemotePackageError(f"cannot open {url!r}: {exc}", url=url, action="open") from exc
        except Exception as exc:  # of any package
            raise RemoteError(f"cannot open {url!r}: {exc}", url=url, action="open") from exc

        self._files = _local_files(self._system)

    @classmethod
    def of(cls, system: Any) -> "FsspecClient":
        """Wrap an existing file system. Paths are whole URLs."""
        client = cls.__new__(cls)
        client._url, client._system, client._root = "", system, None
        client._files = _local_files(system)
        return client

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
        if span is not None and etag is None and unless is None:
            return Fetched(self._read(path, *span), span[1], None)
        info = self.head(path, seconds=seconds)
        if etag is not None and info.etag != etag:
            raise RemoteChangedError(
                f"cannot read {self._url}{path}: it is version {info.etag}, not {etag}", url=self._url + path
            )
        if unless is not None and info.etag == unless:
            raise NotModified
        if span is None and info.size > most:
            return Fetched(None, info.size, info.etag)
        start, stop = span or (0, info.size)
        if stop > info.size:
            raise self._beyond(path, start, stop)
        return Fetched(self._read(path, start, stop), info.size, info.etag)

    def _read(self, path: str, start: int, stop: int) -> bytes:
        self._check(path)
        try:
            data: bytes = self._system.cat_file(self._full(path), start=start, end=stop)
        except Exception as exc:  # of any package
            error = self._translated(exc, "read", path)
            if not isinstance(error, RemoteNotFoundError) and self._is_shorter(path, stop):  # refused as a range
                raise self._beyond(path, start, stop) from exc
            raise error from exc
        if len(data) == stop - start:
            return data
        # Servers that do not support ranges return more. A shorter file or a broken connection returns less.
        # Some return the end of a file for a range that begins after it.
        is_shorter = len(data) < stop - start
        if self.head(path, seconds=0).size < stop:
            kind: type[RemoteError] = RemoteRangeError
        else:
            kind = RemoteUnavailableError if is_shorter else RemoteError
        url = self._url + path
        error = kind(
            f"cannot read bytes {start} to {stop} of {url}: {len(data)} bytes came instead of {stop - start}",
            url=url,
            action="read",
        )
        error._ignores_ranges = kind is RemoteError
        raise error

    def _is_shorter(self, path: str, stop: int) -> bool:
        try:
            return self.head(path, seconds=0).size < stop
        except RemoteError:
            return False

    def _beyond(self, path: str, start: int, stop: int) -> RemoteRangeError:
        url = self._url + path
        return RemoteRangeError(
            f"cannot read bytes {start} to {stop} of {url}: it has fewer; rebuild the index", url=url, action="read"
        )

    def retry_after(self, error: RemoteError) -> float | None:
        return None

    def fetch_start(self, path: str, count: int, *, etag: str | None, unless: str | None, seconds: float) -> Fetched:
        info = self.head(path, seconds=seconds)
        if etag is not None or unless is not None:
            return self.fetch(path, (0, min(count, info.size)), etag=etag, unless=unless, most=0, seconds=seconds)
        return Fetched(self._read(path, 0, min(count, info.size)), info.size, info.etag)

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        self._check(path)
        try:
            data: bytes = self._system.cat_file(self._full(path))
        except Exception as exc:  # of any package
            raise self._translated(exc, "read", path) from exc
        return data

    def fetch_range(self, path: str, span: tuple[int, int], seconds: float) -> "Buffer":
        return self._read(path, *span)

    def stream(
        self, path: str, start: int, etag: str | None, seconds: float
    ) -> tuple[int, str | None, Iterator[memoryview]]:
        info = self.head(path, seconds=seconds)
        if etag is not None and info.etag != etag:
            raise RemoteChangedError(
                f"cannot read {self._url}{path}: it is version {info.etag}, not {etag}", url=self._url + path
            )
        spans = ((first, min(first + _CHUNK, info.size)) for first in range(start, info.size, _CHUNK))
        return info.size, info.etag, (memoryview(self._read(path, *span)) for span in spans)

    def head(self, path: str, *, seconds: float) -> ObjectInfo:
        self._check(path)
        try:
            return _info_of(path, self._system.info(self._full(path)))
        except Exception as exc:  # of any package
            raise self._translated(exc, "look at", path) from exc

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]:
        try:
            if self._files is not None:  # ``find`` follows no links to folders, and lists what is no file
                names = self._files.paths(self._full(prefix))
                found = {f"/{name}": self._system.info(f"/{name}") for name in names}
            else:
                found = self._system.find(self._full(prefix), detail=True)
        except Exception as exc:  # of any package
            raise self._translated(exc, "list", prefix) from exc
        root = (self._root or "").rstrip("/") + "/"
        for name, details in found.items():
            yield _info_of(name.removeprefix(root), details)

    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None:
        try:
            self._system.pipe_file(self._full(path), bytes(data))
        except Exception as exc:  # of any package
            raise self._translated(exc, "write", path) from exc
        return None

    def _check(self, path: str) -> None:
        if self._files is not None:
            self._files.check(self._full(path))

    def _full(self, path: str) -> str:
        if self._root is None:
            return str(self._system._strip_protocol(path))
        return f"{self._root.rstrip('/')}/{path}".rstrip("/")

    def _translated(self, exc: Exception, action: str, path: str) -> RemoteError:
        kind = next((kind for builtin, kind in _KINDS if isinstance(exc, builtin)), RemoteError)
        url = self._url + path
        reason = str(exc) or type(exc).__name__
        return kind(f"cannot {action} {url}: {reason}", url=url, action=action)


def _local_files(system: Any) -> LocalFiles | None:
    """The files of this machine, if they are what the file system has."""
    protocols = getattr(system, "protocol", ())
    protocols = (protocols,) if isinstance(protocols, str) else protocols
    return LocalFiles("file:///") if {"file", "local"} & set(protocols) else None


def _info_of(path: str, details: Mapping[str, Any]) -> ObjectInfo:
    if details.get("size") is None:
        raise OSError("its size is not known")
    etag = next((str(details[name]) for name in ("ETag", "etag", "e_tag") if details.get(name)), None)
    return ObjectInfo(path, int(details["size"]), etag)
