"""obstore's synchronous calls in a loop, with nothing around them: what a client of it costs at least."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import obstore
from obstore.store import HTTPStore

from ._outputs import outputs as outputs


def versions() -> dict[str, str]:
    return {"obstore": obstore.__version__}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    store = _store(data["url"])
    if data["kind"] == "parts":
        return lambda: [
            bytes(obstore.get_range(store, "shard.tar", start=offset, length=length))
            for offset, length in data["parts"]
        ]
    return lambda: [bytes(obstore.get(store, path).bytes()) for path in data["paths"]]


@lru_cache
def _store(url: str) -> HTTPStore:
    return HTTPStore.from_url(url.rstrip("/"), client_options={"allow_http": True})
