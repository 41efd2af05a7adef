"""``build_pipeline``: turns a description into a ``Pipeline`` with its observers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from spdl._processes._environment import preload

from . import config as _config
from ._assemble import assemble
from ._info import StageInfo
from ._options import BuildOptions, shows_options
from ._pipeline import Pipeline
from .defs import PipelineConfig

if TYPE_CHECKING:
    from ._engine._region._workers import RegionWorkers
    from .defs import Region

# A process that builds pipelines probably starts children that need the engine too, and importing it takes longer than
# starting a process.
preload(
    "spdl.pipeline._build",
    "spdl.pipeline._remote._isolated_main",
    "spdl.pipeline._remote._moved_pool",
    "spdl.pipeline._remote._region_main",
    "spdl.pipeline._remote._run_pipeline_main",
)

U = TypeVar("U")


@shows_options()
def build_pipeline(pipeline_cfg: PipelineConfig[U], /, **options: Unpack[BuildOptions]) -> Pipeline[U]:
    """Build a pipeline from its description, without starting it.

    In diagnostic mode (:func:`spdl.pipeline.config.is_diagnostic_mode_enabled`), the first read of the pipeline
    profiles its stages, prints the results, and raises ``SystemExit(0)``.

    Args:
        pipeline_cfg: Description of the pipeline, from ``PipelineBuilder.get_config`` or written by hand.
        **options: Options of the build.

    Raises:
        OSError: The quarantine file or the provenance file cannot be opened.
        ValueError: An argument is out of range, a merge mixes continuous and ordinary sources, or the pipeline cannot
            be resumed exactly. The message names the stages and what to do about them.
        TypeError: An argument has the wrong type, or ``queue_class`` returns a queue that cannot observe a channel.
    """
    given: object = pipeline_cfg
    if not isinstance(given, PipelineConfig):
        what = type(given).__qualname__
        raise TypeError(f"pipeline_cfg must be a PipelineConfig, got {what}: pass builder.get_config()")
    return build_for("build_pipeline", pipeline_cfg, options)


def build_for(function: str, pipeline_cfg: PipelineConfig[U], options: BuildOptions) -> Pipeline[U]:
    """``build_pipeline`` for the function that the user called; messages name that one."""
    pipeline = assemble(pipeline_cfg, options, function=function, make_region_workers=_make_region_workers)
    if _config.is_diagnostic_mode_enabled():
        from ._profiling import DiagnosticPipeline  # imported late: for diagnostic mode only

        return DiagnosticPipeline(pipeline, pipeline_cfg)
    return pipeline


def _make_region_workers(region: Region, info: StageInfo, options: BuildOptions) -> RegionWorkers:
    from ._remote._regions import make_workers  # imported late: few pipelines need processes

    return make_workers(region, info, options)
