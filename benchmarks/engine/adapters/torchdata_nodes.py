"""torchdata's nodes: ``IterableWrapper``, ``ParallelMapper`` with threads, ``Batcher``, ``Prefetcher``.

A case without a stage ends in a ``Prefetcher`` of the sink size, so that items cross a thread as with other peers;
``ParallelMapper`` has its own threads. It has no async stages.
"""

from importlib.metadata import version
from typing import Any

from torchdata import nodes

from benchmarks.engine._adapter import Reader, Run, Settings, noop
from benchmarks.engine._shapes import SINK_SIZE, Shape


def versions() -> dict[str, str]:
    return {"torchdata": version("torchdata"), "torch": version("torch")}


def make(shape: Shape, settings: Settings) -> Run | None:
    if shape.kind != "sync":
        return None

    def run(n: int, read: Reader) -> Any:
        node: Any = nodes.IterableWrapper(range(n))
        for _ in range(shape.num_stages):
            node = nodes.ParallelMapper(
                node, noop, num_workers=shape.concurrency, in_order=shape.promises_order, method="thread"
            )
        if shape.batch_size is not None:
            node = nodes.Batcher(node, shape.batch_size, drop_last=False)
        if shape.num_stages == 0:
            node = nodes.Prefetcher(node, prefetch_factor=SINK_SIZE)
        return read(nodes.Loader(node))

    return run
