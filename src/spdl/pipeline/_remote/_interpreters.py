"""Subinterpreters as workers of a pipeline: the names, and a clear error.

On Python 3.14 a subinterpreter with a GIL of its own refuses daemon threads, of which the engine is made (a thread that
runs a user's blocking call must not hold up the exit), and NumPy, ``spdl.io`` and Pillow refuse to load. What remains,
calls of pure Python functions, is what an ``InterpreterPoolExecutor`` as the executor of a stage gives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from spdl._errors import UnsupportedPythonError

if TYPE_CHECKING:
    from spdl.pipeline._builder import PipelineBuilder
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._observe import BackgroundTaskFactory, TaskHook
    from spdl.pipeline._observe._queues import AsyncQueue
    from spdl.pipeline.defs import MaxFailures, PipelineConfig

__all__ = ["iterate_in_subinterpreter", "run_pipeline_in_subinterpreter"]

T = TypeVar("T")


def iterate_in_subinterpreter(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None = None,
    timeout: float | None = None,
) -> Iterable[T]:
    """Iterate over what ``fn`` returns in a subinterpreter. Requires Python 3.14.

    Args:
        fn: Called once, there; returns what is iterated.
        buffer_size: Items that are made ahead.
        initializer: Called there before ``fn``: one, or several in order.
        timeout: Seconds to wait for an item.

    Raises:
        UnsupportedPythonError: Always: before Python 3.14 there are none, and on 3.14 they cannot do it.
    """
    _refuse("iterate_in_subinterpreter", "iterate_in_subprocess")


def run_pipeline_in_subinterpreter(
    config: PipelineConfig[T] | PipelineBuilder[Any, T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: Callable[..., AsyncQueue] | None = None,
    task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None = None,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    **kwargs: Any,
) -> Iterable[T]:
    """Run a pipeline in a subinterpreter. Requires Python 3.14.

    Args:
        config: The pipeline, or its builder.
        num_threads: As in :func:`~spdl.pipeline.build_pipeline`, like the following ones.
        max_failures: See there.
        report_stats_interval: See there.
        queue_class: See there.
        task_hook_factory: See there.
        background_tasks: See there.
        use_thread_output_queue: See there.
        **kwargs: For :func:`iterate_in_subinterpreter`.

    Raises:
        UnsupportedPythonError: Always: before Python 3.14 there are none, and on 3.14 they cannot do it.
    """
    _refuse("run_pipeline_in_subinterpreter", "run_pipeline_in_subprocess")


def _refuse(name: str, instead: str) -> NoReturn:
    version = sys.version.split()[0]
    if sys.version_info < (3, 14):
        raise UnsupportedPythonError(f"{name} requires Python 3.14 or later, this is {version}; use {instead}")
    raise UnsupportedPythonError(
        f"{name} cannot run on Python {version}: subinterpreters have no daemon threads, which the engine needs, and "
        f"NumPy and spdl.io do not load there; use {instead}, or an InterpreterPoolExecutor as the executor of a stage"
    )
