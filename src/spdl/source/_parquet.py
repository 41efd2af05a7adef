"""``ParquetRows``: rows of Parquet files as a source that can be indexed."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zlib import crc32

from spdl._numbers import as_int
from spdl.source._find import braced, find_files, is_folder, place_of
from spdl.source._stores import ShardError

from ._parquet_files import Columns, ParquetFiles, parquet, partitions_of
from ._protocols import Rows

if TYPE_CHECKING:
    import pyarrow as pa


class _Group(NamedTuple):
    """A row group of a file."""

    path: str
    number: int  #: in its file
    num_rows: int
    file: int  #: number of the file


class ParquetRows(Rows[dict[str, Any]]):
    """The rows of Parquet files: ``rows[number]`` is a dictionary by column. Needs pyarrow (``spdl-native[parquet]``).

    Parquet is read by row group, so a row is cheap only if other rows of its group are read soon. The groups used last
    stay in memory. Use ``ShardOrder`` for the order; it treats each row group as a shard:

    .. code-block:: python

        rows = ParquetRows("table-{00..15}.parquet", columns=["text"], open_groups=20)
        builder = PipelineBuilder().add_source(ShardOrder(rows, open_shards=16)).pipe(rows.__getitem__, concurrency=4)

    Thread-safe: each group is decoded by one thread, without the GIL. A copy in another process caches its own groups.

    Each file is opened and its footer read once; up to 64 files stay open.

    Args:
        files: Names of files, with or without braces and wildcards; folders, for all ``*.parquet`` below them; or URLs
            (such as ``s3://``) of objects in one bucket or on one host, which are read by ranges. With ``open_file``,
            wildcards are not expanded.
        columns: Columns to read: top-level names, or paths of nested fields (``"user.name"``), which give the top-level
            column with these fields only, as in ``pyarrow.parquet.ParquetFile.read``. ``None``: all.
        open_groups: Number of row groups to keep in memory. Use more than the ``open_shards`` of the order, because
            the groups of two windows are needed where one window ends and the next begins.
        open_file: Function from a name to a seekable binary file, such as ``RemoteStore.open`` of a store with
            options. ``None``: local files and URLs.
        schema: What to do if the files have different columns or types. ``None``: that is an error. ``"promote"``: a
            missing column is ``None``, and types are promoted as by ``pyarrow.unify_schemas(promote_options=
            "permissive")``. A ``pyarrow.Schema``: each file is cast to it.
        partitioning: ``"hive"``: folders named ``key=value`` below a folder or pattern that was given are columns, as
            in pyarrow. ``None``: they are not.

    Raises:
        ImportError: pyarrow is not installed.
        FileNotFoundError: A file does not exist, or nothing matches.
        ShardError: A file is damaged, is not a Parquet file, lacks a column, has two columns with the same name, or has
            other columns or types than the first file.
    """

    def __init__(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        columns: Sequence[str] | None = None,
        open_groups: int = 32,
        open_file: Callable[[str], Any] | None = None,
        schema: pa.Schema | Literal["promote"] | None = None,
        partitioning: Literal["hive"] | None = "hive",
    ) -> None:
        parquet()
        if partitioning not in ("hive", None):
            raise ValueError(f"partitioning must be 'hive' or None, got {partitioning!r}")
        names = [files] if isinstance(files, str | os.PathLike) else list(files)
        self._files, patterns, opener = _find_files(names, open_file)
        if not self._files:
            raise ValueError("there must be one file or more, got none")
        self._columns = None if columns is None else list(columns)
        self._open_groups = as_int("open_groups", open_groups, 1)
        self._partitions = [dict[str, Any]()] * len(self._files)
        if partitioning is not None:
            self._partitions = partitions_of(patterns, self._files)
        self._reading = ParquetFiles(opener)
        self._groups: list[_Group] = []
        self._chosen: list[Columns] = []
        schemas: list[Any] = []
        for index, path in enumerate(self._files):
            with self._reading.reader(path) as reader:
                file = reader.file
                self._chosen.append(self._choose(index, file))
                schemas.append(_sorted_schema(file.schema_arrow, self._chosen[-1].kept, schemas))
                metadata = file.metadata
                sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
            self._groups += [_Group(path, number, size, index) for number, size in enumerate(sizes)]
        self._schema = _common_schema(self._files, schemas, schema)
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
                with self._reading.reader(group.path) as reader:
                    table = self._chosen[group.file].read(reader, group.number)
                    kept.table = self._completed(table, group.file)
            return kept.table

    def _completed(self, table: pa.Table, file: int) -> pa.Table:
        """The table with the common schema and the columns of the partition."""
        import pyarrow as pa

        if self._schema is not None and table.schema != self._schema:
            columns = [
                table[field.name].cast(field.type)
                if field.name in table.column_names
                else pa.nulls(len(table), field.type)
                for field in self._schema
            ]
            table = pa.table(columns, schema=self._schema)
        for name, value in self._partitions[file].items():
            if self._columns is None or name in self._columns:
                kind = pa.int32() if any(type(each[name]) is int for each in self._partitions) else pa.string()
                table = table.append_column(name, pa.repeat(pa.scalar(value, kind), len(table)))
        return table

    def _choose(self, index: int, file: Any) -> Columns:
        path, own = self._files[index], self._partitions[index]
        both = [name for name in own if name in file.schema_arrow.names]
        if both:
            raise ShardError(
                f"{path!r} has the column {both[0]!r}, which is also the name of a folder. partitioning=None ignores "
                "the names of folders",
                shard=path,
            )
        wanted = None if self._columns is None else [name for name in self._columns if name not in own]
        return Columns.of(path, file, wanted)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(len(self._groups)):
            yield from self.read_group(number).to_pylist()

    def _row(self, number: int) -> dict[str, Any]:
        place = bisect_right(self._firsts, number) - 1
        table, own = self.read_group(place), number - self._firsts[place]
        return {name: column[own].as_py() for name, column in zip(table.column_names, table.columns, strict=True)}

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


def _find_files(
    names: Sequence[str | os.PathLike[str]], open_file: Callable[[str], Any] | None
) -> tuple[list[str], list[str], Callable[[str], Any] | None]:
    """The files, the names and patterns that they come from in the same form, and the function that opens them."""
    if open_file is not None:
        texts = [os.fspath(name) for name in names]
        return [each for name in names for each in braced(name)], texts, open_file
    store, addresses = place_of(names)
    patterns = [os.path.join(each.path, "**/*.parquet") if is_folder(each) else each.path for each in addresses]
    files = find_files(store, addresses, ("**/*.parquet",))
    if store is None:
        return [file.path for file in files], patterns, None
    found = {store._shown(file.path): file.path for file in files}
    return list(found), [store.url + pattern for pattern in patterns], _RemoteFiles(store, found)


class _RemoteFiles:
    """Opens the objects of a store by their URLs. The store knows sizes and versions from its listing."""

    def __init__(self, store: Any, paths: dict[str, str]) -> None:
        self._store, self._paths = store, paths

    def __call__(self, url: str) -> Any:
        return self._store.open(self._paths[url])


def _sorted_schema(schema: pa.Schema, kept: Sequence[str], before: Sequence[pa.Schema]) -> pa.Schema:
    """The schema of the kept columns without metadata, in the order of the first file if it has the same columns."""
    import pyarrow as pa

    order = list(kept)
    if before and sorted(before[0].names) == sorted(order):
        order = before[0].names
    return pa.schema([pa.field(name, schema.field(name).type) for name in order])


def _common_schema(files: Sequence[str], schemas: Sequence[pa.Schema], rule: Any) -> pa.Schema | None:
    """The schema of all tables; ``None``: each file has it.

    Raises:
        ShardError: The files differ, and there is no rule for that, or it does not cover their types.
        TypeError: The rule is none.
    """
    import pyarrow as pa

    if isinstance(rule, pa.Schema):
        return rule.remove_metadata()
    if rule == "promote":
        try:
            return pa.unify_schemas(list(schemas), promote_options="permissive")
        except pa.ArrowException as error:
            raise ShardError(
                f"cannot promote the types of {len(files)} Parquet files: {error}", shard=files[0]
            ) from error
    if rule is not None:
        raise TypeError(f"schema must be a pyarrow.Schema, 'promote' or None, got {rule!r}")
    for path, schema in zip(files, schemas, strict=True):
        if schema != schemas[0]:
            raise ShardError(
                f"the Parquet files differ: {_difference(schemas[0], schema)} in {files[0]!r} and {path!r}. Give "
                "schema='promote' or a pyarrow.Schema, or columns= that they share",
                shard=path,
            )
    return None


def _difference(one: pa.Schema, other: pa.Schema) -> str:
    for name in dict.fromkeys([*one.names, *other.names]):
        kinds = [str(schema.field(name).type) if name in schema.names else "missing" for schema in (one, other)]
        if kinds[0] != kinds[1]:
            return f"column {name!r} is {kinds[0]} and {kinds[1]}"
    return "their columns are"
