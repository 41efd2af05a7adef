"""``TarIndex``: where each sample is in a set of tar archives, so that any sample can be read without the others."""

from __future__ import annotations

import os
import warnings
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, SupportsIndex
from zlib import crc32

from spdl._numbers import as_int
from spdl.source._index_file import decode_index, encode_index, open_file
from spdl.source._stores import (
    LocalFiles,
    RangeStore,
    ShardError,
    StaleIndexError,
    StoredFile,
    list_named,
    put_object,
    read_object,
    write_whole,
)

from ._sampler import as_position
from ._tar_build import KIND, FoundShards, TarTable, build_index, check_tables, find_shards
from ._tar_headers import BLOCK


class Shard(NamedTuple):
    """Description of one archive in an index."""

    path: str
    size: int  #: in bytes, when the index was built
    etag: str | None  #: its version at that time: the ETag, or the modification time of a local file
    num_samples: int
    skipped: dict[str, int]  #: number of skipped archive members, by kind


class TarSample(NamedTuple):
    """Location of a sample: a byte range of a shard, which a store can read, and the files in it."""

    path: str  #: of the shard
    offset: int  #: of the first byte of its first file
    length: int  #: up to the last byte of its last file
    etag: str | None  #: version of the shard when it was indexed; for a local file, its modification time
    key: str  #: name of the sample, without extensions
    files: tuple[tuple[str, int, int], ...]  #: extension, start within the byte range, and size of each file

    def split(self, data: bytes) -> dict[str, Any]:
        """Split the bytes of this sample into its files, as returned by :meth:`TarIndex.read`.

        Raises:
            ShardError: ``data`` is too short.
        """
        if len(data) != self.length:
            raise cut_off(self, len(data))
        found: dict[str, Any] = {"__key__": self.key, "__url__": self.path}
        for extension, start, size in self.files:
            found[extension] = bytes(data[start : start + size])
        return found


def cut_off(sample: TarSample, length: int) -> ShardError:
    """The error for a shard that is shorter than when it was indexed."""
    return ShardError(
        f"cannot read sample {sample.key!r} of {sample.path!r}: it has {sample.length} bytes from byte {sample.offset} "
        f"on, and {length} were read. The shard is shorter than when it was indexed: build the index again",
        shard=sample.path,
        offset=sample.offset + length,
    )


_MEMORY: Final = "an index in memory"


