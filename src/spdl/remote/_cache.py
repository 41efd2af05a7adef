"""``DiskCache``: keeps data read from stores on a local disk, for all processes of a machine."""

import hashlib
import json
import logging
import os
import re
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from spdl._numbers import int_or_none
from spdl._reports import log

from ._client import ObjectInfo
from ._files import read_fully
from ._space import Space, foreign_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LG = logging.getLogger("spdl.remote")
# A file begins with this, then the length of the text that names its content, the text, zeros, and the checksum of the
# content in the last four bytes before a multiple of _ALIGNMENT: copying from the middle of a cache line takes a tenth
# longer.
_ALIGNMENT = 64
_HEAD = struct.Struct("<8sI")
_MAGIC = b"SPDLC002"
_CHECKSUM = struct.Struct("<I")
#: With the name of a folder, the name in the cache of its list: one that no object has.
_LIST = "\0list\0"
#: Longest name that is read. Stores have paths of at most 1024 bytes.
_LONGEST_NAME = 64 * 1024
#: The time of last use is written at most this often, in seconds.
_TOUCH_AFTER = 60.0
#: How long to wait before using a cache again that could not be written, in seconds.
_REST = 60.0
#: For how many objects to remember where their first block is, which saves a tenth of the time of a hit: 25 MB. For how
#: many files to remember that their checksum is right.
_MOST_PLACES = 65_536
#: Most bytes that one request fetches to fill missing blocks.
_MOST_AT_ONCE = 32 * 1024 * 1024


