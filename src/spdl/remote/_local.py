"""Files of this machine that fsspec reads: what links lead to, and what is no file; as ``_files.py`` has it.

Links are followed, to files and to folders, also out of the root: as people use them for data sets that are put
together from several disks. FIFOs, sockets and devices are no objects: to open a FIFO would wait for its writer, and a
device may have no end.
"""

import os
import stat
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from ._errors import RemoteError


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
