"""Files below a local folder: the one kind of store that needs no library, so that every name of a file works."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from spdl._addresses import local_path

from ._client import Client, Fetched, ObjectInfo
from ._errors import RemoteDeniedError, RemoteError, RemoteNotFoundError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FileClient(Client):
    """The files below a folder. Their versions are made of inode, modification time and size."""

    #: A file that is being written, beside its later name. Not listed.
    _PARTIAL = ".spdl-partial-"
    _chunk = 1 << 20

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._folder = os.path.join(local_path(url), "")

    def _fetch(
        self, path: str, span: tuple[int, int] | None, etag: str | None, unless: str | None, most: int, seconds: float
    ) -> Fetched:
        try:
            descriptor = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                info = _info_of(path, os.fstat(descriptor))
                self._check_version(path, info.etag, etag, unless)
                if span is None and info.size > most:
                    return Fetched(None, info.size, info.etag)
                start, stop = span or (0, info.size)
                data = read_fully(descriptor, start, max(min(stop, info.size) - start, 0))
                if data is None:
                    raise OSError("it became shorter while it was read")
                return Fetched(data, info.size, info.etag)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as exc:
            raise self._translated(exc, "read", path) from exc

    def head(self, path: str, *, seconds: float) -> ObjectInfo:
        try:
            return _info_of(path, os.stat(self._at(path)))
        except (OSError, ValueError) as exc:
            raise self._translated(exc, "look at", path) from exc

    def list(self, prefix: str, *, seconds: float) -> Iterator[ObjectInfo]:
        """All files below a folder; links to folders are followed, but not in circles."""
        prefix = prefix.strip("/")
        todo = [(f"{prefix}/" if prefix else "", frozenset[tuple[int, int]]())]
        while todo:
            folder, above = todo.pop()
            try:
                facts = os.stat(self._folder + folder)
                if (facts.st_dev, facts.st_ino) in above:
                    continue
                with os.scandir(self._folder + folder) as entries:
                    found = list(entries)
            except (FileNotFoundError, NotADirectoryError):  # a store has no empty folders
                continue
            except OSError as exc:
                raise self._translated(exc, "list", folder) from exc
            for entry in found:
                if _is_folder(entry):
                    todo.append((f"{folder}{entry.name}/", above | {(facts.st_dev, facts.st_ino)}))
                elif not entry.name.startswith(self._PARTIAL):
                    with suppress(OSError):  # a broken link, or it was removed in the meantime
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            yield _info_of(folder + entry.name, status)

    def put(self, path: str, data: "Buffer", *, seconds: float) -> str | None:
        try:
            target = self._at(path)
            partial = os.path.join(os.path.dirname(target), f"{self._PARTIAL}{os.urandom(8).hex()}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                with open(partial, "xb") as file:
                    file.write(data)
                os.replace(partial, target)
            except BaseException:
                with suppress(OSError):
                    os.unlink(partial)
                raise
            return _info_of(path, os.stat(target)).etag
        except (OSError, ValueError) as exc:
            raise self._translated(exc, "write", path) from exc

    def _at(self, path: str) -> str:
        if ".." in path.split("/"):
            raise ValueError("it is not below the folder of the store")
        return self._folder + path

    def _translated(self, exc: Exception, action: str, path: str) -> RemoteError:
        kind, advice = RemoteError, ""
        if isinstance(exc, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
            kind, advice = RemoteNotFoundError, "; check the path"
        elif isinstance(exc, PermissionError):
            kind, advice = RemoteDeniedError, "; check its permissions"
        return kind._at(action, self._name(path), f"{getattr(exc, 'strerror', None) or exc}{advice}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def read_fully(descriptor: int, start: int, length: int) -> bytes | None:
    """``None``: the file is shorter."""
    data = os.pread(descriptor, length, start)
    while len(data) < length:  # a read returns at most 2 GiB
        more = os.pread(descriptor, length - len(data), start + len(data))
        if not more:
            return None
        data += more
    return data


def _info_of(path: str, status: os.stat_result) -> ObjectInfo:
    """Size and version of a file.

    Raises:
        IsADirectoryError: It is a folder.
        OSError: It is neither a file nor a folder.
    """
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError("it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is not a regular file")
    return ObjectInfo(path, status.st_size, f'"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"')
