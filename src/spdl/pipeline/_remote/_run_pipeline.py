"""A whole pipeline in another process, iterated from here; in a subinterpreter, which is refused."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn, TypeVar, Unpack

from spdl._errors import UnsupportedPythonError
from spdl._processes._main_module import find_unpicklable
from spdl.pipeline._builder import PipelineBuilder
from spdl.pipeline._exactness import check_exact, check_seeded
from spdl.pipeline._options import OPTIONS, BuildOptions, checked, shows_options
from spdl.pipeline.config import is_diagnostic_mode_enabled
from spdl.pipeline.defs import MergeConfig, PipelineConfig, PlacementConfig

from ._iterate import Worker, iterate_in_subprocess, start_iterating
from ._moved import MovedWorkers, move_executors
from ._run_pipeline_main import PipelineFactory, take_along

T = TypeVar("T")


class _Arguments(BuildOptions, total=False):
    """The options of the build, and the arguments of ``iterate_in_subprocess`` beside them."""

    buffer_size: int
    initializer: Callable[[], object] | Sequence[Callable[[], object]] | None
    mp_context: str | None
    timeout: float | None
    daemon: bool
    arena: Any


#: Arguments of ``iterate_in_subprocess`` that are no options of the build.
_OF_PROCESS = frozenset(inspect.signature(iterate_in_subprocess).parameters) - OPTIONS.keys() - {"fn"}


@shows_options()
def run_pipeline_in_subprocess(
    config: PipelineConfig[T] | PipelineBuilder[Any, T], /, **kwargs: Unpack[_Arguments]
) -> Iterable[T]:
    """Run a pipeline in a new process, and return an iterable over its outputs that can be iterated many times.

    The process is started at once and is reused. With an ordinary source, each iteration builds a new pipeline in it;
    the source lives there and keeps its state. With a continuous source there is one pipeline, and each iteration is an
    epoch. The global random state of ``random``, and of NumPy's legacy functions and torch (CPU) if they are imported,
    is copied to the process. Worker processes, of process pools in stages and of regions, are children of this process,
    and end with the returned iterable.

    Options that are functions must pickle, and run in the process, whose log has the reports. With ``resumable``, an
    item is consumed when it has been read here, and ``buffer_size`` must be limited. An error that
    ``stall_action="raise"`` raises there arrives as a :class:`WorkerError` with the report in its text.

    .. code-block:: python

        batches = run_pipeline_in_subprocess(builder)
        for epoch in range(num_epochs):
            for batch in batches:
                train(batch)

    Args:
        config: The pipeline, or its builder. Its parts must pickle. Standard thread and process pools may be executors
            of stages, if they have not been used.
        **options: See :func:`~spdl.pipeline.build_pipeline`.
        **kwargs: Arguments of :func:`~spdl.pipeline.iterate_in_subprocess`. ``initializer`` runs after the random state
            has been set.

    Returns:
        An iterable that can be iterated many times, by one consumer at a time. When it is garbage collected, the
        processes end. It raises the errors of :func:`~spdl.pipeline.iterate_in_subprocess`; if a pipeline failed, they
        name its stages and any worker that died.

    Raises:
        TypeError: ``config`` is neither a description nor a builder; a part cannot be pickled and the process cannot be
            forked; an argument is unknown.
        ValueError: An argument is out of range; a pool has been used; the pipeline cannot be resumed exactly.
        PipelineStructureError: The builder has no source or no sink.
        WorkerError: The process or a worker could not be started, or an initializer failed.
    """
    if isinstance(config, PipelineBuilder):
        config = config.get_config()
    elif not isinstance(config, PipelineConfig):
        raise TypeError(f"config must be a PipelineConfig or a PipelineBuilder, got {type(config).__qualname__}")
    of_process: dict[str, Any] = {name: value for name, value in kwargs.items() if name in _OF_PROCESS}
    given = {name: value for name, value in kwargs.items() if name not in _OF_PROCESS}
    options = checked("run_pipeline_in_subprocess", given, _OF_PROCESS)  # type: ignore[arg-type] # it checks the names
    check_exact(config, options["resumable"])
    check_seeded(config)
    options["provenance"] = _absolute(options["provenance"])
    options["quarantine"] = _absolute(options["quarantine"])
    if is_diagnostic_mode_enabled():
        # The first read profiles the stages and ends the program, so it must happen in this process.
        from spdl.pipeline._build import build_pipeline

        return build_pipeline(config)
    workers = MovedWorkers()
    try:
        config = move_executors(config, workers, of_process.get("mp_context"))
        if has_regions(config):
            from ._regions import move_regions  # imported late: rarely needed, and slow to import

            config = move_regions(config, options, workers, of_process.get("mp_context"))
        is_resumable = bool(options["resumable"])
        items: Worker[T] = start_iterating(
            PipelineFactory(config, options), first=take_along(), is_resumable=is_resumable, **of_process
        )
        workers.close_ends()
        workers.wait_ready()
    except BaseException as exc:
        workers.stop()
        if type(exc) is TypeError and (part := find_unpicklable_part(config, options)) is not None:
            raise TypeError(f"cannot send {part}\n{exc}") from exc.__cause__
        raise
    if workers.children:
        items.own(workers)
    return items


def _absolute(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else os.path.abspath(path)  # the process may have another folder


def has_regions(config: PipelineConfig[Any]) -> bool:
    """Return whether the pipeline has regions."""
    return any(isinstance(stage, PlacementConfig) for each in config._walk() for stage in each.pipes)


def find_unpicklable_part(config: PipelineConfig[Any], options: Mapping[str, Any]) -> str | None:
    """Return the name of the first part that does not pickle, and why; ``None`` if all parts pickle."""
    # Locks and queues of multiprocessing, which pickle only as arguments of a new process, raise RuntimeError.
    found = find_unpicklable([*_parts(config), *options.items()], ignored=(RuntimeError,))
    return None if found is None else ": ".join(found)


def _parts(config: PipelineConfig[Any]) -> Iterator[tuple[str, Any]]:
    for each in config._walk():
        if isinstance(each.src, MergeConfig):
            yield "the op of the merge", each.src.op
        else:
            yield f"the source {each.src!r}", each.src.source
        for stage in each.pipes:
            yield from stage._pickled_parts()


# -- not available
#
# On Python 3.14 a subinterpreter with its own GIL refuses daemon threads, which the engine needs (a thread that runs a
# user's blocking call must not delay the exit), and NumPy, ``spdl.io`` and Pillow do not load there. Calls of pure
# Python functions work; for them, use an ``InterpreterPoolExecutor`` as the executor of a stage.


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
