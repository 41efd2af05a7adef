"""``JsonLines``: lines of JSON files as a source that can be indexed."""

from __future__ import annotations

import json
import os
import warnings
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from operator import lt
from typing import Any, Final
from zlib import crc32

from spdl.source._compressed import compression_of
from spdl.source._find import as_pattern, find_files, place_of
from spdl.source._index_file import as_column, decode_index, encode_index
from spdl.source._stores import (
    CompressedShardError,
    FilePart,
    LocalFiles,
    RangeStore,
    ShardError,
    StoredFile,
    put_object,
    read_object,
)

from ._protocols import Rows

_KIND: Final = "lines"
#: Bytes per read while searching for lines.
_BLOCK: Final = 8 << 20
#: Number of bytes that tell a file whose lines cannot be found.
_NUM_CHECKED: Final = 6
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"  # of UTF-32 too


class JsonLines(Rows[Any]):
    """The lines of text files, each a JSON document: ``rows[number]`` reads and parses one.

    A line is what stands before ``\\n`` or ``\\r\\n``, with all its blanks and tabs. Empty lines are ignored; without
    ``parse``, so are lines of white space. A byte-order mark at the start of a file belongs to no line.

    One pass over the files finds where the lines begin; this index is saved beside each file as ``.NAME.spdl-lines``.
    A file whose size or modification time (in a store: ETag) has changed is indexed again. Thread-safe. With
    ``ShardOrder``, each file is a shard.

    .. code-block:: python

        rows = JsonLines("corpus-{00..15}.jsonl")
        builder = PipelineBuilder().add_source(DistributedKeyedSampler(len(rows))).pipe(rows.__getitem__, concurrency=4)

    Args:
        files: Names of files, with or without braces and wildcards; folders, for all ``*.jsonl`` in them; or URLs of
            objects in one bucket or on one host.
        store: The store that has the files: an object with ``list(pattern)`` and ``read(located)``. ``None``: local
            files and URLs.
        parse: Function that converts the bytes of a line, without the line end, to the item. ``None``: ``json.loads``.
        save_index: Whether to save the index. If saving fails, a ``UserWarning`` gives the reason.

    Raises:
        FileNotFoundError: A file does not exist, or nothing matches.
        CompressedShardError: A file is compressed.
        ShardError: A file is UTF-16 or UTF-32. When indexing: ``parse`` cannot parse the line. The message has the file
            and the byte offset.
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: RangeStore | None = None,
        parse: Callable[[bytes], Any] | None = None,
        save_index: bool = True,
    ) -> None:
        names = [files] if isinstance(files, str | os.PathLike) else files
        if store is None:
            store, addresses = place_of(names)
        else:
            addresses = [as_pattern(name) for name in names]
        self._store: RangeStore = LocalFiles() if store is None else store
        self._is_local = store is None
        self._parse = parse or json.loads
        self._keeps_blank = parse is not None
        self._files = find_files(store, addresses, ("*.jsonl",))
        if not self._files:
            raise ValueError("there must be one file or more, got none")
        #: For each file, the offsets of its lines, and of its end.
        self._starts = [self._lines_of(file, save_index) for file in self._files]
        self._firsts = [0, *accumulate(len(starts) - 1 for starts in self._starts)]

    @property
    def files(self) -> list[str]:
        """The names of the files, in order."""
        return [file.path for file in self._files]

    @property
    def shard_sizes(self) -> list[int]:
        """The number of rows in each file."""
        return [len(starts) - 1 for starts in self._starts]

    @property
    def fingerprint(self) -> int:
        """A number that is equal for files with lines of the same lengths."""
        value = 0
        for starts in self._starts:
            value = crc32(memoryview(starts), value)
        return value

    def __iter__(self) -> Iterator[Any]:
        return map(self._row, range(len(self)))

    def _row(self, number: int) -> Any:
        place = bisect_right(self._firsts, number) - 1
        file, starts = self._files[place], self._starts[place]
        own = number - self._firsts[place]
        start, stop = starts[own], starts[own + 1]
        # Read without checking the version of local files: the modification time may change although the line has not.
        etag = None if self._is_local else file.etag
        line = bytes(self._store.read(FilePart(file.path, start, stop - start, etag)))
        if len(line) != stop - start:
            raise ShardError(
                f"cannot read row {number} of {file.path!r}: it has {stop - start} bytes from byte {start} on, and "
                f"{len(line)} were read. The file is shorter than when it was indexed: make a new JsonLines",
                shard=file.path,
                offset=start,
            )
        line, end, rest = line.partition(b"\n")  # empty lines may follow
        if rest.strip():
            raise ShardError(
                f"cannot read row {number} of {file.path!r}: other rows follow in its place, from byte {start} on. The "
                "index of the lines is damaged, or the file is not the one that was indexed: remove the index",
                shard=file.path,
                offset=start,
            )
        try:
            return self._parse(line.removesuffix(b"\r") if end else line)
        except Exception as error:
            raise ShardError(
                f"cannot parse row {number} of {file.path!r}, at byte {start}: {error}", shard=file.path, offset=start
            ) from error

    # -- finding the lines

    def _lines_of(self, file: StoredFile, save: bool) -> array[int]:
        folder, slash, name = file.path.rpartition("/")
        saved = f"{folder}{slash}.{name}.spdl-lines"
        try:
            description, columns, _ = decode_index(_KIND, read_object(self._store, saved), saved)
            is_current = (description.get("size"), description.get("etag")) == (file.size, file.etag)
            if is_current and columns.keys() == {"starts", "blank"}:
                starts, blank = (array(columns[name].format, columns[name]) for name in ("starts", "blank"))
                if _are_lines(starts, blank, file.size):
                    return self._wanted(starts, blank)
        except (FileNotFoundError, PermissionError, ShardError):  # some stores deny access to missing objects
            pass
        blanks: list[int] = []
        starts = as_column(_scan(self._store, file, blanks), file.size)
        blank = as_column(blanks, file.size)
        if save:
            description = {"size": file.size, "etag": file.etag}
            try:
                put_object(self._store, saved, encode_index(_KIND, description, {"starts": starts, "blank": blank}))
            except (OSError, RuntimeError) as error:
                warnings.warn(
                    f"cannot save where the lines of {file.path!r} are ({error}): they will be looked up again the "
                    "next time. save_index=False accepts this",
                    stacklevel=4,
                )
        return self._wanted(starts, blank)

    def _wanted(self, starts: array[int], blank: array[int]) -> array[int]:
        """The offsets of the lines to read, and of the end of the file."""
        if self._keeps_blank or not blank:
            return starts
        ignored = set(blank)
        return array(starts.typecode, (start for start in starts if start not in ignored))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows in {len(self._files)} files)"


def _are_lines(starts: array[int], blank: array[int], size: int) -> bool:
    """Whether a saved index can be that of a file of this size: see :func:`_scan`."""
    if not starts or starts[0] < 0 or starts[-1] != size or not all(map(lt, starts, starts[1:])):
        return False
    return all(map(lt, blank, blank[1:])) and set(blank) <= set(starts[:-1])


def _scan(store: RangeStore, file: StoredFile, blanks: list[int]) -> Iterator[int]:
    """The offsets of the lines that are not empty, and of the end of the file. Lists those of white space in `blanks`.

    Of a line that goes on in the next block, only the start is kept, so lines of any length take linear time.
    """
    position = start = 0
    has_text = False  # whether the current line has more than white space, in earlier blocks
    last = b""  # the last byte of the block before
    while position < file.size:
        length = min(_BLOCK if position else max(_BLOCK, _NUM_CHECKED), file.size - position)
        block = bytes(store.read(FilePart(file.path, position, length, file.etag)))
        if not block:
            raise ShardError(
                f"cannot read {file.path!r}: it has {file.size} bytes, and reading at byte {position} returned no data",
                shard=file.path,
                offset=position,
            )
        if position == 0:
            _check_start(block, file.path)
            position = start = len(_UTF8_MARK) if block.startswith(_UTF8_MARK) else 0
            block = block[start:]
        *parts, rest = block.split(b"\n")
        end = position
        for part in parts:
            end += len(part)
            if has_text or part.strip():
                yield start
            elif end - start > 1 or (end - start == 1 and (part or last) != b"\r"):
                blanks.append(start)
                yield start
            start = end = end + 1
            has_text = False
        has_text = has_text or bool(rest.strip())
        last = block[-1:]
        position += len(block)
    if start < file.size:
        if not has_text:
            blanks.append(start)
        yield start
    yield file.size


def _check_start(start: bytes, path: str) -> None:
    """Raise for files whose lines cannot be found."""
    if (compression := compression_of(start)) is not None:
        raise CompressedShardError(
            f"cannot index {path!r}: it is compressed ({compression}), so lines cannot be read individually. "
            "Decompress it first",
            shard=path,
            offset=0,
        )
    if start.startswith(_UTF16_MARKS):
        raise ShardError(
            f"cannot index {path!r}: its byte-order mark says that it is UTF-16 or UTF-32. Convert it to UTF-8 first: "
            "iconv -t UTF-8",
            shard=path,
            offset=0,
        )
