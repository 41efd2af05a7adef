"""``DiskCache``: what was read from stores, on a local disk, for all processes of a machine."""

import hashlib
import logging
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spdl._reports import log

from ._located import ObjectInfo
from ._sizes import as_num_bytes
from ._space import Space

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DiskCache"]

_LG = logging.getLogger("spdl.remote")
# A file begins with this, the length of the text that names its content, and that text.
_HEAD = struct.Struct("<8sI")
_MAGIC = b"SPDLC001"
_FIRST_READ = 512  # a header is shorter unless its path is very long
#: The time of last use is written at most this often, in seconds.
_TOUCH_AFTER = 60.0
#: How long a cache that cannot be written is left alone, in seconds.
_REST = 60.0
#: Most bytes that are fetched by one request to fill missing blocks.
_MOST_AT_ONCE = 32 * 1024 * 1024


class DiskCache:
    """Keeps what stores read in a folder, up to a number of bytes; what was not used longest goes first.

    Any number of processes may share the folder, and any of them may be killed at any moment: files get their name when
    they are complete. An entry belongs to a store, a path and a version (ETag), so an object that was replaced is read
    again. Objects without a version are not kept.

    If the folder cannot be written, or the disk is full, this is logged once and reading goes on without the cache.

    Making one opens nothing. It can be pickled.

    Args:
        path: Folder, best on a local disk. It is made if necessary.
        size: Most bytes in it: a number, or text such as ``"200GiB"``.
        block_size: Objects are kept in blocks of so many bytes, so that a range of a large object costs no more than
            the blocks that it touches. ``None``: whole objects only, so that a range fetches the whole object.

    Raises:
        ValueError: A size is not a number of bytes, or less than 1.
        TypeError: An argument has the wrong type.
    """

    def __init__(self, path: str | os.PathLike[str], size: int | str, *, block_size: int | str | None = "4MiB") -> None:
        self._folder = os.path.abspath(os.fsdecode(os.fspath(path)))
        self._size = as_num_bytes("size", size)
        self._block_size = None if block_size is None else as_num_bytes("block_size", block_size)
        self._begin()

    def _begin(self) -> None:
        self._space = Space(self._folder, self._size)
        self._folders: set[str] = set()
        self._is_warned = False
        self._rests_until = 0.0

    @property
    def path(self) -> str:
        """The folder, as an absolute path."""
        return self._folder

    @property
    def size(self) -> int:
        """Most bytes in the folder."""
        return self._size

    def num_bytes(self) -> int:
        """Number of bytes in the folder now, as the file system counts them. Lists the folder, which may take long."""
        try:
            return self._space.num_bytes()
        except FileNotFoundError:
            return 0

    # ------------------------------------------------------------------------------------------------ used by the store

    def _find(self, store: str, path: str) -> ObjectInfo | None:
        """The version of an object of which the first block was kept last."""
        found = self._open(store, path, 0)
        if found is None:
            return None
        descriptor, version, _ = found
        os.close(descriptor)
        return version

    def _store(self, store: str, version: ObjectInfo, start: int, data: "Buffer") -> None:
        """Keep bytes of an object, from the beginning of a block to the end of one, or to that of the object."""
        if version.etag is None or time.monotonic() < self._rests_until:
            return
        view = memoryview(data).cast("B")
        block_size = self._block_size or max(version.size, 1)
        try:
            for first in range(0, max(len(view), 1), block_size):
                part = view[first : first + block_size]
                if not self._write(store, version, (start + first) // block_size, part):
                    return
        except OSError as exc:
            self._rests_until = time.monotonic() + _REST
            if not self._is_warned:
                self._is_warned = True
                log(
                    _LG,
                    logging.WARNING,
                    "Cannot write to the cache in %r: %s. Reading goes on without it. Free disk space, or another one",
                    self._folder,
                    exc,
                )

    def _read_whole(self, store: str, version: ObjectInfo) -> bytes | None:
        """An object that is one block. ``None``: it is not, or is not there."""
        if version.etag is None or version.size > (self._block_size or version.size):
            return None
        return self._read(store, version, 0, 0, version.size)

    def _read_through(
        self, store: str, version: ObjectInfo, start: int, stop: int, fetch: "Callable[[int, int], Buffer]"
    ) -> "Buffer":
        """Bytes of an object, from the cache where it has them.

        Args:
            fetch: Reads a range of that version from the store.
        """
        if start == stop and version.size > 0:
            return b""
        if version.etag is None:
            return fetch(start, stop) if start < stop else b""
        block_size = self._block_size or max(version.size, 1)
        first, last = start // block_size, max(start, stop - 1) // block_size
        if first == last:
            data = self._read(store, version, first, start - first * block_size, stop - first * block_size)
            if data is not None:
                return data
        whole = bytearray(stop - start)
        missing: list[int] = []

        def fill(position: int, data: "Buffer") -> None:
            view = memoryview(data).cast("B")
            skipped = max(0, start - position)
            view = view[skipped : max(skipped, stop - position)]
            target = position + skipped - start
            whole[target : target + len(view)] = view

        def fetch_missing() -> None:
            begin, end = missing[0] * block_size, min((missing[-1] + 1) * block_size, version.size)
            data = fetch(begin, end) if begin < end else b""
            self._store(store, version, begin, data)
            fill(begin, data)
            missing.clear()

        for block in range(first, last + 1):
            begin = block * block_size
            data = None
            if first != last:
                low, high = max(start - begin, 0), min(stop - begin, block_size)
                data = self._read(store, version, block, low, high)
            if data is None:
                missing.append(block)
                if (len(missing) + 1) * block_size > _MOST_AT_ONCE:
                    fetch_missing()
                continue
            if missing:
                fetch_missing()
            fill(max(begin, start), data)
        if missing:
            fetch_missing()
        return whole

    # ------------------------------------------------------------------------------------------------------------ files

    def _path_of(self, store: str, path: str, block: int) -> str:
        """The file of a block. Another version of the object replaces it."""
        text = f"{store}\0{path}\0{block}\0{self._block_size}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()
        return f"{self._folder}/{digest[:2]}/{digest[2:]}"

    def _write(self, store: str, version: ObjectInfo, block: int, data: memoryview) -> bool:
        """False if the file is larger than the cache."""
        text = _name_of(store, version, block)
        head = _HEAD.pack(_MAGIC, len(text)) + text
        path = self._path_of(store, version.path, block)
        reserved = self._space.reserve(len(head) + len(data))
        if reserved is None:
            return False
        try:
            folder = os.path.dirname(path)
            if folder not in self._folders:
                os.makedirs(folder, exist_ok=True)
                self._folders.add(folder)
            reserved.fill([memoryview(head), data], path)
        finally:
            reserved.close()
        return True

    def _read(self, store: str, version: ObjectInfo, block: int, start: int, stop: int) -> bytes | None:
        """Bytes ``[start, stop)`` of a block of that version. ``None``: they are not there."""
        found = self._open(store, version.path, block, version)
        if found is None:
            return None
        descriptor, _, offset = found
        try:
            data = os.pread(descriptor, stop - start, offset + start)
            while len(data) < stop - start:  # a read brings 2 GiB at most
                more = os.pread(descriptor, stop - start - len(data), offset + start + len(data))
                if not more:
                    return None
                data += more
            return data
        except OSError:  # a disk that fails: the store still has it
            return None
        finally:
            os.close(descriptor)

    def _open(
        self, store: str, path: str, block: int, version: ObjectInfo | None = None
    ) -> tuple[int, ObjectInfo, int] | None:
        """Descriptor, version and position of the content of a block, if it is complete; marks it as used.

        Args:
            version: The only one that will do; any without it.
        """
        try:
            descriptor = os.open(self._path_of(store, path, block), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            start = os.pread(descriptor, _FIRST_READ, 0)
            magic, length = _HEAD.unpack_from(start)
            offset = _HEAD.size + length
            if magic == _MAGIC:
                text = start[_HEAD.size : offset] if offset <= len(start) else os.pread(descriptor, length, _HEAD.size)
                if version is None:
                    size, etag = text.decode("utf-8", "surrogateescape").rsplit("\0", 2)[1:]
                    version = ObjectInfo(path, int(size), etag)
                status = os.fstat(descriptor)
                whole = self._block_size or version.size
                expected = offset + min(whole, version.size - block * whole)
                if text == _name_of(store, version, block) and status.st_size == expected:
                    if time.time() - status.st_mtime > _TOUCH_AFTER:
                        with suppress(OSError):  # the folder may be read-only
                            os.utime(descriptor)
                    return descriptor, version, offset
        except (OSError, ValueError, struct.error):  # not a file of ours, or a disk that fails
            pass
        os.close(descriptor)
        return None

    # ------------------------------------------------------------------------------------------------- other processes

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_folder", "_size", "_block_size")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"DiskCache({self._folder!r}, {self._size})"


def _name_of(store: str, version: ObjectInfo, block: int) -> bytes:
    """What a file is, in its head: compared as a whole when it is read."""
    text = f"{store}\0{version.path}\0{block}\0{version.size}\0{version.etag}"
    return text.encode("utf-8", "surrogateescape")
