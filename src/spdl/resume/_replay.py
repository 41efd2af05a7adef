"""Making a batch again that a log of provenance names."""

from __future__ import annotations

import operator
from os import PathLike
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

if TYPE_CHECKING:
    from spdl.pipeline import PipelineBuilder
    from spdl.pipeline.defs import PipelineConfig

__all__ = ["replay"]

T = TypeVar("T")


def replay(
    builder: PipelineBuilder[Any, T] | PipelineConfig[T],
    log: str | PathLike[str],
    /,
    *,
    step: SupportsIndex,
    num_threads: int | None = None,
) -> T:
    """Make exactly the batch again that a pipeline gave at a step.

    The items at the logged positions run through the stages with the random numbers that they had, and aggregators get
    them in the logged order. So the batch is equal to the last bit if the ops are functions of their item and their
    ``rng``, whatever the order, the threads, the number of ranks and the machine were. The source must give the same
    items: its ``set_epoch`` is called if it has one, and its epoch is set back afterwards.

    .. code-block:: python

        pipeline = builder.build(seed=5, provenance="batches.jsonl")
        for batch in pipeline:
            train(batch)  # the loss explodes at step 1
        batch = resume.replay(builder, "batches.jsonl", step=1)

    Args:
        builder: The pipeline that wrote the log, or its builder. Concurrency and buffers may differ. The seed is in the
            log. Its executors are used, and not shut down.
        log: The file that was given as ``build(provenance=)``.
        step: Number of the output, from 0. In a resumed run the numbers go on. Of several with this number, the newest
            counts.
        num_threads: Number of worker threads, as in ``build``.

    Raises:
        OSError: The log cannot be read.
        ResumeError: The log does not have the step or is damaged; it is of another pipeline; the batch cannot be made
            again, because aggregates are merged, aggregators split items, regions make aggregates or several outputs,
            or the source cannot find its items again; or the stages fail or make other outputs.
        PipelineFailure: A stage failed as a whole.
    """
    from spdl.pipeline import PipelineBuilder  # not for those who only save and load states
    from spdl.pipeline._provenance._reading import read_batch
    from spdl.pipeline._provenance._replay import replay_batch

    logged = read_batch(log, operator.index(step))
    config = builder.get_config() if isinstance(builder, PipelineBuilder) else builder
    return replay_batch(config, logged, num_threads)  # type: ignore[no-any-return]
