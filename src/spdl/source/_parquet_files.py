"""Parquet files for ``ParquetRows``: opened and parsed once, and how columns and partitions are chosen in them."""

from __future__ import annotations

import io
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from spdl.source._stores import ShardError

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of files that stay open between reads, and the bytes of footers that stay in memory.
_MAX_OPEN: Final = 64
_MAX_FOOTERS: Final = 256 << 20
#: Largest range that is read by one request, as in Arrow, and the bytes of other columns in it.
_MAX_SPAN: Final = 32 << 20
_MAX_UNUSED: Final = 8 << 10
#: From this size on, several threads decode the columns of a row group. For less, they cost more than they save.
_FOR_THREADS: Final = 4 << 20
_PATTERN: Final = re.compile(r"[*?\[{]")
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")
#: How Hive writes null.
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def parquet() -> Any:
    """The module ``pyarrow.parquet``."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("ParquetRows needs pyarrow: pip install 'spdl-native[parquet]'") from error
    return pyarrow.parquet


class ParquetFiles:
    """Open files and their footers. A reader is used by one thread at a time; a footer is parsed once. Thread-safe."""

    def __init__(self, open_file: Callable[[str], Any] | None) -> None:
        self._open_file = open_file
        self._begin()

    def _begin(self) -> None:
        self._lock = Lock()
        self._pid = os.getpid()
        self._idle: deque[tuple[str, _Reader]] = deque()  # least recently used first; guarded by the lock
        self._footers: dict[str, Any] = {}  # the same
        self._num_bytes = 0

    @contextmanager
    def reader(self, path: str) -> Iterator[_Reader]:
        """An open file for this thread.

        Raises:
            ShardError: The file is damaged, or is not a Parquet file; also if that shows while it is used.
        """
        from pyarrow import ArrowException

        if self._pid != os.getpid():  # the child of a fork shares the positions of the parent's files
            self._begin()
        try:
            found = self._take(path) or _Reader(path, self._open_file, self._footers.get(path))
            yield found
        except FileNotFoundError:
            raise
        except (ArrowException, OSError) as error:
            raise ShardError(f"cannot read the Parquet file {path!r}: {error}", shard=path) from error
        self._give_back(path, found)

    def _take(self, path: str) -> _Reader | None:
        with self._lock:
            for place, (own, reader) in enumerate(self._idle):
                if own == path:
                    del self._idle[place]
                    return reader
        return None

    def _give_back(self, path: str, reader: _Reader) -> None:
        dropped = None
        with self._lock:
            if path not in self._footers:
                footer = self._footers[path] = reader.file.metadata
                self._num_bytes += footer.serialized_size
                while self._num_bytes > _MAX_FOOTERS and len(self._footers) > 1:
                    self._num_bytes -= self._footers.pop(next(iter(self._footers))).serialized_size
            self._idle.append((path, reader))
            if len(self._idle) > _MAX_OPEN:
                dropped = self._idle.popleft()
        del dropped  # closed without the lock

    def __getstate__(self) -> dict[str, Any]:
        return {"_open_file": self._open_file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()


class _Reader:
    """A ``ParquetFile``, closed with the last reference, also if the user opened what it reads."""

    __slots__ = ("_buffered", "_source", "_window", "file")

    def __init__(self, path: str, open_file: Callable[[str], Any] | None, footer: Any) -> None:
        self._source = self._window = self._buffered = None
        source: Any = path
        if open_file is not None:
            source = open_file(path)
            if isinstance(source, io.BufferedReader) and not isinstance(source.raw, io.FileIO):
                # Whole ranges are read. A buffer would divide each request in two.
                source = source.detach()
            self._source = source
            source = self._window = _Window(source)
        self.file = parquet().ParquetFile(source, metadata=footer, pre_buffer=False)

    def file_for(self, group: int, paths: Sequence[str] | None) -> Any:
        """The ``ParquetFile`` to read these columns of a row group with."""
        if self._window is None:
            return self.file
        span = _span_of(self.file.metadata.row_group(group), paths)
        if len(span) <= _MAX_SPAN:
            # One request, made by this thread: Arrow's threads would take turns with the GIL for every column.
            self._window.fill(span)
            return self.file
        if self._buffered is None:  # requests several ranges at a time
            self._buffered = parquet().ParquetFile(self._source, metadata=self.file.metadata, pre_buffer=True)
        return self._buffered

    def clear(self) -> None:
        """Free what was read ahead."""
        if self._window is not None:
            self._window.clear()

    def __del__(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


class _Window:
    """A file of which one range is in memory. Has the methods that Arrow calls."""

    closed = False

    def __init__(self, source: Any) -> None:
        self._source = source
        self._position = 0
        self._span = range(0)
        self._data = memoryview(b"")

    def fill(self, span: range) -> None:
        """Read a range, with one request if the file is remote."""
        self._source.seek(span.start)
        parts: list[bytes] = []
        left = len(span)
        while left and (part := self._source.read(left)):
            parts.append(part)
            left -= len(part)
        self._data = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        self._span = range(span.start, span.start + len(self._data))

    def clear(self) -> None:
        """Free the range."""
        self._span, self._data = range(0), memoryview(b"")

    def read(self, size: int = -1, /) -> Any:
        start = self._position - self._span.start
        if start >= 0 and 0 <= size <= len(self._data) - start:
            self._position += size
            return self._data[start : start + size]
        self._source.seek(self._position)
        found = self._source.read(size)
        self._position += len(found)
        return found

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._position = offset if whence == 0 else self._source.seek(offset, whence)
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """Do nothing: the owner of the source closes it."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _span_of(group: Any, paths: Sequence[str] | None) -> range:
    """The bytes from the first to the last of these columns; more than are accepted if many others are between them."""
    ranges = []
    for number in range(group.num_columns):
        column = group.column(number)
        name = column.path_in_schema
        if paths is None or any(name == path or name.startswith(f"{path}.") for path in paths):
            start = column.data_page_offset
            if column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            ranges.append(range(start, start + column.total_compressed_size))
    if not ranges:
        return range(0)
    span = range(min(own.start for own in ranges), max(own.stop for own in ranges))
    unused = len(span) - sum(map(len, ranges))
    return span if unused <= _MAX_UNUSED else range(_MAX_SPAN + 1)


