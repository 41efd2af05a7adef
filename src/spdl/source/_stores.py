"""``RangeStore``, the protocol of stores read by ranges; local files as such a store; and the errors of shards."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from glob import escape
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from spdl._addresses import redacted


def _rebuild(cls: type[ShardError], args: tuple[Any, ...], shard: str, offset: int | None) -> ShardError:
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


#: Number of local files that each :class:`LocalFiles` keeps open between reads.
_MAX_OPEN: Final = 64


class StoredInfo(Protocol):
    """Path, size and version of an object in a store."""

    @property
    def path(self) -> str:
        """Path of the object in the store."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    @property
    def etag(self) -> str | None:
        """The version, which changes with the content; ``None``: the store has no versions."""


@runtime_checkable
class RangeStore(Protocol):
    """A store of shards: its objects can be listed, and read by ranges.

    ``spdl.remote.RemoteStore`` is one. If the store also has ``put(path, data)``, an index can be saved in it. If it
    has ``head(path)``, it need not be able to list.
    """

    def list(self, pattern: str, /) -> Iterable[StoredInfo]:
        """The objects whose paths match a pattern such as ``"train/*.tar"``: with ``path``, ``size`` and ``etag``."""

    def read(self, located: Any, /) -> bytes:
        """Read a byte range: of any object with ``path``, ``offset``, ``length`` and ``etag``.

        The parameter's type is ``Any``, because stores have their own types for it.
        """


class FilePart(NamedTuple):
    """A byte range of a file or object."""

    path: str
    offset: int
    length: int
    etag: str | None = None


class StoredFile(NamedTuple):
    """A file or object, with its size and version."""

    path: str
    size: int
    etag: str | None


class LocalFiles:
    """Local files as a store. The files used last stay open. Thread-safe; safe after fork.

    The version of a file is its modification time. It is checked when the file is opened.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenFile] = {}

    def describe(self, path: str) -> StoredFile:
        """Get size and version of a file.

        Raises:
            FileNotFoundError: The file does not exist, or is a folder.
            OSError: The file's status cannot be read.
        """
        try:
            found = os.stat(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"no such shard or file: {path!r}") from error
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(f"not a file, but a folder: {path!r}")
        return StoredFile(path, found.st_size, f"{found.st_mtime_ns}")

    def list(self, pattern: str, /) -> list[StoredFile]:
        """The files that match a pattern of :mod:`glob`, sorted."""
        import glob

        return [self.describe(path) for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path)]

    def read(self, located: Any, /) -> bytes:
        """Read a byte range of a file. Returns fewer bytes if the file ends earlier.

        Raises:
            StaleIndexError: The file has another version.
        """
        return self.read_part(located.path, located.offset, located.length, located.etag)

    def read_part(self, path: str, offset: int, length: int, etag: str | None = None) -> bytes:
        """Same as ``read``, with separate arguments."""
        file = self._open.get(path)
        if file is None:
            file = self._keep(path, etag)
        found = os.pread(file.number, length, offset)
        if len(found) == length or not found:
            return found
        parts = [found]  # one read returns at most 2 GiB
        while found:
            offset += len(found)
            length -= len(found)
            found = os.pread(file.number, length, offset)
            parts.append(found)
        return b"".join(parts)

    def put(self, path: str, data: bytes) -> None:
        """Write a file atomically."""
        write_whole(path, data)

    def _keep(self, path: str, etag: str | None) -> _OpenFile:
        file = _OpenFile(path)
        if etag is not None and etag != f"{os.fstat(file.number).st_mtime_ns}":
            raise StaleIndexError(
                f"{path!r} has changed since it was indexed, so its index is invalid. Build the index again", shard=path
            )
        # Drop the oldest files first. A file that another thread is reading is closed when that thread drops it.
        while len(self._open) >= _MAX_OPEN:
            try:
                self._open.pop(next(iter(self._open)), None)
            except (StopIteration, RuntimeError):  # another thread dropped it
                break
        return self._open.setdefault(path, file)

    def __reduce__(self) -> tuple[type[LocalFiles], tuple[()]]:
        return type(self), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _OpenFile:
    """An open file, closed with the last reference."""

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:  # `os` may be gone at exit
        if self.number >= 0:
            _close(self.number)


class StoreFolders:
    """Looks up objects by name: with one request per folder, not one per object."""

    def __init__(self, store: RangeStore) -> None:
        self.store = store
        self._folders: dict[str, dict[str, StoredFile] | None] = {}
        #: Whether no folder of the store has refused to be listed.
        self.can_list = True

    def get(self, name: str) -> StoredFile | None:
        """Size and version of an object; ``None``: there is none with this name.

        Raises:
            RuntimeError: The store cannot tell.
        """
        folder = name[: name.rfind("/") + 1]
        if folder not in self._folders:
            self._folders[folder] = self._listed(folder)
        listed = self._folders[folder]
        if listed is not None:
            return listed.get(name)
        self.can_list = False
        try:
            found = self.described(name)
        except FileNotFoundError:
            return None
        return found if found.path == name else None

    def described(self, name: str) -> StoredFile:
        """Size and version of an object, without a list.

        Raises:
            FileNotFoundError: There is none with this name.
        """
        return as_stored(self.store.head(name))  # type: ignore[attr-defined]  # as _listed has found

    def _listed(self, folder: str) -> dict[str, StoredFile] | None:
        """The objects in a folder; ``None`` if it cannot be listed but the store has ``head``."""
        try:
            return {info.path: as_stored(info) for info in self.store.list(f"{escape(folder)}*")}
        except RuntimeError:  # web servers, and buckets whose users may read but not list
            if not callable(getattr(self.store, "head", None)):
                raise
            return None


def list_named(store: RangeStore, names: Sequence[str]) -> list[StoredFile]:
    """Look up objects by name, in this order.

    Raises:
        FileNotFoundError: One does not exist.
    """
    if isinstance(store, LocalFiles):
        return [store.describe(name) for name in names]
    folders = StoreFolders(store)
    found = [folders.get(name) for name in names]
    if None in found:
        raise FileNotFoundError(f"no such shard or file: {redacted(names[found.index(None)])!r} in {store!r}")
    return [file for file in found if file is not None]


def read_object(store: RangeStore, path: str) -> memoryview[int]:
    """A whole object.

    Raises:
        FileNotFoundError: It does not exist.
    """
    size = list_named(store, [path])[0].size
    return memoryview(bytes(store.read(FilePart(path, 0, size))))


def put_object(store: RangeStore, path: str, data: bytes) -> None:
    """Write an object, if the store can.

    Raises:
        RuntimeError: It has no method for it, or the method failed.
    """
    put: Callable[[str, bytes], Any] | None = getattr(store, "put", None)
    if put is None:
        raise RuntimeError(f"{store!r} has no method put(path, data)")
    put(path, data)


def as_stored(info: StoredInfo) -> StoredFile:
    """What a store says about an object, as our type."""
    return StoredFile(info.path, info.size, info.etag)


def write_whole(path: str | os.PathLike[str], data: bytes | memoryview[int]) -> None:
    """Write a file atomically, by renaming a temporary file: readers see either the old or the new content.

    Raises:
        OSError: The file cannot be written.
    """
    from spdl.resume._files import replace_file

    target = Path(path)
    if target.exists() and not target.is_file():  # a device, such as /dev/null, must not be replaced
        target.write_bytes(data)
    else:
        replace_file(os.fspath(path), data)
