"""One object of a store, as a source of media: whole, or read as demuxers need it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from spdl._addresses import Address, parse_address, redacted, root_of

from ._client import Fetched, ObjectInfo
from ._errors import RemoteError, RemoteRangeError, RemoteTimeoutError
from ._requests import Abandoned, Interruptible
from ._store import RemoteStore

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object of a store. The functions of ``spdl.io`` take it as a source; ``str`` is its URL without a query.

    Attributes:
        store: Where it is.
        path: Path, relative to the root of the store.
        etag: Version that it must have. ``None``: any.
    """

    store: RemoteStore
    path: str
    etag: str | None = None

    @classmethod
    def of(cls, url: str | os.PathLike[str]) -> "RemoteObject":
        """The object at a URL or local path, in a store without options: they come from the environment.

        Raises:
            RemoteError: It names no object.
            ValueError: It is a command, or a ``file`` URL of another machine.
        """
        address = parse_address(url)
        if address.root and address.exact is None and (not address.path.strip("/") or address.path.endswith("/")):
            raise RemoteError(
                f"cannot read {redacted(str(url))!r}: it names no object; write a URL such as s3://BUCKET/PATH",
                url=redacted(str(url)),
                action="read",
            )
        return cls._at(address)

    @classmethod
    def _at(cls, address: Address) -> "RemoteObject":
        if not address.root:  # a local file
            folder, name = os.path.split(os.path.abspath(address.path))
            return cls(_store_at(root_of(Path(folder))), name)
        return cls(cls._store_of(address), address.path)

    @staticmethod
    def _store_of(address: Address) -> RemoteStore:
        """The store without options that has an object, shared by all of its bucket or host."""
        root, path, exact, _ = address
        return _store_at(root, None if exact is None else (path, exact))

    @classmethod
    def _of_file(cls, file: Any) -> "RemoteObject":
        """The object of an fsspec file, open or not."""
        return cls(RemoteStore._of_system(file.fs), file.fs.unstrip_protocol(file.path))

    @property
    def url(self) -> str:
        """URL of the object."""
        return self.store.url_of(self.path)

    def read(self) -> bytes:
        """The whole object. Errors are those of ``RemoteStore.get``."""
        return self.store.get(self.path, etag=self.etag)

    def _open_stream(self) -> "BinaryIO":
        """A file that is read from start to end, by one request."""
        return self.store._open_stream(self.path)

    def __spdl_fetch__(self) -> "Buffer":
        """The whole object as ``spdl.io`` reads it: without a copy."""
        return self.store._get(self.path, self.etag)

    def __spdl_open__(self) -> "Buffer | ObjectBlocks":
        """The whole object if it is small, else an ``ObjectBlocks`` from which native code reads parts."""
        return open_blocks(self.store, self.path, self.etag)

    def __str__(self) -> str:
        return self.store._shown(self.path)


@lru_cache(maxsize=64)
def _store_at(root: str, exact: tuple[str, str] | None = None) -> RemoteStore:
    """The store of a bucket or host, so that all objects in it share connections. The limit only bounds memory.

    Args:
        exact: The path of an object, and the URL to request for it.
    """
    if exact is None:
        return RemoteStore(root)
    return _store_at(root)._with_exact(dict([exact]))


#: Size of the first read. It contains the headers of most containers, and all of a short clip.
_START = 2 * 1024 * 1024
#: Objects up to this size are read whole: one more request costs less than many small ones.
_WHOLE = 8 * 1024 * 1024
#: Size of the read after a jump: about what a store sends in the time that it takes to answer.
_JUMP = 512 * 1024
#: After a jump, blocks begin at a multiple of this, because some readers step backwards.
_ALIGNMENT = 64 * 1024
#: Sequential reads double in size each time, up to this.
_MOST = 8 * 1024 * 1024
#: Number of places from which a reader may read sequentially at the same time: streams of a container may be far apart.
_PLACES = 4


