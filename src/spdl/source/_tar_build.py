"""Build an index of tar archives: find the archives, read their headers, encode the index."""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Final

from spdl._addresses import Address
from spdl.source._find import as_pattern, find_files, is_folder, place_of
from spdl.source._index_file import Columns, as_column, damaged_index, encode_index
from spdl.source._stores import FilePart, LocalFiles, RangeStore, ShardError, StoredFile

from ._tar_headers import BLOCK, TarHeaders

#: Kind of the index file.
KIND: Final = "tar archives"
#: Bytes per read; larger files are skipped. A request to a store costs much more than a system call.
_LOCAL_WINDOW: Final = 16 << 10
_STORE_WINDOW: Final = 4 << 20
# Splits names as WebDataset does, in base_plus_ext() and tar_file_iterator() of its tariterators.
_NAME: Final = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)")
_META: Final = re.compile(r"__[^/]*__($|/)")
#: Keys of a sample that are not files.
_RESERVED: Final = ("__key__", "__url__")


@dataclass(frozen=True, slots=True)
class FoundShards:
    """The archives to index."""

    files: list[StoredFile]
    store: RangeStore | None  #: the store that has them; ``None``: local files
    patterns: tuple[str, ...]  #: patterns by which they were found

    def default_name(self, ignore_zeros: bool) -> str:
        """Default path of the index: beside the first archive."""
        folder = self.files[0].path[: self.files[0].path.rfind("/") + 1]
        names = [os.path.basename(pattern) for pattern in self.patterns] + ["ignore_zeros"] * ignore_zeros
        return f"{folder}.spdl-{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:12]}.tarindex"


def find_shards(
    where: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | RangeStore, pattern: str | Sequence[str] | None
) -> FoundShards:
    """Look up the shards.

    Raises:
        FileNotFoundError: A shard does not exist, or nothing matches.
        TypeError: ``where`` is neither names nor a store.
        ValueError: There are no shards, or ``pattern`` is given together with names of shards.
    """
    patterns = ("*.tar",) if pattern is None else (pattern,) if isinstance(pattern, str) else tuple(pattern)
    if isinstance(where, RangeStore):
        return _found(where, [as_pattern(each) for each in patterns], (), patterns)
    names = [where] if isinstance(where, str | os.PathLike) else where
    if not isinstance(names, Iterable):
        raise TypeError(
            "shards must be given by name, or by a store with list(pattern) and read(located), got an object of type "
            f"{type(where).__qualname__}"
        )
    store, addresses = place_of(names)
    folders = [is_folder(address) for address in addresses]
    if pattern is not None and not any(folders):
        raise ValueError(
            "pattern must be None where shards are given by name, unless it is a folder (of a URL: ends in '/'), got "
            f"{pattern!r}"
        )
    given: list[str] = []
    for address, is_one in zip(addresses, folders, strict=True):
        given += [os.path.join(address.path, each) for each in patterns] if is_one else [address.path]
    return _found(store, addresses, patterns, tuple(given))


def _found(
    store: RangeStore | None, addresses: Sequence[Address], in_folder: Sequence[str], patterns: tuple[str, ...]
) -> FoundShards:
    if not addresses:
        raise ValueError("there must be one shard or more, got none")
    return FoundShards(find_files(store, addresses, in_folder), store, patterns)


