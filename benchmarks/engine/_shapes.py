"""The shapes of pipeline that are measured. Data only: workers import it.

Every case moves the integers ``0 .. n-1`` through stages that return their argument, into a sink of
:data:`SINK_SIZE`. If a peer lacks a setting, its adapter says what it does instead.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["NUM_THREADS", "SHAPES", "SINK_SIZE", "Shape"]

#: Items that may wait between the last stage and the consumer.
SINK_SIZE = 100

#: Threads that a pipeline with sync stages gets, whatever the concurrency of its stages.
NUM_THREADS = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of pipeline.

    Attributes:
        name: The name in ``--cases``.
        title: The name in the table.
        num_stages: The number of stages that call the no-op; 0 for none.
        kind: The kind of the no-op: function or coroutine function.
        concurrency: The maximum number of calls in flight in each stage.
        ordered: Whether the stages must emit in input order.
        batch_size: The number of items aggregated to one list before the sink; ``None`` for no aggregation.
        required: The minimum cost of the reference over SPDL's (median wall time per source item).
    """

    name: str
    title: str
    required: float
    num_stages: int = 0
    kind: Literal["sync", "async"] = "sync"
    concurrency: int = 1
    ordered: bool = False
    batch_size: int | None = None

    @property
    def promises_order(self) -> bool:
        """Whether the output must be in source order; it always is with one call at a time."""
        return self.ordered or self.concurrency == 1


SHAPES: tuple[Shape, ...] = (
    Shape("source_sink", "source → sink", 50),
    Shape("sync_c4", "one sync stage, concurrency 4", 60, num_stages=1, concurrency=4),
    Shape("sync_c4_ordered", "the same, input order", 50, num_stages=1, concurrency=4, ordered=True),
    Shape("sync3_c1", "three sync stages, concurrency 1 (default)", 60, num_stages=3),
    Shape("sync3_c4", "three sync stages, concurrency 4", 60, num_stages=3, concurrency=4),
    Shape("async_c1", "one async stage, concurrency 1 (default)", 10, num_stages=1, kind="async"),
    Shape("async_c4", "one async stage, concurrency 4", 10, num_stages=1, kind="async", concurrency=4),
    Shape("async3_c1", "three async stages, concurrency 1 (default)", 10, num_stages=3, kind="async"),
    Shape("async3_c4", "three async stages, concurrency 4", 10, num_stages=3, kind="async", concurrency=4),
    Shape("aggregate32", "aggregate(32), per source item", 50, batch_size=32),
)
