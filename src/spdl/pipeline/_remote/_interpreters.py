"""Functions that would run pipelines in subinterpreters. They exist for compatibility and always raise a clear error.

On Python 3.14 a subinterpreter with its own GIL refuses daemon threads, which the engine needs (a thread that runs a
user's blocking call must not delay the exit), and NumPy, ``spdl.io`` and Pillow do not load there. Calls of pure Python
functions work; for them, use an ``InterpreterPoolExecutor`` as the executor of a stage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from spdl._errors import UnsupportedPythonError

if TYPE_CHECKING:
    from spdl.pipeline._builder import PipelineBuilder
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._observe._background import BackgroundTaskFactory
    from spdl.pipeline._observe._queues import AsyncQueue
    from spdl.pipeline._observe._task_hooks import TaskHook
    from spdl.pipeline.defs import MaxFailures, PipelineConfig

T = TypeVar("T")


def iterate_in_subinterpreter(
    fn: Callable[[], Iterable[T]],
    *,
    buffer_size: int = 3,
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None = None,
    timeout: float | None = None,
) -> Iterable[T]:
    """Not available: always raises. Would iterate over the result of ``fn`` in a subinterpreter.

    Args:
        fn: Function called once, in the subinterpreter; returns the iterable.
        buffer_size: Number of items to prefetch.
        initializer: Function, or several in order, called in the subinterpreter before ``fn``.
        timeout: Maximum time in seconds to wait for an item.

    Raises:
        UnsupportedPythonError: Always. Before Python 3.14 there are no subinterpreters; on 3.14 they cannot run this.
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
    """Not available: always raises. Would run a pipeline in a subinterpreter.

    Args:
        config: The pipeline, or its builder.
        num_threads: Same as in :func:`~spdl.pipeline.build_pipeline`.
        max_failures: Same.
        report_stats_interval: Same.
        queue_class: Same.
        task_hook_factory: Same.
        background_tasks: Same.
        use_thread_output_queue: Same.
        **kwargs: Arguments of :func:`iterate_in_subinterpreter`.

    Raises:
        UnsupportedPythonError: Always. Before Python 3.14 there are no subinterpreters; on 3.14 they cannot run this.
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
