"""``ParquetRows``: rows of Parquet files as a source that can be indexed."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from spdl.source._arguments import as_int
from spdl.source._braces import expand_braces
from spdl.source._errors import ShardError
from spdl.source._stores import LocalFiles, list_named
from spdl.source._urls import is_url, open_object, store_of

from ._rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetRows"]


class _Group(NamedTuple):
    """A row group of a file."""

    path: str
    number: int  #: in its file
    num_rows: int


class ParquetRows(Rows[dict[str, Any]]):
    """The rows of Parquet files: ``rows[number]`` is a dictionary by column. Needs pyarrow (``spdl-native[parquet]``).

    Parquet is read by row group, so a row is cheap only if other rows of its group are read soon. The groups used last
    stay in memory. Use ``ShardOrder`` for the order; it treats each row group as a shard:

    .. code-block:: python

        rows = ParquetRows("table-{00..15}.parquet", columns=["text"], open_groups=20)
        builder = PipelineBuilder().add_source(ShardOrder(rows, open_shards=16)).pipe(rows.__getitem__, concurrency=4)

    Thread-safe: each group is decoded by one thread, without the GIL. A copy in another process caches its own groups.

    Args:
        files: Names of files, with or without braces and wildcards; or URLs (such as ``s3://``) of objects in one
            bucket or on one host, which are read by ranges. With ``open_file``, wildcards are not expanded.
        columns: Columns to read. ``None``: all.
        open_groups: Number of row groups to keep in memory. Use more than the ``open_shards`` of the order, because
            the groups of two windows are needed where one window ends and the next begins.
        open_file: Function from a name to a seekable binary file, such as ``RemoteStore.open`` of a store with
            options. ``None``: local files and URLs.

    Raises:
        ImportError: pyarrow is not installed.
        FileNotFoundError: A file does not exist, or nothing matches.
        ShardError: A file is damaged, is not a Parquet file, or lacks a column.
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        columns: Sequence[str] | None = None,
        open_groups: int = 32,
        open_file: Callable[[str], Any] | None = None,
    ) -> None:
        _parquet()
        names = [files] if isinstance(files, str | os.PathLike) else files
        given = [name for each in names for name in expand_braces(os.fspath(each))]
        if open_file is None and any(map(is_url, given)):
            store, paths = store_of(given)
            self._files = [store.url_of(file.path) for file in list_named(store, paths)]
            open_file = open_object
        else:
            self._files = given if open_file else [file.path for file in list_named(LocalFiles(), given)]
        if not self._files:
            raise ValueError("there must be one file or more, got none")
        self._columns = None if columns is None else list(columns)
        self._open_groups = as_int("open_groups", open_groups)
        if self._open_groups < 1:
            raise ValueError(f"open_groups must be >= 1, got {self._open_groups}")
        self._open_file = open_file
        self._groups: list[_Group] = []
        for path in self._files:
            with self._opened(path) as file:
                self._check_columns(path, file.schema_arrow.names)
                metadata = file.metadata
                sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            self._groups += [_Group(path, number, size) for number, size in enumerate(sizes)]
        self._firsts = [0, *accumulate(group.num_rows for group in self._groups)]
        self._lock = Lock()
        self._kept: dict[int, _Kept] = {}  # guarded by the lock; least recently used first

    @property
    def files(self) -> list[str]:
        """The names of the files, in order."""
        return list(self._files)

    @property
    def shard_sizes(self) -> list[int]:
        """The number of rows in each row group."""
        return [group.num_rows for group in self._groups]

    @property
    def fingerprint(self) -> int:
        """A number that is equal for tables with row groups of the same sizes."""
        return crc32(repr(self.shard_sizes).encode())

    def read_group(self, number: int) -> pa.Table:
        """Read all rows of a row group, as a table. The group is cached, as when reading single rows."""
        with self._lock:
            kept = self._kept.pop(number, None) or _Kept()
            self._kept[number] = kept
            while len(self._kept) > self._open_groups:
                del self._kept[next(iter(self._kept))]
        with kept.lock:  # other threads that need this group wait here
            if kept.table is None:
                group = self._groups[number]
                with self._opened(group.path) as file:
                    read = self._attempt(group.path, partial(file.read_row_group, group.number, columns=self._columns))
                    kept.table = read.combine_chunks()
            return kept.table

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(len(self._groups)):
            yield from self.read_group(number).to_pylist()

    def _row(self, number: int) -> dict[str, Any]:
        place = bisect_right(self._firsts, number) - 1
        table, own = self.read_group(place), number - self._firsts[place]
        return {name: column[own].as_py() for name, column in zip(table.column_names, table.columns, strict=True)}

    @contextmanager
    def _opened(self, path: str) -> Iterator[Any]:
        source = path if self._open_file is None else self._open_file(path)
        try:
            with self._attempt(path, lambda: _parquet().ParquetFile(source)) as file:
                yield file
        finally:
            if (close := getattr(source, "close", None)) is not None:
                close()

    def _attempt(self, path: str, read: Callable[[], Any]) -> Any:
        from pyarrow import ArrowException

        try:
            return read()
        except FileNotFoundError:
            raise
        except (ArrowException, OSError) as error:
            raise ShardError(f"cannot read the Parquet file {path!r}: {error}", shard=path) from error

    def _check_columns(self, path: str, names: list[str]) -> None:
        missing = [name for name in self._columns or () if name not in names]
        if missing:
            raise ShardError(f"{path!r} has no columns {missing}; it has {names}", shard=path)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_kept")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock(), _kept={})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows in {len(self._groups)} groups of {len(self._files)} files)"


class _Kept:
    """A row group that is in memory or is being read."""

    __slots__ = ("lock", "table")

    def __init__(self) -> None:
        self.lock = Lock()
        self.table: pa.Table | None = None


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("ParquetRows needs pyarrow: pip install 'spdl-native[parquet]'") from error
    return pyarrow.parquet