class Columns(NamedTuple):
    """The columns to read from a file."""

    paths: list[str] | None  #: what pyarrow is asked for; ``None``: all
    kept: list[str]  #: top-level columns of the result: pyarrow also reads columns whose names begin alike

    @classmethod
    def of(cls, path: str, file: Any, wanted: Sequence[str] | None) -> Columns:
        """Find the wanted columns in a file: a top-level name, else the path of nested fields (``"a.b"``).

        Raises:
            ShardError: A column is missing, or its name occurs twice.
        """
        names = file.schema_arrow.names
        counts = Counter(names)
        if wanted is None:
            kept = list(names)
        else:
            leaves = [file.schema.column(number).path for number in range(len(file.schema))]
            found = {name: _top_level(name, names, leaves) for name in wanted}
            missing = [name for name, top in found.items() if top is None]
            if missing:
                raise ShardError(f"{path!r} has no columns {missing}; it has {names}", shard=path)
            kept = list(dict.fromkeys(top for top in found.values() if top is not None))
        if twice := [name for name in kept if counts[name] > 1]:
            raise ShardError(
                f"{path!r} has several columns named {twice[0]!r}, of which a row can have one. Give columns= without "
                "it, or write the file with other names",
                shard=path,
            )
        return cls(None if wanted is None else list(wanted), kept)

    def read(self, reader: _Reader, group: int) -> pa.Table:
        """Read these columns of a row group."""
        import pyarrow as pa

        file = reader.file_for(group, self.paths)
        is_large = file.metadata.row_group(group).total_byte_size >= _FOR_THREADS
        try:
            table = file.read_row_group(group, columns=self.paths, use_threads=is_large).combine_chunks()
        except pa.ArrowNotImplementedError:  # a nested column of more than 2 GiB
            table = pa.Table.from_batches(list(file.iter_batches(row_groups=[group], columns=self.paths)))
        reader.clear()
        # By number: pyarrow takes a name with dots for a path.
        names = table.column_names
        return table.select([names.index(name) for name in self.kept])


def _top_level(name: str, names: Sequence[str], leaves: Sequence[str]) -> str | None:
    """The top-level column with this name, or that has the nested field with this path."""
    if name in names:
        return name
    if any(leaf == name or leaf.startswith(f"{name}.") for leaf in leaves):
        tops = [top for top in names if name.startswith(f"{top}.")]
        return max(tops, key=len, default=None)
    return None


def partitions_of(names: Iterable[str], files: Sequence[str]) -> list[dict[str, int | str | None]]:
    """The columns in the folders of each file: ``year=2024/part.parquet`` has the column ``year``.

    As in pyarrow, folders count below the place where a folder was given or a pattern begins. A column has integers if
    all of its values are integers, else text.

    Args:
        names: What the user gave: names, with or without braces and wildcards.
        files: The files that were found.
    """
    roots = {_PATTERN.split(name, maxsplit=1)[0].rpartition("/")[0] for name in names}
    found: list[dict[str, str | None]] = []
    for path in files:
        inside = [root for root in roots if path.startswith(f"{root}/") or not root]
        below = path[len(max(inside, key=len, default=path)) :]
        parts = (part.partition("=") for part in below.split("/")[:-1])
        found.append(
            {unquote(key): None if value == _NULL else unquote(value) for key, is_one, value in parts if is_one}
        )
    keys = list(dict.fromkeys(key for each in found for key in each))
    numbers = {key for key in keys if all(_NUMBER.fullmatch(each[key] or "0") for each in found if key in each)}

    def value_of(each: dict[str, str | None], key: str) -> int | str | None:
        value = each.get(key)
        return int(value) if value is not None and key in numbers else value

    return [{key: value_of(each, key) for key in keys} for each in found]
