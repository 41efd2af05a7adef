"""``LanceRows``: rows of a Lance dataset as a source that can be indexed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any
from zlib import crc32

from spdl.source._stores import ShardError

from ._protocols import Rows


class LanceRows(Rows[dict[str, Any]]):
    """The rows of a Lance dataset: ``rows[number]`` is a dictionary by column. Needs pylance (``spdl-native[lance]``).

    Lance reads single rows fast, so any order is fine; with ``ShardOrder``, each fragment is a shard. The version of
    the dataset is fixed when the object is made, and is the same in copies in other processes. Blob columns give their
    bytes. Thread-safe; reads without the GIL.

    .. code-block:: python

        rows = LanceRows("s3://bucket/photos.lance", columns=["image", "label"])
        builder = PipelineBuilder().add_source(DistributedKeyedSampler(len(rows)))
        builder.pipe(rows.__getitem__, concurrency=16)

    Args:
        uri: URI of the dataset, as for ``lance.dataset``.
        columns: Columns to read. ``None``: all.
        version: Version of the dataset, a number or tag. ``None``: the newest.
        storage_options: Options for object stores, as for ``lance.dataset``.

    Raises:
        ImportError: pylance is not installed.
        ShardError: The dataset cannot be opened, lacks a column, or has blobs that pylance cannot read by row: those of
            version 0.1 of the format, and those in lists.
    """

    def __init__(
        self,
        uri: str,
        *,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._uri = str(uri)
        self._columns = None if columns is None else list(columns)
        self._storage_options = None if storage_options is None else dict(storage_options)
        self._version = version
        self._lock = Lock()
        self._dataset: Any = None  # opened in the process that reads
        dataset = self._opened()
        self._version = dataset.version
        missing = [name for name in self._columns or () if name not in dataset.schema.names]
        if missing:
            raise ShardError(f"{self._uri!r} has no columns {missing}; it has {dataset.schema.names}", shard=self._uri)
        wanted = [field for field in dataset.schema if self._columns is None or field.name in self._columns]
        #: Paths of the fields whose bytes are stored apart. For these, pylance returns descriptions.
        self._blobs = [path for field in wanted for path in self._blobs_in(field)]
        if self._blobs and dataset.data_storage_version in ("0.1", "legacy"):
            raise self._unread(".".join(self._blobs[0]), f"in version {dataset.data_storage_version} of the format")
        self._sizes: list[int] = [fragment.count_rows() for fragment in dataset.get_fragments()]
        self._firsts = [0, *accumulate(self._sizes)]

    @property
    def uri(self) -> str:
        """URI of the dataset."""
        return self._uri

    @property
    def version(self) -> int | str | None:
        """The version that is read."""
        return self._version

    @property
    def shard_sizes(self) -> list[int]:
        """The number of rows in each fragment."""
        return list(self._sizes)

    @property
    def fingerprint(self) -> int:
        """A number that is equal for datasets with fragments of the same sizes."""
        return crc32(repr(self._sizes).encode())

    def fragment_of(self, number: int) -> int:
        """The number of the fragment that contains a row."""
        return bisect_right(self._firsts, number) - 1

    def take(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Read several rows, in one request.

        Raises:
            ShardError: The rows cannot be read.
        """
        dataset, own = self._opened(), list(numbers)
        try:
            found: list[dict[str, Any]] = dataset.take(own, columns=self._columns).to_pylist()
            for *parents, name in self._blobs:
                blobs = dataset.take_blobs(".".join([*parents, name]), indices=own) if own else []
                for row, blob in zip(found, blobs, strict=True):
                    inner: Any = row
                    for parent in parents:
                        inner = None if inner is None else inner[parent]
                    if inner is not None:
                        inner[name] = None if blob is None else blob.readall()
        except (OSError, RuntimeError, ValueError) as error:
            raise self._error("read rows of", error) from error
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        options = {"blob_handling": "all_binary"} if self._blobs else {}
        for batch in self._opened().scanner(columns=self._columns, **options).to_batches():
            yield from batch.to_pylist()

    def _row(self, number: int) -> dict[str, Any]:
        return self.take([number])[0]

    def _rows(self, numbers: range) -> list[dict[str, Any]]:
        return self.take(numbers)

    def _opened(self) -> Any:
        with self._lock:
            if self._dataset is None:
                lance = _lance()
                try:
                    self._dataset = lance.dataset(
                        self._uri, version=self._version, storage_options=self._storage_options
                    )
                except (OSError, RuntimeError, ValueError) as error:
                    raise self._error("open", error) from error
            return self._dataset

    def _blobs_in(self, field: Any) -> Iterator[tuple[str, ...]]:
        """The paths of all blobs in a field."""
        from pyarrow import types  # pylance needs it

        if _is_blob(field):
            yield (field.name,)
        elif types.is_struct(field.type):
            for inner in field.type:
                yield from ((field.name, *path) for path in self._blobs_in(inner))
        else:
            for number in range(field.type.num_fields):
                for path in self._blobs_in(field.type.field(number)):
                    raise self._unread(".".join((field.name, *path)), "in a list")

    def _unread(self, column: str, where: str) -> ShardError:
        return ShardError(
            f"cannot read the Lance dataset {self._uri!r}: the blobs of {column!r} are {where}, where pylance cannot "
            "read them by row. Leave this column out with columns=, or write it as large_binary",
            shard=self._uri,
        )

    def _error(self, action: str, error: Exception) -> ShardError:
        return ShardError(f"cannot {action} the Lance dataset {self._uri!r}: {error}", shard=self._uri)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_dataset")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock(), _dataset=None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r}: {len(self)} rows in {len(self._sizes)} fragments)"


def _is_blob(field: Any) -> bool:
    # Up to version 2.1 of the format by metadata, from 2.2 on also by an extension type.
    marked = (field.metadata or {}).get(b"lance-encoding:blob") == b"true"
    return marked or str(getattr(field.type, "extension_name", "")).startswith("lance.blob")


def _lance() -> Any:
    try:
        import lance
    except ImportError as error:
        raise ImportError("LanceRows needs pylance: pip install 'spdl-native[lance]'") from error
    return lance
