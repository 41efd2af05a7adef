"""Where bytes are: files of this machine, or objects of a store that can be read by ranges."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from ._errors import StaleIndexError

__all__ = ["FilePart", "LocalFiles", "Located", "RangeStore", "StoredFile", "list_named", "write_whole"]

#: Local files that are kept open between reads, by each :class:`LocalFiles`.
_MAX_OPEN: Final = 64
_WILDCARD: Final = re.compile(r"[*?\[]")


class Located(Protocol):
    """A part of a file or object."""

    @property
    def path(self) -> str:
        """Of the object, as the store knows it."""

    @property
    def offset(self) -> int:
        """Of the first byte."""

    @property
    def length(self) -> int:
        """Number of bytes."""

    @property
    def etag(self) -> str | None:
        """The version that is meant; ``None``: any."""


class StoredInfo(Protocol):
    """What a store says of an object."""

    @property
    def path(self) -> str:
        """As the store knows it."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    @property
    def etag(self) -> str | None:
        """Another one for each version; ``None``: the store has none."""


@runtime_checkable
class RangeStore(Protocol):
    """What holds shards: objects that can be listed, and read in part.

    ``spdl.remote.RemoteStore`` is one. If it also has ``put(path, data)``, an index is saved in it; if it has
    ``head(path)``, it need not be able to list.
    """

    def list(self, pattern: str, /) -> Iterable[StoredInfo]:
        """The objects whose paths match, as ``"train/*.tar"``: each has ``path``, ``size`` and ``etag``."""

    def read(self, located: Any, /) -> bytes:
        """The bytes of a part: of anything that has ``path``, ``offset``, ``length`` and ``etag``.

        (Any, because stores have types of their own for it.)
        """


class FilePart(NamedTuple):
    """A part of a file or object."""

    path: str
    offset: int
    length: int
    etag: str | None = None


class StoredFile(NamedTuple):
    """A file or object, and its version."""

    path: str
    size: int
    etag: str | None


class LocalFiles:
    """The files of this machine as a store. Files that are read often stay open. Thread-safe; safe after fork.

    The version of a file is its time of change. It is compared when the file is opened.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenFile] = {}

    def describe(self, path: str) -> StoredFile:
        """Get size and version of a file.

        Raises:
            FileNotFoundError: It is not there, or a folder.
            OSError: It cannot be looked up.
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

    def read(self, located: Located, /) -> bytes:
        """The bytes of a part of a file; fewer if it ends before.

        Raises:
            StaleIndexError: It is of another version.
        """
        return self.read_part(located.path, located.offset, located.length, located.etag)

    def read_part(self, path: str, offset: int, length: int, etag: str | None = None) -> bytes:
        """The same."""
        file = self._open.get(path)
        if file is None:
            file = self._keep(path, etag)
        found = os.pread(file.number, length, offset)
        if len(found) == length or not found:
            return found
        parts = [found]  # a read gives 2 GiB at most
        while found:
            offset += len(found)
            length -= len(found)
            found = os.pread(file.number, length, offset)
            parts.append(found)
        return b"".join(parts)

    def put(self, path: str, data: bytes) -> None:
        """Write a file as a whole: under another name first, so that nobody sees a part of it."""
        write_whole(path, data)

    def _keep(self, path: str, etag: str | None) -> _OpenFile:
        file = _OpenFile(path)
        if etag is not None and etag != f"{os.fstat(file.number).st_mtime_ns}":
            raise StaleIndexError(
                f"{path!r} has changed since it was indexed, so what is where in it is not known. Make the index again",
                shard=path,
            )
        # Oldest first. A thread that reads one that goes here still refers to it: it is closed afterwards.
        while len(self._open) >= _MAX_OPEN:
            try:
                self._open.pop(next(iter(self._open)), None)
            except (StopIteration, RuntimeError):  # another thread did
                break
        return self._open.setdefault(path, file)

    def __reduce__(self) -> tuple[type[LocalFiles], tuple[()]]:
        return type(self), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _OpenFile:
    """A file that is closed when nobody refers to it."""

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:  # `os` may be gone at exit
        if self.number >= 0:
            _close(self.number)


def list_named(store: RangeStore, patterns: Sequence[str]) -> list[StoredFile]:
    """What a store says of the objects that patterns and names stand for, in this order, each once.

    Raises:
        FileNotFoundError: A pattern matches nothing, or there is no object of a name.
    """
    found: dict[str, StoredFile] = {}
    folders: dict[str, dict[str, StoredFile] | None] = {}
    for pattern in patterns:
        if _WILDCARD.search(pattern):
            matching = sorted(_facts(info) for info in store.list(pattern))
        elif isinstance(store, LocalFiles):
            matching = [store.describe(pattern)]
        else:
            folder = pattern[: pattern.rfind("/") + 1]
            if folder not in folders:  # one request, and not one for each shard
                folders[folder] = _listed(store, folder)
            listed = folders[folder]
            if listed is None:
                matching = [_facts(store.head(pattern))]  # type: ignore[attr-defined]  # as _listed has found
            else:
                matching = [listed[pattern]] if pattern in listed else []
        if not matching:
            raise FileNotFoundError(f"no such shard or file, or none that matches: {pattern!r} in {store!r}")
        found.update((file.path, file) for file in matching)
    return list(found.values())


def _listed(store: RangeStore, folder: str) -> dict[str, StoredFile] | None:
    """The objects in a folder; ``None``: it cannot be listed, and the store describes objects one by one."""
    try:
        return {info.path: _facts(info) for info in store.list(f"{folder}*")}
    except RuntimeError:  # web servers, and buckets whose users may only read
        if not callable(getattr(store, "head", None)):
            raise
        return None


def _facts(info: StoredInfo) -> StoredFile:
    return StoredFile(info.path, info.size, info.etag)


def write_whole(path: str | os.PathLike[str], data: bytes | memoryview[int]) -> None:
    """Write a file under another name, and rename it: whoever opens it finds the old one or the new one, whole.

    Raises:
        OSError: It cannot be written. Nothing is left over.
    """
    import tempfile

    target = Path(path)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise
