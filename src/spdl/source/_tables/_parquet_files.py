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

from spdl.source._errors import ShardError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "ParquetFiles", "parquet", "partitions_of"]

#: Number of files that stay open between reads, and the bytes of footers that stay in memory.
_MAX_OPEN: Final = 64
_MAX_FOOTERS: Final = 256 << 20
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
    def reader(self, path: str) -> Iterator[Any]:
        """A ``pyarrow.parquet.ParquetFile`` for this thread.

        Raises:
            ShardError: The file is damaged, or is not a Parquet file; also if that shows while it is used.
        """
        from pyarrow import ArrowException

        if self._pid != os.getpid():  # the child of a fork shares the positions of the parent's files
            self._begin()
        try:
            found = self._take(path) or _Reader(path, self._open_file, self._footers.get(path))
            yield found.file
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

    __slots__ = ("_source", "file")

    def __init__(self, path: str, open_file: Callable[[str], Any] | None, footer: Any) -> None:
        self._source = None
        source: Any = path
        if open_file is not None:
            source = open_file(path)
            if isinstance(source, io.BufferedReader) and not isinstance(source.raw, io.FileIO):
                # Arrow asks for the ranges that it needs. A buffer would divide each request in two.
                source = source.detach()
            self._source = source
        self.file = parquet().ParquetFile(source, metadata=footer, pre_buffer=open_file is not None)

    def __del__(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


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

    def read(self, file: Any, group: int) -> pa.Table:
        """Read these columns of a row group."""
        import pyarrow as pa

        try:
            table = file.read_row_group(group, columns=self.paths).combine_chunks()
        except pa.ArrowNotImplementedError:  # a nested column of more than 2 GiB
            table = pa.Table.from_batches(list(file.iter_batches(row_groups=[group], columns=self.paths)))
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
