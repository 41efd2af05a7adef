"""decord, in the fork eva-decord for current Pythons: ``get_batch``. Its own FFmpeg scales bicubically."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import decord

from ._shown import shown


def versions() -> dict[str, str]:
    return {"eva-decord": metadata.version("eva-decord")}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    path = data["path"]
    if data.get("scaler") == "bilinear":
        return None
    if "times" in data:
        return None
    if "indices" in data:
        return lambda: decord.VideoReader(path, num_threads=1).get_batch(data["indices"]).asnumpy()
    size = data.get("size", -1)

    def decode() -> Any:
        reader = decord.VideoReader(path, width=size, height=size, num_threads=1)
        return reader.get_batch(range(len(reader))).asnumpy()

    return decode


def outputs(case: str, result: Any) -> dict[str, Any]:
    return shown(result)
