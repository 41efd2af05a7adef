"""decord, in the fork eva-decord for current Pythons: ``get_batch`` at the size of the clip."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import decord
import numpy as np


def versions() -> dict[str, str]:
    return {"eva-decord": metadata.version("eva-decord")}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    path, (height, width) = data["path"], data["size"]

    def clip(indices: list[int]) -> Any:
        return decord.VideoReader(path, width=width, height=height, num_threads=1).get_batch(indices).asnumpy()

    return lambda: np.ascontiguousarray(
        np.stack([clip(indices) for indices in data["indices"]]).transpose(0, 4, 1, 2, 3)
    )


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"clips": result}
