"""A whole pipeline, or several merged into one, and the checks that need all of its stages."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from spdl._errors import UnsupportedPythonError

from ._placement import InterpreterPoolExecutorConfig, MainProcess, PlacementConfig
from ._repr import describe_callable, indent
from ._source import SinkConfig, SourceConfig
from ._stage import PathStage, StageConfig

U = TypeVar("U")
V = TypeVar("V")

#: ``async op(info, input_queues, output_queue)``
MergeOp: TypeAlias = Callable[[Any, Sequence[Any], Any], Awaitable[None]]


@dataclass(frozen=True, repr=False)
class MergeConfig:
    """Several pipelines as the source of another; made by :func:`Merge`.

    Args:
        pipeline_configs: Pipelines to merge. Their sinks are ignored.
        op: Async function that reads the outputs of the pipelines and emits the merged stream. ``None``: all outputs
            are emitted in order of arrival.

    Raises:
        ValueError: ``pipeline_configs`` is empty.
        TypeError: One of them is not a :class:`PipelineConfig`, or ``op`` is not callable.
    """

    pipeline_configs: "tuple[PipelineConfig[Any], ...]"
    op: MergeOp | None = None

    def __post_init__(self) -> None:
        configs = tuple(self.pipeline_configs)
        if not configs:
            raise ValueError("a merge needs at least one upstream pipeline, got none")
        for position, config in enumerate(configs):
            if not isinstance(config, PipelineConfig):
                raise TypeError(
                    f"a merge takes PipelineConfigs, got {type(config).__qualname__} at position {position}"
                )
        if self.op is not None and not callable(self.op):
            raise TypeError(f"op must be an async function, got an object of type {type(self.op).__qualname__}")
        object.__setattr__(self, "pipeline_configs", configs)

    def __repr__(self) -> str:
        lines = ["MergeConfig("]
        if self.op is not None:
            lines.append(f"  op={describe_callable(self.op)}")
        for number, config in enumerate(self.pipeline_configs, 1):
            lines += [f"  Pipeline {number}:", indent(repr(config), "    ")]
        lines.append(")")
        return "\n".join(lines)


def Merge(pipeline_configs: "Sequence[PipelineConfig[Any]]", op: MergeOp | None = None) -> MergeConfig:
    """Describe a source that merges the outputs of several pipelines.

    Args:
        pipeline_configs: Pipelines to merge. Their sinks are ignored.
        op: ``async op(info, input_queues, output_queue)`` that reads each input queue until
            :func:`~spdl.pipeline.is_eof` and puts the merged stream into the output queue. ``None``: all outputs are
            emitted in order of arrival.

    Raises:
        ValueError: ``pipeline_configs`` is empty.
        TypeError: One of them is not a :class:`PipelineConfig`, or ``op`` is not callable.
    """
    return MergeConfig(tuple(pipeline_configs), op)


@dataclass(frozen=True, repr=False)
class PipelineConfig(Generic[U]):
    """A whole pipeline.

    Args:
        src: Source of the items, or a merge of other pipelines.
        pipes: Stages in order.
        sink: Buffer from which outputs are read.

    Raises:
        TypeError: An argument, or one of the stages, has the wrong type.
    """

    src: SourceConfig[Any] | MergeConfig
    pipes: Sequence[StageConfig]
    sink: SinkConfig[U]

    def __post_init__(self) -> None:
        if not isinstance(self.src, SourceConfig | MergeConfig):
            raise TypeError(f"src must be a SourceConfig or a MergeConfig, got {type(self.src).__qualname__}")
        if not isinstance(self.sink, SinkConfig):
            raise TypeError(f"sink must be a SinkConfig, got {type(self.sink).__qualname__}")
        if not isinstance(self.pipes, Sequence):
            raise TypeError(f"pipes must be a sequence of stages, got {type(self.pipes).__qualname__}")
        for position, stage in enumerate(self.pipes):
            if isinstance(stage, MergeConfig):
                raise TypeError(f"a merge cannot be a stage (position {position} of pipes): give it as src")
            if not isinstance(stage, StageConfig):
                raise TypeError(
                    "a stage is made by Pipe, Aggregate, Disaggregate or PathVariants, or is a PlacementConfig, "
                    f"got {type(stage).__qualname__} at position {position} of pipes"
                )

    def __repr__(self) -> str:
        lines = ["PipelineConfig"]
        if isinstance(self.src, MergeConfig):
            lines += [" - Source:", indent(repr(self.src), "   ")]
        else:
            lines.append(f" - Source: {self.src!r}")
        lines.append(" - Pipes:")
        lines += [f"   - {stage!r}" for stage in self.pipes]
        lines.append(f" - Sink: {self.sink!r}")
        return "\n".join(lines)

    def _fold(self, visit: "Callable[[PipelineConfig[Any], list[V]], V]") -> V:
        """Return ``visit(pipeline, results)`` of this pipeline.

        ``results`` are those of the pipelines that are merged into it, which are visited before it, in order.
        """
        merged = self.src.pipeline_configs if isinstance(self.src, MergeConfig) else ()
        return visit(self, [each._fold(visit) for each in merged])

    def _walk(self) -> "list[PipelineConfig[Any]]":
        """Return all pipelines, in the order in which ``_fold`` visits them."""
        found: list[PipelineConfig[Any]] = []
        self._fold(lambda each, _: found.append(each))
        return found

    def _with_pipes(self, pipes_of: "Callable[[PipelineConfig[Any]], Sequence[StageConfig]]") -> "PipelineConfig[U]":
        """Return the pipeline with the stages ``pipes_of(pipeline)`` in each, itself and those merged into it."""

        def visit(each: PipelineConfig[Any], merged: list[PipelineConfig[Any]]) -> PipelineConfig[Any]:
            src = replace(each.src, pipeline_configs=tuple(merged)) if isinstance(each.src, MergeConfig) else each.src
            return replace(each, src=src, pipes=pipes_of(each))

        return self._fold(visit)


def check_regions(pipes: Sequence[StageConfig], *, may_stay_open: bool) -> None:
    """Check the regions between placement marks. Raises ``ValueError`` or ``UnsupportedPythonError``.

    ``may_stay_open``: whether the last region may extend to the sink, as in a description written by hand.
    """
    region: PlacementConfig | None = None
    num_stages = 0
    for stage in pipes:
        if isinstance(stage, PlacementConfig):
            if region is not None and num_stages == 0:
                raise ValueError(f"the region {region!r} has no stages: add some before {stage!r}, or remove the mark")
            region, num_stages = (None if isinstance(stage.target, MainProcess) else stage), 0
            _check_python(stage)
        elif region is not None:
            num_stages += 1
            if isinstance(stage, PathStage):
                stage._check_in_region(region)
    if region is not None:
        if not may_stay_open:
            raise ValueError(f"the region {region!r} must be closed with .to(MAIN_PROCESS) before the sink")
        if num_stages == 0:
            raise ValueError(f"the region {region!r} has no stages: add some after it, or remove the mark")


def _check_python(mark: PlacementConfig) -> None:
    if not isinstance(mark.target, InterpreterPoolExecutorConfig):
        return
    version = sys.version.split()[0]
    if sys.version_info < (3, 14):
        raise UnsupportedPythonError(
            f"{mark!r} requires Python 3.14 or later, this is {version}: use ProcessPoolExecutorConfig"
        )
    raise UnsupportedPythonError(
        f"{mark!r} cannot run on Python {version}: subinterpreters have no daemon threads, which the workers of a "
        "region need. Use ProcessPoolExecutorConfig, or an InterpreterPoolExecutor as the executor of a stage"
    )
