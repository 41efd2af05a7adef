"""torchdata's nodes: ``IterableWrapper``, ``ParallelMapper`` with threads, ``Batcher``, ``Prefetcher``.

A case without a stage ends in a ``Prefetcher`` of the sink size, so that items cross a thread as with other peers;
``ParallelMapper`` has its own threads. It has no async stages.
"""

from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from benchmarks.engine._cases import SINK_SIZE, Case

from ._adapter import Reader, Run, noop

__all__ = ["TorchdataNodes"]


class TorchdataNodes:
    """``torchdata.nodes`` read through its ``Loader``."""

    name = "torchdata"

    def available(self) -> bool:
        return find_spec("torchdata") is not None and find_spec("torch") is not None

    def versions(self) -> dict[str, str]:
        return {"torchdata": version("torchdata"), "torch": version("torch")}

    def supports(self, case: Case) -> bool:
        return case.kind == "sync"

    def make(self, case: Case) -> Run:
        from torchdata import nodes

        def run(n: int, read: Reader) -> Any:
            node: Any = nodes.IterableWrapper(range(n))
            for _ in range(case.num_stages):
                node = nodes.ParallelMapper(
                    node, noop, num_workers=case.concurrency, in_order=case.promises_order, method="thread"
                )
            if case.batch_size is not None:
                node = nodes.Batcher(node, case.batch_size, drop_last=False)
            if case.num_stages == 0:
                node = nodes.Prefetcher(node, prefetch_factor=SINK_SIZE)
            return read(nodes.Loader(node))

        return run
