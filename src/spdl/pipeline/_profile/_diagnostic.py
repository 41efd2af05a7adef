"""Diagnostic mode: the first read of a pipeline profiles its stages and ends the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spdl.pipeline import config as _config
from spdl.pipeline._pipeline import Pipeline

from ._run import profile_pipeline

if TYPE_CHECKING:
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline.defs import PipelineConfig

    from ._results import ProfileResult

U = TypeVar("U")


def diagnosed(pipeline: Pipeline[U], cfg: PipelineConfig[U]) -> Pipeline[U]:
    """Return a pipeline that profiles itself when it is read. ``pipeline`` has not been started."""
    return _DiagnosticPipeline(pipeline._engine, pipeline._description, cfg)


class _DiagnosticPipeline(Pipeline[U]):
    """A pipeline whose first read profiles the stages. It never starts its engine."""

    def __init__(self, engine: Engine, description: str, cfg: PipelineConfig[U]) -> None:
        super().__init__(engine, description)
        self._cfg = cfg
        self._num_inputs = _config.diagnostic_mode_num_sources()

    def start(self, *, timeout: float | None = None, **kwargs: Any) -> None:
        """Do nothing: the first read profiles the stages."""

    def _begin(self) -> None:
        self._check_process()
        profile_pipeline(self._cfg, self._num_inputs, callback=_show)
        raise SystemExit(0)


def _show(result: ProfileResult) -> None:
    print(f"{result}\n", flush=True)
    callback = _config.get_default_profile_callback()
    if callback is not None:
        callback(result)