class ObjectBlocks:
    """One version of an object, from which native code requests blocks. Used by one thread at a time.

    Args:
        start: The first bytes of the object.
    """

    def __init__(self, store: "RemoteStore", info: ObjectInfo, start: "Buffer") -> None:
        self._store, self._info, self._start = store, info, start
        self._start_size = memoryview(start).nbytes
        # The end and the length of the last blocks.
        self._places = {self._start_size: _JUMP}
        self._unit = None if store.cache is None else store.cache._block_size
        self._interruptible = Interruptible()

    def __str__(self) -> str:
        return self._store.url_of(self._info.path)

    @property
    def __spdl_size__(self) -> int:
        """Number of bytes of the object."""
        return self._info.size

    def __spdl_block__(
        self, position: int, seconds: float | None, is_over: Callable[[], bool]
    ) -> "tuple[int, Buffer] | None":
        """Return where a block that contains ``position`` begins, and its bytes. ``None``: the time limit is over.

        Args:
            position: Of a byte that exists.
            seconds: Time limit of the caller. ``None``: the store's limit, which raises an error.
            is_over: Whether the caller has given up; called in the calling thread.

        Raises:
            RemoteError: It cannot be read. ``RemoteChangedError``: the object was replaced since it was opened.
        """
        if position < self._start_size:
            return 0, self._start
        start, stop = self._span(position)
        self._interruptible.is_over = is_over
        attempts = self._store._requests.attempts
        limit = attempts.seconds if seconds is None else min(attempts.seconds, max(seconds, 0.001))
        limited = self._store._with(
            replace(attempts, seconds=limit, sleep=self._interruptible.sleep), self._interruptible
        )
        try:
            return start, limited._read(self._info.path, start, stop, self._info.etag)
        except Abandoned:
            return None
        except RemoteTimeoutError:
            if limit == attempts.seconds:
                raise
            return None
        finally:
            self._interruptible.is_over = None

    def _span(self, position: int) -> tuple[int, int]:
        if self._unit is not None:  # the cache reads this much anyway
            start = position // self._unit * self._unit
            return start, min(start + self._unit, self._info.size)
        length = self._places.pop(position, 0)
        if length == 0:  # a jump
            position = max(position // _ALIGNMENT * _ALIGNMENT, self._start_size)
            length = _JUMP // 2
        stop = min(position + min(2 * length, _MOST), self._info.size)
        if len(self._places) >= _PLACES:
            del self._places[next(iter(self._places))]
        self._places[stop] = stop - position
        return position, stop


def open_blocks(store: "RemoteStore", path: str, etag: str | None) -> "Buffer | ObjectBlocks":
    """Return the bytes of a small object, or an ``ObjectBlocks`` for a large one.

    Raises:
        RemoteError: As for ``RemoteStore.get``.
    """
    cache = store.cache
    if cache is not None and cache._block_size is None:
        return store._get(path, etag)
    try:
        return store._unchanged(path, etag, lambda: _open(store, path, etag))
    except RemoteRangeError:  # it is empty
        return store._get(path, etag)
    except RemoteError as error:
        if type(error) is not RemoteError:
            raise
        return store._get(path, etag)  # a server that sends whole objects only


def _open(store: "RemoteStore", path: str, etag: str | None) -> "Buffer | ObjectBlocks":
    info, start = _read_start(store, path, etag)
    size = memoryview(start).nbytes
    if size == info.size:
        return start
    if info.size > _WHOLE:
        return ObjectBlocks(store, info, start)
    whole = bytearray(info.size)
    view = memoryview(whole)
    view[:size] = memoryview(start).cast("B")
    view[size:] = memoryview(store._read(path, size, info.size, info.etag)).cast("B")
    return whole


def _read_start(store: "RemoteStore", path: str, etag: str | None) -> "tuple[ObjectInfo, Buffer]":
    """Return the version of an object and its first bytes: all bytes of a small object."""
    cache = store.cache
    if cache is None:
        fetched = _fetch_start(store, path, _START, etag, None)
        return ObjectInfo(path, fetched.size, fetched.etag), fetched.range_data
    unit = cache._block_size or 1
    count = -(-_START // unit) * unit
    version, data = store._validated(cache, path, etag, lambda known: _fetch_start(store, path, count, etag, known))
    return version, store._read_cached(cache, version, 0, min(count, version.size)) if data is None else data


def _fetch_start(store: "RemoteStore", path: str, count: int, etag: str | None, unless: str | None) -> Fetched:
    return store._requests.run(
        lambda client, seconds: client.fetch_start(path, count, etag=etag, unless=unless, seconds=seconds)
    )
