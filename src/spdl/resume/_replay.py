"""Reproduces a batch from a provenance log."""

from __future__ import annotations

import operator
from os import PathLike
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

if TYPE_CHECKING:
    from spdl.pipeline import PipelineBuilder
    from spdl.pipeline.defs import PipelineConfig

T = TypeVar("T")


def replay(
    builder: PipelineBuilder[Any, T] | PipelineConfig[T],
    log: str | PathLike[str],
    /,
    *,
    step: SupportsIndex,
    num_threads: int | None = None,
) -> T:
    """Reproduce exactly the batch that a pipeline returned at a step.

    The items at the logged positions run through the stages with their original random numbers, and aggregators get
    them in the logged order. So the batch is bit-identical if the ops depend only on their item and their ``rng``,
    regardless of order, threads, number of ranks and machine. The source must return the same items: its ``set_epoch``
    is called if it has one, and its epoch is restored afterwards.

    .. code-block:: python

        pipeline = builder.build(seed=5, provenance="batches.jsonl")
        for batch in pipeline:
            train(batch)  # the loss explodes at step 1
        batch = resume.replay(builder, "batches.jsonl", step=1)

    Args:
        builder: The pipeline that wrote the log, or its builder. Concurrency and buffer sizes may differ. The log
            contains the seed. The pipeline's executors are used, and not shut down.
        log: The file passed as ``build(provenance=)``.
        step: Number of the output, from 0. A resumed run continues the numbers. If several have this number, the newest
            one of this pipeline counts.
        num_threads: Number of worker threads, as in ``build``.

    Raises:
        OSError: The log cannot be read.
        ResumeError: The log does not have the step, is damaged, or is from another pipeline; the batch cannot be
            reproduced, because aggregates are merged, aggregators split items, regions make aggregates or several
            outputs, or the source cannot find its items again; or the stages fail or make other outputs.
        PipelineFailure: A stage failed as a whole.
    """
    from spdl.pipeline import PipelineBuilder  # imported late: not needed to save and load states
    from spdl.pipeline._provenance._reading import read_batch
    from spdl.pipeline._provenance._replay import replay_batch

    candidates = read_batch(log, operator.index(step))
    config = builder.get_config() if isinstance(builder, PipelineBuilder) else builder
    return replay_batch(config, candidates, num_threads)  # type: ignore[no-any-return]
