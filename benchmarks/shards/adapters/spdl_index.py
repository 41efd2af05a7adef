"""``TarIndex`` on one thread: in order, or by ``ShardOrder`` with its usual 16 shards. The index is open already."""

from collections.abc import Callable
from typing import Any

from benchmarks._contest.ours import spdl_version
from spdl.source import ShardOrder, TarIndex

from ._samples import consume
from ._samples import outputs as outputs


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if case == "open":
        # Without looking at the shards, which are not there.
        return lambda: len(TarIndex._opened(data["index"], None, is_stored=False))
    index = TarIndex.of(data["pattern"])
    if case.startswith("in_order"):
        return lambda: consume(index)
    order, epochs = ShardOrder(index), iter(range(10**9))

    def read() -> Any:
        order.set_epoch(next(epochs))
        return consume(map(index.read, order))

    return read
