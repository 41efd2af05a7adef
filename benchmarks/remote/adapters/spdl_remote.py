"""``spdl.remote``: one store for all threads; in the cached cases with a cache that an earlier epoch filled."""

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import obstore

import spdl
from spdl.remote import DiskCache, Located, RemoteStore
from spdl.source import ParquetRows

from ._outputs import outputs as outputs


def versions() -> dict[str, str]:
    return {"spdl": spdl.__version__, "obstore": obstore.__version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if data["kind"] == "parquet":
        return lambda: _row_groups(data["url"] + data["table"])
    store = _store(data["url"], data["cache"] if data["kind"] == "cached" else None)
    if data["kind"] == "parts":
        parts = itertools.starmap(lambda offset, length: Located("shard.tar", offset, length), data["parts"])
        located = list(parts)
        return lambda: [store.read(each) for each in located]
    return lambda: [store.get(path) for path in data["paths"]]


def _row_groups(url: str) -> Any:
    rows = ParquetRows(url, open_groups=1)
    return [rows.read_group(number) for number in range(len(rows.shard_sizes))]


@lru_cache
def _store(url: str, cache: str | None) -> RemoteStore:
    return RemoteStore(url, cache=None if cache is None else DiskCache(cache, "1GiB"))
