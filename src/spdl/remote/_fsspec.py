"""Requests by fsspec, for schemes that obstore does not support.

Of local files, links are followed, to files and to folders, also out of the root: as people use them for data sets that
are put together from several disks. FIFOs, sockets and devices are no objects: to open a FIFO would wait for its
writer, and a device may have no end.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ._client import Client, Fetched, ObjectInfo
from ._errors import (
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemotePackageError,
    RemoteRangeError,
    RemoteTimeoutError,
    RemoteUnavailableError,
    is_beyond,
)
from ._files import FileClient

if TYPE_CHECKING:
    from typing_extensions import Buffer


# In this order: the first match counts.
_KINDS: tuple[tuple[type[Exception], type[RemoteError]], ...] = (
    (FileNotFoundError, RemoteNotFoundError),
    (PermissionError, RemoteDeniedError),
    (TimeoutError, RemoteTimeoutError),
    (ConnectionError, RemoteUnavailableError),
)


class FsspecClient(Client):
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
        super().__init__(url)
        self._root: str | None
        try:
            self._system, self._root = fsspec.core.url_to_fs(url, **options)
        except ImportError as exc:
            raise RemotePackageError(f"cannot open {url!r}: {exc}", url=url, action="open") from exc
        except Exception as exc:  # of any package
            raise RemoteError(f"cannot open {url!r}: {exc}", url=url, action="open") from exc

        self._is_local = _is_local(self._system)

    @classmethod
    def of(cls, system: Any) -> "FsspecClient":
        """Wrap an existing file system. Paths are whole URLs."""
        client = cls.__new__(cls)
        client._url, client._system, client._root = "", system, None
        client._is_local = _is_local(system)
        return client

    def _fetch(
        self, path: str, span: tuple[int, int] | None, etag: str | None, unless: str | None, most: int, seconds: float
    ) -> Fetched:
        if span is not None and etag is None and unless is None:
            return Fetched(self._read(path, *span), span[1], None)
        info = self.head(path, seconds=seconds)
        self._check_version(path, info.etag, etag, unless)
        if span is None and info.size > most:
            return Fetched(None, info.size, info.etag)
        start, stop = span or (0, info.size)
        if stop > info.size:
            raise is_beyond(self._name(path), start, stop, info.size)
        return Fetched(self._read(path, start, stop), info.size, info.etag)

    def _read(self, path: str, start: int, stop: int) -> bytes:
        self._check(path)
        try:
            data: bytes = self._system.cat_file(self._full(path), start=start, end=stop)
        except Exception as exc:  # of any package
            error = self._translated(exc, "read", path)
            if not isinstance(error, RemoteNotFoundError):
                with suppress(RemoteError):
                    if (size := self.head(path, seconds=0).size) < stop:  # refused as a range
                        error = is_beyond(self._name(path), start, stop, size)
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
        url = self._name(path)
        text = f"cannot read bytes {start} to {stop} of {url}: {len(data)} bytes came instead of {stop - start}"
        error = kind(text, url=url, action="read")
        error._ignores_ranges = kind is RemoteError
        raise error

    def fetch_start(self, path: str, count: int, *, etag: str | None, unless: str | None, seconds: float) -> Fetched:
        info = self.head(path, seconds=seconds)
        self._check_version(path, info.etag, etag, unless)
        return Fetched(self._read(path, 0, min(count, info.size)), info.size, info.etag)

    def fetch_whole(self, path: str, most: int, seconds: float) -> "Buffer | None":
        self._check(path)
        try:
            data: bytes = self._system.cat_file(self._full(path))
        except Exception as exc:  # of any package
            raise self._translated(exc, "read", path) from exc
        return data

    def _part(self, path: str, span: tuple[int, int], etag: str | None, seconds: float) -> "Buffer":
        return self._read(path, *span)  # no request for the version of each

    def head(self, path: str, *, seconds: float) -> ObjectInfo:
        self._check(path)
        try:
            return _info_of(path, self._system.info(self._full(path)))
        except Exception as exc:  # of any package
            raise self._translated(exc, "look at", path) from exc

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]:
        try:
            if self._is_local:  # ``find`` follows no links to folders, and lists what is no file
                names = [f"/{info.path}" for info in FileClient("file:///").list(self._full(prefix), seconds=seconds)]
                found = {name: self._system.info(name) for name in names}
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
        """Refuse what is neither a file nor a folder. What does not exist, or is a loop, is left to the caller."""
        if not self._is_local:
            return
        try:
            mode = os.stat(self._full(path)).st_mode
        except (OSError, ValueError):
            return
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise RemoteError._at("read", self._name(path), "it is not a regular file")

    def _full(self, path: str) -> str:
        if self._root is None:
            return str(self._system._strip_protocol(path))
        return f"{self._root.rstrip('/')}/{path}".rstrip("/")

    def _translated(self, exc: Exception, action: str, path: str) -> RemoteError:
        kind = next((kind for builtin, kind in _KINDS if isinstance(exc, builtin)), RemoteError)
        return kind._at(action, self._name(path), str(exc) or type(exc).__name__)

    def _name(self, path: str) -> str:
        return self._url + path


def _is_local(system: Any) -> bool:
    """Whether the file system has the files of this machine."""
    protocols = getattr(system, "protocol", ())
    return not {"file", "local"}.isdisjoint((protocols,) if isinstance(protocols, str) else protocols)


def _info_of(path: str, details: Mapping[str, Any]) -> ObjectInfo:
    if details.get("size") is None:
        raise OSError("its size is not known")
    etag = next((str(details[name]) for name in ("ETag", "etag", "e_tag") if details.get(name)), None)
    return ObjectInfo(path, int(details["size"]), etag)