class DiskCache:
    """Keeps data that stores have read in a folder, up to a number of bytes. Evicts the least recently used data first.

    .. code-block:: python

        store = RemoteStore(Path("photos"), cache=DiskCache("cache", "10GiB"))  # or "s3://bucket/photos"
        assert store.get("0.jpg") == store.get("0.jpg")

    Any number of processes may share the folder, and any of them may be killed at any moment: a file gets its final
    name when it is complete, and is compared with its checksum when a process first reads it. An entry belongs to a
    store, a path and a version (ETag), so an object that was replaced is read again. Objects without a version are not
    kept.

    If the folder cannot be written, or the disk is full, a warning is logged once and reading continues without the
    cache.

    Creating it writes nothing. It can be pickled.

    Args:
        path: Folder of its own, best on a local disk. It is created if necessary, and carries a mark from the first
            use on. Only files of the cache are counted and removed in it.
        size: Most bytes in it: a number, or text such as ``"200GiB"``.
        block_size: Objects are kept in blocks of this many bytes, so reading a range of a large object fetches only the
            blocks that it touches. ``None``: only whole objects are kept, so reading a range fetches the whole object.

    Raises:
        ValueError: A size is not a number of bytes, or less than 1. The folder has other files and is not a cache.
        TypeError: An argument has the wrong type.
    """

    def __init__(self, path: str | os.PathLike[str], size: int | str, *, block_size: int | str | None = "4MiB") -> None:
        self._folder = os.path.abspath(os.fsdecode(os.fspath(path)))
        self._size = as_num_bytes("size", size)
        self._block_size = None if block_size is None else as_num_bytes("block_size", block_size)
        self._begin()
        with suppress(OSError):  # what cannot be read now is reported when it is used
            foreign = foreign_name(self._folder)
            if foreign is not None:
                raise ValueError(
                    f"path must be a new, empty or earlier folder of a cache: {self._folder!r} has {foreign!r}, which "
                    "no cache has made. Give a folder that is used for nothing else"
                )

    def _begin(self) -> None:
        self._space = Space(self._folder, self._size)
        self._folders: set[str] = set()
        # For objects by store and path: the version, and the file and the header of the first block.
        self._places: dict[tuple[str, str], tuple[ObjectInfo, str, bytes]] = {}
        # Files whose checksum was right: their time of change and number. Another process may have replaced them since.
        self._checked: dict[str, tuple[int, int]] = {}
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
        """The version of an object whose first block was kept last."""
        try:
            with open(self._path_of(store, path, 0), "rb") as file:
                magic, length = _HEAD.unpack(file.read(_HEAD.size))
                if magic != _MAGIC or length > _LONGEST_NAME:
                    return None
                size, etag = file.read(length).decode("utf-8", "surrogateescape").rsplit("\0", 2)[1:]
                return ObjectInfo(path, int(size), etag)
        except (OSError, ValueError, struct.error):  # it does not exist, or is not a file of this cache
            return None

    def _store(self, store: str, version: ObjectInfo, start: int, data: "Buffer") -> None:
        """Keep bytes of an object, from the beginning of a block to the end of a block or of the object."""
        if version.etag is None or time.monotonic() < self._rests_until:
            return
        view = memoryview(data).cast("B")
        block_size = self._block_size or max(version.size, 1)
        if start > 0 and self._find(store, version.path) is None:  # the first block would tell the version
            self._remember_listing(store, f"{version.path}\0", [version])
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
                    "Cannot write to the cache in %r: %s. Reading continues without it: free some disk space",
                    self._folder,
                    exc,
                )

    def _read_whole(self, store: str, version: ObjectInfo) -> bytes | None:
        """An object that fits in one block. ``None``: it does not, or it is not in the cache."""
        if version.etag is None or version.size > (self._block_size or version.size):
            return None
        return self._read(store, version, 0, 0, version.size)

    def _read_through(
        self, store: str, version: ObjectInfo, start: int, stop: int, fetch: "Callable[[int, int], Buffer]"
    ) -> "Buffer":
        """Bytes of an object, from the cache as far as it has them; ``fetch`` reads a range of that version."""
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

    # ----------------------------------------------------------------------------------------- for runs without network

    def _remember(self, store: str, name: str, data: bytes) -> None:
        """Keep data that is not an object, under a name that no object has."""
        info = ObjectInfo(name, len(data), f"{zlib.crc32(data):08x}")
        if self._find(store, name) != info:
            self._store(store, info, 0, data)

    def _recall(self, store: str, name: str) -> bytes | None:
        info = self._find(store, name)
        if info is None:
            return None

        def fetch(start: int, stop: int) -> bytes:
            raise LookupError

        try:
            return bytes(self._read_through(store, info, 0, info.size, fetch))
        except LookupError:  # a part was evicted
            return None

    def _recall_listing(self, store: str, folder: str) -> list[ObjectInfo] | None:
        data = self._recall(store, _LIST + folder.strip("/"))
        if data is None:
            return None
        try:
            return [ObjectInfo(str(path), int(size), etag) for path, size, etag in json.loads(zlib.decompress(data))]
        except (zlib.error, ValueError, TypeError):  # it is none
            return None

    def _remember_listing(self, store: str, folder: str, found: list[ObjectInfo]) -> None:
        rows = [[info.path, info.size, info.etag] for info in found]
        text = json.dumps(rows, separators=(",", ":"))
        self._remember(store, _LIST + folder.strip("/"), zlib.compress(text.encode(), 1))

    def _recall_head(self, store: str, path: str) -> ObjectInfo | None:
        found = self._recall_listing(store, f"{path}\0")
        return found[0] if found else None

    def _note_written(self, store: str, info: ObjectInfo, data: "Buffer") -> None:
        """Keep an object that was written, also in the lists that are kept."""
        self._store(store, info, 0, data)
        folder = info.path
        while folder:
            folder = folder.rpartition("/")[0]
            found = self._recall_listing(store, folder)
            if found is not None:
                others = (each for each in found if each.path != info.path)
                self._remember_listing(store, folder, sorted([*others, info], key=lambda each: each.path))

    # ------------------------------------------------------------------------------------------------------------ files

    def _path_of(self, store: str, path: str, block: int) -> str:
        """The file of a block. Another version of the object replaces it."""
        text = f"{store}\0{path}\0{block}\0{self._block_size}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()
        return f"{self._folder}/{digest[:2]}/{digest[2:]}"

    def _make_place(self, store: str, version: ObjectInfo, block: int) -> tuple[str, bytes]:
        return self._path_of(store, version.path, block), _head_of(store, version, block)

    def _place_of(self, store: str, version: ObjectInfo) -> tuple[str, bytes]:
        """The file and the header of the first block of a version."""
        key = store, version.path
        known = self._places.get(key)
        if known is not None and known[0] is version:
            return known[1], known[2]
        place = self._make_place(store, version, 0)
        if known is not None or len(self._places) < _MOST_PLACES:
            self._places[key] = version, *place
        return place

    def _write(self, store: str, version: ObjectInfo, block: int, data: memoryview) -> bool:
        """False if the file is larger than the cache."""
        head = _head_of(store, version, block) + _CHECKSUM.pack(zlib.crc32(data))
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
        """Bytes ``[start, stop)`` of a block of that version; marks it as used. ``None``: not in the cache."""
        path, head = self._place_of(store, version) if block == 0 else self._make_place(store, version, block)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            begin = len(head) + _CHECKSUM.size
            found = os.pread(descriptor, begin, 0)
            if not found.startswith(head):  # another version, or not a file of this cache
                return None
            status = os.fstat(descriptor)
            whole = self._block_size or version.size
            length = min(whole, version.size - block * whole)
            if status.st_size != begin + length:
                return None
            identity = status.st_mtime_ns, status.st_ino
            if self._checked.get(path) == identity:
                data = read_fully(descriptor, begin + start, stop - start)
            else:
                data = read_fully(descriptor, begin, length)
                if data is not None and zlib.crc32(data) != _CHECKSUM.unpack(found[len(head) :])[0]:
                    text = "%r in the cache is damaged, so the object is read again: is the disk failing?"
                    log(_LG, logging.WARNING, text, path)
                    return None
                self._note_checked(path, identity)
                if data is not None and len(data) != stop - start:
                    data = data[start:stop]
            if time.time() - status.st_mtime > _TOUCH_AFTER:
                with suppress(OSError):  # the folder may be read-only
                    now = time.time_ns()
                    os.utime(descriptor, ns=(now, now))
                    self._note_checked(path, (now, status.st_ino))
            return data
        except OSError:  # a disk that fails: the store still has it
            return None
        finally:
            os.close(descriptor)

    def _note_checked(self, path: str, identity: tuple[int, int]) -> None:
        if len(self._checked) >= _MOST_PLACES and path not in self._checked:
            self._checked.clear()
        self._checked[path] = identity

    # ------------------------------------------------------------------------------------------------- other processes

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_folder", "_size", "_block_size")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"DiskCache({self._folder!r}, {self._size})"