class TarIndex(Sequence[dict[str, Any]]):
    """The samples of tar archives (*shards*) as a sequence: any sample is read without the samples before it.

    Consecutive files with the same name up to the first dot form a sample, as in WebDataset; WebDataset's shards can be
    read unchanged. ``index[number]`` reads a sample: a dictionary with the bytes of each file by its extension in lower
    case, ``"__key__"`` and ``"__url__"``. ``index.locate(number)`` returns only its location.

    .. code-block:: python

        index = TarIndex.of("shards/train-{000000..000099}.tar")
        index[5]["jpg"], index[5]["cls"]

    Sparse files, links and files that belong to no sample are skipped, and counted in ``shards``. Thread-safe.
    Picklable: a saved index is pickled as its path, and the copy opens the file.

    Made by :meth:`of`, :meth:`build` and :meth:`open`.
    """

    def __init__(
        self, data: memoryview[int], store: RangeStore | None, path: str | None, *, is_stored: bool = False
    ) -> None:
        self._data = data
        self._path = path
        self._is_stored = is_stored  # whether `path` is in the store
        self._store = store
        self._local = LocalFiles() if store is None else None
        where = path or _MEMORY
        description, columns, self._checksum = decode_index(KIND, data, where)
        if path is not None:
            check_tables(description, columns, where)
        folder = os.path.dirname(path or "")
        self._shards = [
            Shard(name if store is not None else os.path.join(folder, name), size, etag, num_samples, skipped)
            for name, size, etag, num_samples, skipped in description["shards"]
        ]
        self._extensions: list[str] = description["extensions"]
        self._ignored_zeros: bool = description.get("ignore_zeros", False)
        self._first_samples = [0, *accumulate(shard.num_samples for shard in self._shards)]
        self._first_files = columns["first_files"]
        self._blocks = columns["blocks"]
        self._sizes = columns["sizes"]
        self._kinds = columns["kinds"]
        self._key_ends = columns["key_ends"]
        self._keys = columns["keys"]

    # -- making an index

    @classmethod
    def build(
        cls,
        where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | RangeStore,
        pattern: str | Sequence[str] | None = None,
        *,
        num_threads: int = 8,
        ignore_zeros: bool = False,
    ) -> TarIndex:
        """Read the headers of all shards, and build an index in memory. :meth:`save` writes it to a file.

        Args:
            where: Names of shards, or a store whose shards ``pattern`` selects. Names may have braces
                (``"shard-{000000..000099}.tar"``) and wildcards (``"*.tar"``). A folder stands for its files that match
                ``pattern``. URLs (``s3://bucket/shards/{000000..000099}.tar``) must be in one bucket.
            pattern: One or several patterns for the shards of a store or folder. ``None``: ``"*.tar"``.
            num_threads: Number of shards to read at a time.
            ignore_zeros: Whether to read archives that were joined with ``cat``, as ``tar --ignore-zeros`` does.
                Otherwise a ``UserWarning`` says that all but the first are ignored.

        Raises:
            CompressedShardError: A shard is compressed as a whole.
            FileNotFoundError: A shard does not exist, or nothing matches.
            ShardError: A shard is damaged, truncated or not a tar archive, or a sample has two files with the same
                extension.
            ValueError: There are no shards.
        """
        threads = as_int("num_threads", num_threads, 1)
        return cls._built(find_shards(where, pattern), threads, ignore_zeros=bool(ignore_zeros))

    @classmethod
    def of(
        cls,
        where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | RangeStore,
        pattern: str | Sequence[str] | None = None,
        *,
        saved_as: str | os.PathLike[str] | None = None,
        num_threads: int = 8,
        ignore_zeros: bool = False,
    ) -> TarIndex:
        """Open the index beside the shards; build and save it there if there is none or if the shards have changed.

        If an index is out of date, only the shards that have changed are read. Several processes may do this at the
        same time: each writes the file under a temporary name and renames it.

        Args:
            where: As for :meth:`build`.
            pattern: As for :meth:`build`.
            saved_as: Path of a local file for the index, even if the shards are in a store. ``None``: beside the first
                shard, in the same store, under a name that begins with ``.spdl-``.
            num_threads: Number of shards to read at a time when building.
            ignore_zeros: As for :meth:`build`.

        Returns:
            An index that matches the current shards: sizes, and modification times or ETags, are compared. If it
            cannot be saved, a ``UserWarning`` gives the reason.

        Raises:
            Exception: As for :meth:`build`.
        """
        shards = find_shards(where, pattern)
        ignores = bool(ignore_zeros)
        path = os.fspath(saved_as) if saved_as is not None else shards.default_name(ignores)
        is_stored = shards.store is not None and saved_as is None
        old = None
        try:
            opened = cls._opened(path, shards.store, is_stored=is_stored)
            if opened._ignored_zeros != ignores:
                raise StaleIndexError(f"the index {path!r} was built with another ignore_zeros", shard=path)
            old = opened
            old._check(shards.files)
        except (FileNotFoundError, PermissionError, ShardError):  # some stores deny access to missing objects
            found = cls._built(shards, as_int("num_threads", num_threads), old, ignore_zeros=ignores)
            try:
                if found._store is not None and is_stored:
                    put_object(found._store, path, bytes(found._data))
                    found._path, found._is_stored = path, True
                else:
                    found.save(path)
            except (OSError, RuntimeError) as error:
                warnings.warn(
                    f"cannot save the index of {len(shards.files)} shards as {path!r} ({error}): it will be built "
                    "again the next time. saved_as= names another place",
                    stacklevel=2,
                )
            return found
        return old

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, store: RangeStore | None = None) -> TarIndex:
        """Open a saved index, and check that the shards have not changed since it was built.

        Args:
            path: Path of the index, a local file. (:meth:`of` opens an index beside the shards in a store.)
            store: The store that has the shards. ``None``: local files, relative to the folder of the index.

        Raises:
            FileNotFoundError: The file does not exist.
            ShardError: The file is damaged, or is not an index.
            StaleIndexError: A shard has changed or no longer exists.
        """
        found = cls._opened(os.fspath(path), store, is_stored=False)
        try:
            files = list_named(store or LocalFiles(), [shard.path for shard in found._shards])
        except FileNotFoundError as error:
            raise StaleIndexError(
                f"the index {os.fspath(path)!r} is out of date: {error}. Build it again", shard=os.fspath(path)
            ) from error
        found._check(files)
        return found

    @classmethod
    def _opened(cls, path: str, store: RangeStore | None, *, is_stored: bool) -> TarIndex:
        if store is None or not is_stored:
            return cls(open_file(path), store, path)
        return cls(read_object(store, path), store, path, is_stored=True)

    @classmethod
    def _built(
        cls, shards: FoundShards, num_threads: int, old: TarIndex | None = None, *, ignore_zeros: bool
    ) -> TarIndex:
        places = {} if old is None else {old._facts_of(shard): place for place, shard in enumerate(old._shards)}

        def known(file: StoredFile) -> TarTable | None:
            place = None if old is None else places.get(old._facts_of(file))
            return None if old is None or place is None else old._table_of(place, file)

        data = build_index(shards, num_threads, known, ignore_zeros=ignore_zeros)
        return cls(memoryview(data), shards.store, None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a local file, atomically.

        Paths of local shards are stored relative to the index, so a folder can be moved together with its index. (A
        copy has other modification times, so its index is built again.)

        Raises:
            OSError: The file cannot be written.
        """
        name = os.fspath(path)
        if self._store is None:
            description, columns, _ = decode_index(KIND, self._data, self._path or _MEMORY)
            folder = os.path.dirname(os.path.abspath(name))
            for row, shard in zip(description["shards"], self._shards, strict=True):
                row[0] = os.path.relpath(shard.path, folder)
            kept = {name: array(column.format, column) for name, column in columns.items()}
            data = memoryview(encode_index(KIND, description, kept))
        else:
            data = self._data
        write_whole(name, data)
        self._data, self._path, self._is_stored = data, name, False
        self._checksum = decode_index(KIND, data, name)[2]

    def _facts_of(self, file: StoredFile | Shard) -> tuple[str, int, str | None]:
        """The values that identify a shard and its version."""
        return (file.path if self._local is None else os.path.abspath(file.path)), file.size, file.etag

    def _table_of(self, place: int, file: StoredFile) -> TarTable:
        """The contents of one shard."""
        first, stop = self._first_samples[place : place + 2]
        files = range(self._first_files[first], self._first_files[stop])
        table = TarTable(file, skipped=dict(self._shards[place].skipped))
        table.keys = [self.key(number) for number in range(first, stop)]
        table.num_files = array("Q", (end - start for start, end in pairwise(self._first_files[first : stop + 1])))
        table.blocks = array("Q", self._blocks[files.start : files.stop])
        table.sizes = array("Q", self._sizes[files.start : files.stop])
        table.extensions = [self._extensions[kind] for kind in self._kinds[files.start : files.stop]]
        return table

    def _check(self, files: list[StoredFile]) -> None:
        """Raise if the shards have changed since the index was built."""
        path = self._path or _MEMORY
        reason = None
        if len(files) != len(self._shards):
            reason = f"it is of {len(self._shards)} shards, and there are {len(files)}"
        for shard, file in zip(self._shards, files, strict=False):
            if reason is not None:
                break
            if self._facts_of(shard)[0] != self._facts_of(file)[0]:
                reason = f"it has {shard.path!r} where {file.path!r} is"
            elif shard.size != file.size:
                reason = f"{shard.path!r} had {shard.size} bytes and has {file.size}"
            elif shard.etag != file.etag:
                reason = f"{shard.path!r} has changed since"
        if reason is not None:
            raise StaleIndexError(f"the index {path!r} is out of date: {reason}. Build it again", shard=path)

    # -- contents

    @property
    def path(self) -> str | None:
        """Path of the saved index; ``None`` if it was not saved."""
        return self._path

    @property
    def shards(self) -> list[Shard]:
        """The archives, in order."""
        return list(self._shards)

    @property
    def shard_sizes(self) -> list[int]:
        """The number of samples in each shard."""
        return [shard.num_samples for shard in self._shards]

    @property
    def extensions(self) -> list[str]:
        """All extensions in the shards, sorted."""
        return sorted(self._extensions)

    @property
    def num_files(self) -> int:
        """The number of files in all samples."""
        return len(self._blocks)

    @property
    def skipped(self) -> dict[str, int]:
        """The number of skipped archive members in all shards, by kind."""
        return dict(sum((Counter(shard.skipped) for shard in self._shards), Counter()))

    @cached_property
    def fingerprint(self) -> int:
        """A number that is equal for indexes of the same samples in the same order, wherever the shards are."""
        value = crc32(repr(self.shard_sizes).encode())
        for column in (self._sizes, self._key_ends, self._keys):
            value = crc32(column.cast("B"), value)
        return value

    def __len__(self) -> int:
        return self._first_samples[-1]

    def key(self, number: SupportsIndex) -> str:
        """The key of a sample: its name without extensions."""
        sample = self._number(number)
        start = self._key_ends[sample - 1] if sample else 0
        return _decode(self._keys, start, self._key_ends[sample])

    def locate(self, number: SupportsIndex) -> TarSample:
        """Return the location of a sample, without reading it.

        Raises:
            IndexError: The number is out of range.
        """
        sample = self._number(number)
        shard = self._shards[bisect_right(self._first_samples, sample) - 1]
        first, stop = self._first_files[sample], self._first_files[sample + 1]
        start = self._blocks[first] * BLOCK
        end = self._blocks[stop - 1] * BLOCK + self._sizes[stop - 1]
        kinds, sizes, blocks = self._kinds, self._sizes, self._blocks
        files = tuple(
            (self._extensions[kinds[file]], blocks[file] * BLOCK - start, sizes[file]) for file in range(first, stop)
        )
        key = _decode(self._keys, self._key_ends[sample - 1] if sample else 0, self._key_ends[sample])
        return TarSample(shard.path, start, end - start, shard.etag, key, files)

    def read(self, sample: TarSample) -> dict[str, Any]:
        """Read the files of a sample: their bytes by extension, ``"__key__"`` and ``"__url__"``.

        Raises:
            OSError: The shard cannot be read.
            ShardError: The shard is shorter than when it was indexed.
            StaleIndexError: The shard has changed since it was indexed. This is checked when the file is opened; a
                store raises its own errors.
        """
        if self._local is None:
            assert self._store is not None
            return sample.split(self._store.read(sample))
        found: dict[str, Any] = {"__key__": sample.key, "__url__": sample.path}
        read = self._local.read_part
        for extension, start, size in sample.files:
            data = read(sample.path, sample.offset + start, size, sample.etag)
            if len(data) != size:
                raise cut_off(sample, start + len(data))
            found[extension] = data
        return found

    def __getitem__(self, number: Any) -> Any:
        """Read a sample by its number, or by a location from :meth:`locate` or ``ShardOrder``."""
        if isinstance(number, TarSample):
            return self.read(number)
        if isinstance(number, slice):
            return [self.read(self.locate(each)) for each in range(len(self))[number]]
        return self.read(self.locate(number))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.read, map(self.locate, range(len(self))))

    def _number(self, number: SupportsIndex) -> int:
        return as_position(number, len(self), "samples", "sample")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            return _restored, (bytes(self._data), self._store)
        path = self._path if self._is_stored else os.path.abspath(self._path)
        return _reopened, (type(self), path, self._store, self._is_stored, self._checksum)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples in {len(self._shards)} shards)"


def _restored(data: bytes, store: RangeStore | None) -> TarIndex:
    return TarIndex(memoryview(data), store, None)


def _reopened(of: type[TarIndex], path: str, store: RangeStore | None, is_stored: bool, checksum: int) -> TarIndex:
    found = of._opened(path, store, is_stored=is_stored)
    if found._checksum != checksum:
        raise StaleIndexError(
            f"the index {path!r} has been built again since it was sent to this process. Restart the run", shard=path
        )
    return found


def _decode(keys: memoryview[int], start: int, stop: int) -> str:
    return bytes(keys[start:stop]).decode("utf-8", "surrogateescape")
