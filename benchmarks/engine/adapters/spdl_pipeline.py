"""SPDL through its public API: ``PipelineBuilder`` with its defaults, statistics on.

The same file runs in several interpreters: with this checkout, with the released reference in its own environment, and
with another checkout. So all are called in the same way.
"""

from collections.abc import Callable
from typing import Any, Literal

from benchmarks._contest.ours import spdl_version
from benchmarks.engine._adapter import Reader, Run, Settings, noop, noop_async
from benchmarks.engine._shapes import NUM_THREADS, SINK_SIZE, Shape
from spdl.pipeline import PipelineBuilder


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def make(shape: Shape, settings: Settings) -> Run:
    op = noop_async if shape.kind == "async" else noop
    output_order: Literal["input", "completion"] = "input" if shape.ordered else "completion"

    def run(n: int, read: Reader) -> Any:
        builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(range(n))
        for _ in range(shape.num_stages):
            builder.pipe(op, concurrency=shape.concurrency, output_order=output_order)
        if shape.batch_size is not None:
            builder.aggregate(shape.batch_size)
        pipeline = builder.add_sink(SINK_SIZE).build(num_threads=NUM_THREADS)
        with pipeline.auto_stop():
            return read(pipeline)

    return run


def first_item() -> object:
    # The source is longer than the buffers, so that the pipeline is still working when it is stopped.
    builder: PipelineBuilder[Any, Any] = (
        PipelineBuilder().add_source(range(1000)).pipe(noop, concurrency=4).add_sink(SINK_SIZE)
    )
    pipeline = builder.build(num_threads=4)
    with pipeline.auto_stop():
        return pipeline.get_item(timeout=30)


def each(op: Callable[[bytes], int], items: list[bytes], num_threads: int) -> int:
    builder: PipelineBuilder[Any, Any] = (
        PipelineBuilder().add_source(items).pipe(op, concurrency=num_threads).add_sink(SINK_SIZE)
    )
    pipeline = builder.build(num_threads=num_threads)
    with pipeline.auto_stop():
        return sum(pipeline)
