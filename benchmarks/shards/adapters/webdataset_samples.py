"""``webdataset.WebDataset`` in this process: in order, or shuffled by archives and a buffer of 1000 samples."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import webdataset

from ._samples import consume
from ._samples import outputs as outputs


def versions() -> dict[str, str]:
    return {"webdataset": metadata.version("webdataset")}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if case == "open":
        return None
    if case.startswith("in_order"):
        dataset = webdataset.WebDataset(data["pattern"], shardshuffle=False, empty_check=False)
    else:
        dataset = webdataset.WebDataset(data["pattern"], shardshuffle=1000, empty_check=False).shuffle(1000)
    return lambda: consume(dataset)
