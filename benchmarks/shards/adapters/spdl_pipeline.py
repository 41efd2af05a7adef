"""The same in a pipeline of four threads, built anew for each epoch."""

from collections.abc import Callable
from typing import Any

from benchmarks._contest.ours import spdl_version
from spdl.pipeline import PipelineBuilder
from spdl.source import ShardOrder, TarIndex

from ._samples import consume
from ._samples import outputs as outputs


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    if case == "open":
        return None
    index, epochs = TarIndex.of(data["pattern"]), iter(range(10**9))

    def read() -> Any:
        order = ShardOrder(index, epoch=next(epochs), shuffle=not case.startswith("in_order"))
        builder = PipelineBuilder().add_source(order).pipe(index.read, concurrency=4).add_sink(64)
        pipeline = builder.build(num_threads=4)
        with pipeline.auto_stop():
            return consume(pipeline)

    return read