def _head_of(store: str, version: ObjectInfo, block: int) -> bytes:
    """The header of a file without the checksum: compared as a whole when the file is read."""
    text = f"{store}\0{version.path}\0{block}\0{version.size}\0{version.etag}".encode("utf-8", "surrogateescape")
    head = _HEAD.pack(_MAGIC, len(text)) + text
    return head.ljust(-(-(len(head) + _CHECKSUM.size) // _ALIGNMENT) * _ALIGNMENT - _CHECKSUM.size, b"\0")


_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T", "P"), 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T", "P"), 1)}
_LOWER = {unit.lower(): factor for unit, factor in _UNITS.items()}


def as_num_bytes(name: str, size: int | str) -> int:
    """A positive number of bytes. Units are those of SI (``GB``: 1000**3) and of IEC (``GiB``: 1024**3).

    Raises:
        TypeError: It is neither an integer nor text.
        ValueError: The text is not a number with a unit, or the number is less than 1.
    """
    given = size if isinstance(size, str) else int_or_none(size)
    if given is None:
        raise TypeError(f"{name} must be a number of bytes or text such as '200GiB', got {size!r}")
    if isinstance(given, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", given)
        factor = None if match is None else _LOWER.get(match[2].lower())
        if match is None or factor is None:
            raise ValueError(f"{name} must be a number with a unit such as '200GiB' or '500MB', got {size!r}")
        number = int(Fraction(match[1]) * factor)
    else:
        number = given
    if number < 1:
        raise ValueError(f"{name} must be >= 1 byte, got {size!r}")
    return number