@dataclass(slots=True)
class TarTable:
    """The contents of one archive, in columns."""

    file: StoredFile
    #: For each file that belongs to a sample.
    blocks: array[int] = field(default_factory=lambda: array("Q"))
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    extensions: list[str] = field(default_factory=list)
    #: For each sample.
    keys: list[str] = field(default_factory=list)
    num_files: array[int] = field(default_factory=lambda: array("Q"))
    skipped: dict[str, int] = field(default_factory=dict)

    def begin(self, key: str) -> None:
        """Begin a sample."""
        self.keys.append(key)
        self.num_files.append(0)

    def add(self, extension: str, offset: int, size: int) -> None:
        """Add a file to the current sample."""
        self.num_files[-1] += 1
        self.blocks.append(offset // BLOCK)
        self.sizes.append(size)
        self.extensions.append(extension)


def divide_name(name: str) -> tuple[str, str] | None:
    """Return the key of the sample that a file belongs to, and the extension; ``None`` if it belongs to none."""
    if _META.match(name):
        return None
    divided = _NAME.fullmatch(name)
    return None if divided is None else (divided[1], divided[2].lower())


def _scan(file: StoredFile, store: RangeStore, window: int, ignore_zeros: bool) -> TarTable:
    """Read the headers of an archive.

    Raises:
        ShardError: The archive is damaged, or a sample has two files with the same extension.
    """

    def read(position: int, length: int) -> bytes:
        return bytes(store.read(FilePart(file.path, position, length, file.etag)))

    found = TarTable(file)
    headers = TarHeaders(read, file.size, file.path, window, ignore_zeros=ignore_zeros)
    current, own = None, set[str]()  # archive and key of the current sample, and its extensions
    num_other = 0
    for member in headers:
        divided = divide_name(member.name)
        if divided is None:
            num_other += 1
            continue
        key, extension = divided
        if (member.part, key) != current:
            current, own = (member.part, key), set(_RESERVED)
            found.begin(key)
        if extension in own:
            raise ShardError(
                f"cannot index {file.path!r}: sample {key!r} has two files with the extension {extension!r}, the "
                f"second at byte {member.offset}. Samples are told apart by the name up to the first dot",
                shard=file.path,
                offset=member.offset,
            )
        own.add(extension)
        found.add(extension, member.offset, member.size)
    found.skipped = dict(sorted(headers.skipped.items()))
    if num_other:
        found.skipped["without sample"] = num_other
    return found


def build_index(
    shards: FoundShards, num_threads: int, known: Callable[[StoredFile], TarTable | None], *, ignore_zeros: bool
) -> bytes:
    """Read the headers of all archives, and return the contents of their index file.

    Args:
        known: Function that returns the contents of an archive if they are already known.

    Raises:
        ShardError: An archive is damaged. Raised without waiting for the others.
    """
    from concurrent.futures import ThreadPoolExecutor

    store = shards.store or LocalFiles()
    window = _LOCAL_WINDOW if shards.store is None else _STORE_WINDOW
    with ThreadPoolExecutor(min(num_threads, len(shards.files)), "spdl-index") as pool:

        def read(file: StoredFile) -> TarTable:
            return known(file) or _scan(file, store, window, ignore_zeros)

        begun = [pool.submit(read, file) for file in shards.files]
        try:
            tables = [each.result() for each in begun]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return encode_tables(tables, is_local=shards.store is None, ignore_zeros=ignore_zeros)


def encode_tables(tables: Sequence[TarTable], *, is_local: bool, ignore_zeros: bool = False) -> bytes:
    """Return the contents of the index file of these archives."""
    extensions = {name: number for number, name in enumerate(sorted({each for of in tables for each in of.extensions}))}
    rows: list[list[Any]] = []
    for of in tables:
        # Absolute, so that the paths stay valid in another working directory.
        path = os.path.abspath(of.file.path) if is_local else of.file.path
        rows.append([path, of.file.size, of.file.etag, len(of.keys), of.skipped])
    first_files = list(accumulate(chain.from_iterable(of.num_files for of in tables), initial=0))
    keys = [key.encode("utf-8", "surrogateescape") for of in tables for key in of.keys]
    key_ends = list(accumulate(map(len, keys)))

    def joined(columns: Sequence[array[int]]) -> array[int]:
        return as_column(chain.from_iterable(columns), max((max(column) for column in columns if column), default=0))

    kinds = (extensions[name] for of in tables for name in of.extensions)
    return encode_index(
        KIND,
        {"shards": rows, "extensions": list(extensions), "ignore_zeros": ignore_zeros},
        {
            "first_files": as_column(first_files, first_files[-1]),
            "blocks": joined([of.blocks for of in tables]),
            "sizes": joined([of.sizes for of in tables]),
            "kinds": as_column(kinds, len(extensions)),
            "key_ends": as_column(key_ends, key_ends[-1] if key_ends else 0),
            "keys": array("B", b"".join(keys)),
        },
    )


def check_tables(description: dict[str, Any], columns: Columns, path: str) -> None:
    """Check that the contents of an index file agree with each other, as :func:`encode_tables` makes them.

    Raises:
        ShardError: They do not, although the checksum is right.
    """
    try:
        reason = _wrong_in(description["shards"], description["extensions"], columns)
    except (KeyError, TypeError, ValueError) as exc:
        reason = f"a part of it is missing or has another type ({exc!r})"
    if reason is not None:
        raise damaged_index(path, reason)


def _wrong_in(rows: Any, extensions: Any, columns: Columns) -> str | None:
    import numpy as np  # imported late: only indexes that were saved need it

    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        return "its list of shards is wrong"
    if not isinstance(extensions, list) or not all(isinstance(each, str) for each in extensions):
        return "its list of extensions is wrong"
    names = ("first_files", "blocks", "sizes", "kinds", "key_ends")
    first_files, blocks, sizes, kinds, key_ends = (np.asarray(columns[name]).astype(np.uint64) for name in names)
    keys = columns["keys"]
    num_samples, num_files = sum(row[3] for row in rows), len(blocks)
    if len(first_files) != num_samples + 1 or len(key_ends) != num_samples:
        return f"it has {len(first_files) - 1} and {len(key_ends)} samples, and its shards have {num_samples}"
    if not len(sizes) == len(kinds) == num_files or first_files[0] != 0 or first_files[-1] != num_files:
        return "its numbers of files differ"
    if (first_files[1:] <= first_files[:-1]).any():
        return "it has a sample without files"
    if (key_ends[1:] < key_ends[:-1]).any() or int(key_ends[-1] if num_samples else 0) != len(keys):
        return "the keys of its samples are wrong"
    if num_files and int(kinds.max()) >= len(extensions):
        return "it has files with unknown extensions"
    bounds = np.array([row[1] for row in rows], np.uint64).repeat([row[3] for row in rows])
    if num_files:
        bounds = bounds.repeat(np.diff(first_files).astype(np.int64))
        # Compared like this, nothing overflows.
        if (blocks > bounds // BLOCK).any() or (sizes > bounds - blocks * np.uint64(BLOCK)).any():
            return "it has files that are not inside their shard"
        is_next = np.ones(num_files, bool)
        is_next[first_files[:-1].astype(np.int64)] = False
        if (is_next[1:] & (blocks[1:] <= blocks[:-1])).any():
            return "the files of a sample are out of order"
    return None


def _is_row(row: Any) -> bool:
    match row:
        case [str(), int(size), str() | None, int(num_samples), dict(skipped)]:
            counts = size, num_samples, *skipped.values()
            return all(type(count) is int and 0 <= count < 1 << 63 for count in counts)
    return False
