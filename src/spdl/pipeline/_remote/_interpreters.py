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
from spdl.pipeline._options import shows_options

if TYPE_CHECKING:
    from spdl.pipeline._builder import PipelineBuilder
    from spdl.pipeline.defs import PipelineConfig

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


@shows_options()
def run_pipeline_in_subinterpreter(
    config: PipelineConfig[T] | PipelineBuilder[Any, T], /, **kwargs: Any
) -> Iterable[T]:
    """Not available: always raises. Would run a pipeline in a subinterpreter.

    Args:
        config: The pipeline, or its builder.
        **options: See :func:`~spdl.pipeline.build_pipeline`.
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
