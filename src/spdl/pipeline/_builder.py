"""``PipelineBuilder``: fluent calls that become a description of a pipeline."""

from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl.pipeline._errors import PipelineStructureError
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    ExecutorConfig,
    MainProcess,
    Op,
    OutputOrder,
    PathStage,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    Retry,
    SinkConfig,
    SourceConfig,
    StageConfig,
    check_regions,
)

if TYPE_CHECKING:
    from spdl.pipeline._pipeline import Pipeline

__all__ = ["PipelineBuilder"]

T = TypeVar("T")
U = TypeVar("U")


class PipelineBuilder(Generic[T, U]):
    """Builds a pipeline of one source, stages in order, and one sink.

    Every method returns the builder. A mistake in one call is raised by that call, one in the whole by
    :meth:`get_config` and :meth:`build`. A builder can be built several times; the pipelines do not know each other,
    but they share what it was given: a generator as source, an aggregator. It pickles if source and ops do.

    .. code-block:: python

        pipeline = (
            PipelineBuilder()
            .add_source(paths)
            .pipe(load, concurrency=8)
            .aggregate(32)
            .add_sink()
            .build()
        )
        with pipeline.auto_stop():
            for batch in pipeline:
                ...
    """

    def __init__(self: "PipelineBuilder[Any, Any]") -> None:
        self._source: SourceConfig[Any] | None = None
        self._stages: list[StageConfig] = []
        self._sink: SinkConfig[Any] | None = None

    def add_source(
        self, source: Iterable[Any] | AsyncIterable[Any], *, continuous: bool = False
    ) -> "PipelineBuilder[T, U]":
        """Say where items come from.

        Args:
            source: What is iterated. A sync one is iterated by a thread of its own and may block.
            continuous: Iterate it again and again. Each pass is an epoch, and each iterator of the pipeline covers one.

        Raises:
            ValueError: It cannot be iterated, or there is a source already.
        """
        if self._source is not None:
            raise ValueError(f"a source is set already: {self._source!r}; use Merge to join several")
        self._source = SourceConfig(source, continuous)
        return self

    def pipe(
        self,
        op: Op,
        /,
        *,
        concurrency: int = 1,
        executor: Executor | None = None,
        name: str | None = None,
        output_order: OutputOrder = "completion",
        max_failures: int | Fraction | None = None,
        isolate: bool = False,
        retry: int | Retry | None = None,
        timeout: float | None = None,
    ) -> "PipelineBuilder[T, U]":
        """Add a stage that runs ``op`` on every item. Its errors are those of :func:`~spdl.pipeline.defs.Pipe`.

        Args:
            op: A function, generator function, their async kinds, an object that can be called, or a container. What
                it returns or yields is an output, except ``None``.
            concurrency: Most calls in flight.
            executor: Where the calls run, in place of the pipeline's worker threads. For sync ops.
            name: Name of the stage; that of the op by default.
            output_order: ``"completion"``, or ``"input"`` to emit results in the order of their inputs.
            max_failures: Limit of this stage in place of the pipeline's.
            isolate: Run the calls in processes of their own: a crash of the op costs the item, not the pipeline.
            retry: How many attempts an item gets, or a :class:`~spdl.pipeline.defs.Retry`.
            timeout: Seconds that an item may take; see :func:`~spdl.pipeline.defs.Pipe`.
        """
        self._stages.append(
            Pipe(
                op,
                concurrency=concurrency,
                executor=executor,
                name=name,
                output_order=output_order,
                max_failures=max_failures,
                isolate=isolate,
                retry=retry,
                timeout=timeout,
            )
        )
        return self

    def aggregate(self, input: int | Aggregator[Any, Any], /, *, drop_last: bool = False) -> "PipelineBuilder[T, U]":
        """Add a stage that puts items together.

        Args:
            input: Length of the lists to make, or an :class:`~spdl.pipeline.defs.Aggregator`.
            drop_last: Discard what is incomplete at the end of the stream or of an epoch.

        Raises:
            TypeError: ``input`` is neither.
            ValueError: The length is less than 1.
        """
        self._stages.append(Aggregate(input, drop_last=drop_last))
        return self

    def disaggregate(self) -> "PipelineBuilder[T, U]":
        """Add a stage that emits the items of each incoming iterable one by one."""
        self._stages.append(Disaggregate())
        return self

    def path_variants(
        self,
        router: Callable[[Any], Any],
        paths: Sequence[Sequence[PathStage]],
        name: str | None = None,
        batched: bool = False,
    ) -> "PipelineBuilder[T, U]":
        """Add a stage that sends each item down one of several paths.

        Args:
            router: Gets an item and returns the index of its path. Sync or async. If ``batched``, it gets a list of
                items and returns an index for each.
            paths: The stages of each path, made by the functions of :mod:`spdl.pipeline.defs`.
            name: Name of the stage; ``"path_variants"`` by default.
            batched: Items are lists, whose elements are sent down their paths and joined again.

        Raises:
            ValueError: ``router`` cannot be called, or a path is empty or has something in it that cannot be there.
        """
        self._stages.append(PathVariants(router, paths, name, batched))
        return self

    def to(self, target: ExecutorConfig | MainProcess, /, *, buffer_size: int = 1) -> "PipelineBuilder[T, U]":
        """Say where the stages after this run: a region (experimental).

        Args:
            target: A :class:`~spdl.pipeline.defs.ProcessPoolExecutorConfig` or another description of workers opens a
                region, :data:`~spdl.pipeline.defs.MAIN_PROCESS` closes it.
            buffer_size: Most items in one transfer, into the region or out of it.

        Raises:
            TypeError: ``target`` is a running executor, or nothing of the kind.
            ValueError: ``buffer_size`` is less than 1.
        """
        self._stages.append(PlacementConfig(target, buffer_size=buffer_size))
        return self

    def add_sink(self, buffer_size: int = 3) -> "PipelineBuilder[T, U]":
        """Say how many outputs may wait to be read.

        Raises:
            ValueError: ``buffer_size`` is not an int, or less than 1; or there is a sink already.
        """
        if self._sink is not None:
            raise ValueError(f"a sink is set already: {self._sink!r}")
        self._sink = SinkConfig(buffer_size)
        return self

    def get_config(self) -> PipelineConfig[U]:
        """Get the description of the pipeline as it is now. Later calls of the builder do not change it.

        Raises:
            PipelineStructureError: There is no source, or no sink.
            ValueError: A region is open at the sink, has no stages, or has one that keeps the order of its inputs.
            UnsupportedPythonError: A region of subinterpreters before Python 3.14.
        """
        if self._source is None:
            raise PipelineStructureError("the pipeline has no source: call add_source")
        if self._sink is None:
            raise PipelineStructureError("the pipeline has no sink: call add_sink")
        check_regions(self._stages, may_stay_open=False)
        return PipelineConfig(self._source, list(self._stages), self._sink)

    def build(
        self,
        *,
        num_threads: int | None = None,
        max_failures: int | Fraction = -1,
        report_stats_interval: float = -1,
        queue_class: Callable[..., Any] | None = None,
        task_hook_factory: Callable[..., Any] | None = None,
        stage_id: int = 0,
        use_thread_output_queue: bool = False,
    ) -> "Pipeline[U]":
        """Build the pipeline; the same as :func:`~spdl.pipeline.build_pipeline` of :meth:`get_config`.

        Args:
            num_threads: Worker threads shared by all sync ops. ``None``: chosen from the CPUs this process may use.
            max_failures: How many calls may fail, summed over all stages (``int``; negative: any number), or which
                share of them (:class:`~fractions.Fraction`).
            report_stats_interval: Seconds between reports of statistics in the log; ``-1``: only at the end.
            queue_class: Makes what observes the buffer after each stage.
            task_hook_factory: Called with each stage's :class:`~spdl.pipeline.StageInfo`; returns its hooks.
            stage_id: Number of the first stage.
            use_thread_output_queue: Has no effect: the sink can always be read from any thread.

        Raises:
            PipelineStructureError: There is no source, or no sink.
            ValueError: An argument is out of range, or the stages do not fit together.
            TypeError: An argument has the wrong type.
        """
        from spdl.pipeline._build import build_pipeline  # it loads the engine, which a description does not need

        return build_pipeline(
            self.get_config(),
            num_threads=num_threads,
            max_failures=max_failures,
            report_stats_interval=report_stats_interval,
            queue_class=queue_class,
            task_hook_factory=task_hook_factory,
            stage_id=stage_id,
            use_thread_output_queue=use_thread_output_queue,
        )

    def __repr__(self) -> str:
        num_stages = len(self._stages)
        return f"PipelineBuilder(source={self._source!r}, {num_stages} stages, sink={self._sink!r})"
