"""``assemble``: makes a pipeline from a description, with the observers and processes of its options."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from spdl._cpus import usable_cpus
from spdl._failure_log import log_failed_item
from spdl._reports import add_note, log, shown

from . import config as _config
from ._engine._counts import take_counts
from ._engine._engine import Engine, record
from ._engine._graph import build_graph, run_in_background
from ._engine._graph_builder import GraphOptions
from ._engine._stages._source import SourceNode
from ._exactness import check_exact, check_known, check_seeded
from ._info import PIPELINE_IDS, StageInfo
from ._observe._background import BackgroundTaskFactory
from ._observe._snapshot import History, stats_of
from ._observe._wiring import Wiring
from ._options import BuildOptions, checked
from ._pipeline import Pipeline
from .defs import PipelineConfig, Region

if TYPE_CHECKING:
    from ._engine._failures import Failure
    from ._engine._region._workers import RegionWorkers
    from ._engine._remote_calls import IsolatedTask, IsolatedWorker
    from ._failed_items import FailureEvent
    from ._observe._queues import AsyncQueue
    from ._provenance._log import ProvenanceLog
    from ._records import ItemReader, ItemWriter
    from .defs import SourceConfig

_LOG = logging.getLogger("spdl.pipeline")

U = TypeVar("U")

#: ``make(region, info, options)`` makes the workers of a region without starting them.
MakeRegionWorkers: TypeAlias = "Callable[[Region, StageInfo, BuildOptions], RegionWorkers]"


def assemble(
    cfg: PipelineConfig[U],
    options: BuildOptions,
    *,
    function: str = "build_pipeline",
    make_region_workers: MakeRegionWorkers | None = None,
    is_measured: bool = False,
) -> Pipeline[U]:
    """Make a pipeline without starting it.

    Args:
        cfg: Description of the pipeline.
        options: As the caller gave them.
        function: What the caller called, for messages.
        make_region_workers: Function that makes the workers of regions. ``None``: there are no regions.
        is_measured: Whether it is run for a profile: then the process-wide defaults have no effect, and failures are
            only counted.

    Raises the errors of ``build_pipeline``.
    """
    try:
        options = checked(function, options)
        if not is_measured:
            _call_back(cfg)
        approximate = check_exact(cfg, options["resumable"])
        check_seeded(cfg)
        if options["provenance"] is not None:
            check_known(cfg, "provenance= cannot log")
        wiring = Wiring(
            options["task_hook_factory"],
            options["queue_class"],
            options["report_stats_interval"],
            default_hook_class=_config.get_default_hook_class(),
            default_queue_class=_config.own_queue_class(),
        )
        engine = build_graph(cfg, _graph_options(options, wiring, make_region_workers, is_measured))
        return _observed(engine, cfg, options, wiring, approximate, is_measured)
    except Exception as exc:
        add_note(exc, f"while building\n{shown(cfg)}")
        raise


def _graph_options(
    options: BuildOptions, wiring: Wiring, make: MakeRegionWorkers | None, is_measured: bool
) -> GraphOptions:
    def make_region_workers(region: Region, info: StageInfo) -> RegionWorkers:
        assert make is not None
        return make(region, info, options)

    return GraphOptions(
        pipeline_id=PIPELINE_IDS.take(),
        # At least 4, so that blocking calls overlap.
        num_threads=options["num_threads"] or max(4, min(32, usable_cpus())),
        max_failures=options["max_failures"],
        seed=options["seed"],
        is_recorded=options["provenance"] is not None,
        keeps_keys=options["on_failure"] is not None or options["quarantine"] is not None,
        first_stage_id=options["stage_id"],
        wire=wiring.wire,
        make_merge_queues=_make_merge_queues,
        report_failure=_count_only if is_measured else partial(log_failed_item, Counter()),
        start_isolated=_start_isolated,
        make_region_workers=make_region_workers,
        make_exclusion=partial(_make_exclusion, options["quarantine"]),
    )


def _observed(
    engine: Engine,
    cfg: PipelineConfig[U],
    options: BuildOptions,
    wiring: Wiring,
    approximate: list[str],
    is_measured: bool,
) -> Pipeline[U]:
    """Return the pipeline of an engine, with all that runs beside it."""
    engine.judges_stages = not is_measured
    if options["stall_timeout"] is not None:
        from ._stalls import watch_stalls  # imported late: few pipelines need it

        watch_stalls(engine, options["stall_timeout"], options["stall_action"])
    history = History()
    wiring.attach(
        partial(run_in_background, engine),
        engine.on_ended.append,
        lambda: history.extended(stats_of(take_counts(engine))),
    )
    default_tasks = () if is_measured else _config.get_default_background_tasks() or ()
    for factory in (*default_tasks, *(options["background_tasks"] or ())):
        run_in_background(engine, getattr(factory, "__name__", None) or shown(factory), _runner(factory))
    if options["on_failure"] is not None or options["quarantine"] is not None:
        _watch_failures(engine, options["on_failure"], options["quarantine"])
    seed, path = options["seed"], options["provenance"]
    provenance = None if path is None else _open_log(cfg, engine, seed, path)
    if not options["resumable"]:
        return Pipeline(engine, repr(cfg), history=history)
    from ._state import make_resumable  # imported late: few pipelines need it

    return Pipeline(engine, repr(cfg), make_resumable(cfg, engine, approximate, seed, provenance), history)


def _open_log(cfg: PipelineConfig[Any], engine: Engine, seed: int, path: str | PathLike[str]) -> ProvenanceLog:
    from ._provenance._log import ProvenanceLog, fingerprint_for_log  # imported late: few pipelines need it

    found = ProvenanceLog(engine, fspath(path), (seed, fingerprint_for_log(cfg, engine, seed)))
    record(engine, found)
    engine.on_ended.append(found.close)
    return found


def _watch_failures(
    engine: Engine, on_failure: Callable[[FailureEvent], Any] | None, quarantine: str | PathLike[str] | None
) -> None:
    from ._excluding import size_of  # imported late: few pipelines need these
    from ._failed_items import FailureWatcher, QuarantineFile

    file = None
    if quarantine is not None:
        sources = [node for node in engine.nodes if isinstance(node, SourceNode)]
        ranks = (node.passes.rank for node in sources if node.passes.world > 1)
        sizes = {node.number: size_of(node.iterable) for node in sources}
        file = QuarantineFile(fspath(quarantine), next(ranks, None), sizes)
        engine.on_ended.append(file.close)
    engine.failure_watchers.append(FailureWatcher(engine, on_failure, file))


def _make_exclusion(quarantine: str | PathLike[str] | None, source: SourceConfig[Any]) -> Callable[[Any], bool]:
    from ._excluding import exclusion  # imported late: few pipelines need it

    return exclusion(source.exclude, source.exclude_keys, source.source, quarantine)


def _runner(factory: BackgroundTaskFactory) -> Callable[[], Any]:
    async def run() -> None:
        await factory().run()

    return run


def _start_isolated(task: IsolatedTask) -> IsolatedWorker:
    from ._remote._isolated import IsolatedChild  # imported late: few pipelines need processes

    return IsolatedChild(task)


def _make_merge_queues(
    info: StageInfo, inputs: list[tuple[StageInfo, ItemReader]], output: ItemWriter
) -> tuple[list[AsyncQueue], AsyncQueue]:
    from ._observe._queues import make_merge_queues  # imported late: they need asyncio

    return make_merge_queues(info, inputs, output)


def _count_only(failure: Failure) -> None:
    """Do nothing: the statistics already have the number of failures and the newest ones."""


def _call_back(cfg: PipelineConfig[Any]) -> None:
    callback = _config.get_default_build_callback()
    if callback is None:
        return
    try:
        callback(cfg)
    except Exception as exc:  # noqa: BLE001 - a callback must not fail the build
        log(_LOG, logging.ERROR, "the build callback %s failed", shown(callback), exc_info=exc)
