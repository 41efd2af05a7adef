"""``ShardStream``, without an index; shuffled by archives and a buffer of 1000 samples, as WebDataset."""

from collections.abc import Callable
from typing import Any

from benchmarks._contest.ours import spdl_version
from spdl.source import ShardStream, ShuffleBuffer

from ._samples import consume
from ._samples import outputs as outputs


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if case == "open":
        return None
    if case.startswith("in_order"):
        stream = ShardStream(data["pattern"])
        return lambda: consume(stream)
    source = ShuffleBuffer(ShardStream(data["pattern"], seed=0), 1000)
    return lambda: consume(source)
