"""SPDL through its public API.

The same file runs in two interpreters: with this checkout, and with the released reference in its own environment. So
both are called in the same way.
"""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Literal

from benchmarks.engine._cases import NUM_THREADS, SINK_SIZE, Case

from ._adapter import Reader, Run, noop, noop_async

__all__ = ["SpdlPipeline"]


class SpdlPipeline:
    """``PipelineBuilder`` with its defaults: statistics on, at the sink size and thread count of the cases."""

    name = "spdl"

    def available(self) -> bool:
        if find_spec("spdl") is None or find_spec("spdl.pipeline") is None:
            return False
        import spdl.pipeline

        return hasattr(spdl.pipeline, "PipelineBuilder")

    def versions(self) -> dict[str, str]:
        try:
            return {"spdl": version("spdl")}
        except PackageNotFoundError:  # a checkout that is on the path and was never installed
            return {"spdl": "checkout"}

    def supports(self, case: Case) -> bool:
        return True

    def make(self, case: Case) -> Run:
        from spdl.pipeline import PipelineBuilder

        op = noop_async if case.kind == "async" else noop
        output_order: Literal["input", "completion"] = "input" if case.ordered else "completion"

        def run(n: int, read: Reader) -> Any:
            builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(range(n))
            for _ in range(case.num_stages):
                builder.pipe(op, concurrency=case.concurrency, output_order=output_order)
            if case.batch_size is not None:
                builder.aggregate(case.batch_size)
            pipeline = builder.add_sink(SINK_SIZE).build(num_threads=NUM_THREADS)
            with pipeline.auto_stop():
                return read(pipeline)

        return run

    def first_item(self) -> object:
        from spdl.pipeline import PipelineBuilder

        # The source is longer than the buffers, so that the pipeline is still working when it is stopped.
        builder: PipelineBuilder[Any, Any] = (
            PipelineBuilder().add_source(range(1000)).pipe(noop, concurrency=4).add_sink(SINK_SIZE)
        )
        pipeline = builder.build(num_threads=4)
        with pipeline.auto_stop():
            return pipeline.get_item(timeout=30)

    def each(self, op: Callable[[bytes], int], items: list[bytes], num_threads: int) -> int:
        from spdl.pipeline import PipelineBuilder

        builder: PipelineBuilder[Any, Any] = (
            PipelineBuilder().add_source(items).pipe(op, concurrency=num_threads).add_sink(SINK_SIZE)
        )
        pipeline = builder.build(num_threads=num_threads)
        with pipeline.auto_stop():
            return sum(pipeline)
