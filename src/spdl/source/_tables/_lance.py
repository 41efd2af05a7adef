"""``LanceRows``: rows of a Lance dataset as a source that can be indexed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any
from zlib import crc32

from spdl.source._errors import ShardError

from ._rows import Rows

__all__ = ["LanceRows"]


class LanceRows(Rows[dict[str, Any]]):
    """The rows of a Lance dataset: ``rows[number]`` is a dictionary by column. Needs pylance (``spdl-native[lance]``).

    Lance reads single rows fast, so any order is fine; with ``ShardOrder``, each fragment is a shard. The version of
    the dataset is fixed when the object is made, and is the same in copies in other processes. Thread-safe; reads
    without the GIL.

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
        ShardError: The dataset cannot be opened, or lacks a column.
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
        dataset = self._opened()
        try:
            found: list[dict[str, Any]] = dataset.take(list(numbers), columns=self._columns).to_pylist()
        except (OSError, RuntimeError, ValueError) as error:
            raise self._error("read rows of", error) from error
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._opened().to_batches(columns=self._columns):
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

    def _error(self, action: str, error: Exception) -> ShardError:
        return ShardError(f"cannot {action} the Lance dataset {self._uri!r}: {error}", shard=self._uri)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_dataset")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock(), _dataset=None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r}: {len(self)} rows in {len(self._sizes)} fragments)"


def _lance() -> Any:
    try:
        import lance
    except ImportError as error:
        raise ImportError("LanceRows needs pylance: pip install 'spdl-native[lance]'") from error
    return lance
