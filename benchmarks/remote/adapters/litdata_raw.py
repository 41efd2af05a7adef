"""LitData's dataset of raw files, which fetches a batch at a time by asynchronous calls of obstore.

Look-ahead and its cache are off, so that every object is fetched once per turn, as by the others. nginx has no lists of
objects, so the index is given.
"""

import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import litdata
from litdata.raw.indexer import BaseIndexer, FileMetadata
from litdata.streaming import downloader

from ._outputs import outputs as outputs

_URL = "s3://bucket/"


def versions() -> dict[str, str]:
    return {"litdata": litdata.__version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    dataset = _dataset(data["endpoint"].rstrip("/"), tuple(data["paths"]))
    everything = list(range(len(dataset)))
    return lambda: dataset.__getitems__(everything)


class _Known(BaseIndexer):
    """Files whose names are known."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths

    def discover_files(self, input_dir: str, storage_options: dict[str, Any] | None) -> list[FileMetadata]:
        return [FileMetadata(_URL + path, 100_000) for path in self._paths]

    def build_or_load_index(self, *arguments: Any, **options: Any) -> list[FileMetadata]:
        return self.discover_files(_URL, None)


@lru_cache
def _dataset(endpoint: str, paths: tuple[str, ...]) -> Any:
    # It has no option for servers without TLS.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    options = {"endpoint_url": endpoint, "aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    return litdata.StreamingRawDataset(
        _URL,
        cache_dir=tempfile.mkdtemp(prefix="litdata-"),
        indexer=_Known(paths),
        storage_options=options | {"region_name": "us-east-1"},
        max_prefetch=0,
    )
