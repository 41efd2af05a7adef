"""Merges the outputs of several pipelines into one stream."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ._repr import describe_callable, indent

if TYPE_CHECKING:
    from ._pipeline import PipelineConfig

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
        from ._pipeline import PipelineConfig  # imported late: PipelineConfig refers to MergeConfig

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
