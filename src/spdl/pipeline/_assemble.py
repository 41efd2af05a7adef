"""``assemble``: makes a pipeline from a description, with the observers and processes of its options."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from spdl._failure_log import log_failed_item
from spdl._numbers import as_int, as_interval, as_positive_int
from spdl._reports import add_note, log, shown

from . import config as _config
from ._cpus import usable_cpus
from ._engine._counts import take_counts
from ._engine._engine import Engine
from ._engine._graph import build_graph, run_in_background
from ._engine._graph_builder import GraphOptions
from ._engine._recorded import RecordedEngine
from ._engine._stages._source import SourceNode
from ._info import StageInfo
from ._observe._background import BackgroundTaskFactory
from ._observe._snapshot import History, stats_of
from ._observe._task_hooks import TaskHook
from ._observe._wiring import Wiring
from ._pipeline import Pipeline
from ._pipeline_ids import PIPELINE_IDS
from ._resume._exactness import check_exact
from ._seeding import check_known, check_seeded
from ._stall_options import check_stall_options
from .defs import MaxFailures, PipelineConfig, Region, validate_max_failures

if TYPE_CHECKING:
    from ._engine._failures import Failure
    from ._engine._region._workers import RegionWorkers
    from ._engine._remote_calls import IsolatedTask, IsolatedWorker
    from ._observe._queues import AsyncQueue
    from ._provenance._log import ProvenanceLog
    from ._quarantine import FailureEvent
    from ._records import ItemReader, ItemWriter
    from .defs import SourceConfig

_LOG = logging.getLogger("spdl.pipeline")

U = TypeVar("U")

#: ``make(region, info, options)`` makes the workers of a region without starting them.
MakeRegionWorkers: TypeAlias = "Callable[[Region, StageInfo, BuildOptions], RegionWorkers]"


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The arguments of ``build_pipeline``, which documents them, and the function that makes the workers of regions."""

    make_region_workers: MakeRegionWorkers | None = None  # None: the description has no regions
    num_threads: int | None = None
    max_failures: MaxFailures = -1
    report_stats_interval: float = -1
    queue_class: Callable[..., AsyncQueue] | None = None
    task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None = None
    stage_id: int = 0
    background_tasks: Sequence[BackgroundTaskFactory] | None = None
    resumable: bool | Literal["best-effort"] = False
    seed: int = 0
    provenance: str | PathLike[str] | None = None
    is_measured: bool = False  # for a profile: ignore the process-wide defaults, and only count failures
    stall_timeout: float | None = None
    stall_action: Literal["log", "raise"] = "log"
    on_failure: Callable[[FailureEvent], Any] | None = None
    quarantine: str | PathLike[str] | None = None


def assemble(cfg: PipelineConfig[U], options: BuildOptions) -> Pipeline[U]:
    """Make a pipeline without starting it. Raises the errors of ``build_pipeline``."""
    try:
        return _assemble(cfg, options)
    except Exception as exc:
        add_note(exc, f"while building\n{shown(cfg)}")
        raise


def _assemble(cfg: PipelineConfig[U], options: BuildOptions) -> Pipeline[U]:
    if not options.is_measured:
        _call_back(cfg)
    approximate = check_exact(cfg, options.resumable)
    check_seeded(cfg)
    if options.provenance is not None:
        check_known(cfg, "provenance= cannot log")
    default_tasks = () if options.is_measured else _config.get_default_background_tasks() or ()
    background_tasks = [*default_tasks, *(options.background_tasks or ())]
    options = replace(
        options,
        report_stats_interval=as_interval("report_stats_interval", options.report_stats_interval),
        seed=as_int("seed", options.seed),
        max_failures=validate_max_failures(options.max_failures),
    )

    def make_region_workers(region: Region, info: StageInfo) -> RegionWorkers:
        assert options.make_region_workers is not None
        return options.make_region_workers(region, info, options)

    num_threads = _num_threads(options.num_threads)
    check_stall_options(options.stall_timeout, options.stall_action)
    first_stage_id = as_int("stage_id", options.stage_id)
    wiring = Wiring(
        options.task_hook_factory,
        options.queue_class,
        options.report_stats_interval,
        default_hook_class=_config.get_default_hook_class(),
        default_queue_class=_config.own_queue_class(),
    )
    engine = build_graph(
        cfg,
        GraphOptions(
            pipeline_id=PIPELINE_IDS.take(),
            num_threads=num_threads,
            max_failures=options.max_failures,
            seed=options.seed,
            is_recorded=options.provenance is not None,
            keeps_keys=options.on_failure is not None or options.quarantine is not None,
            first_stage_id=first_stage_id,
            wire=wiring.wire,
            make_merge_queues=_make_merge_queues,
            report_failure=_count_only if options.is_measured else partial(log_failed_item, Counter()),
            start_isolated=_start_isolated,
            make_region_workers=make_region_workers,
            make_exclusion=partial(_make_exclusion, options.quarantine),
        ),
    )
    engine.judges_stages = not options.is_measured
    if options.stall_timeout is not None:
        from ._stalls import watch_stalls  # imported late: few pipelines need it

        watch_stalls(engine, options.stall_timeout, options.stall_action)
    history = History()
    wiring.attach(
        partial(run_in_background, engine),
        engine.on_ended.append,
        lambda: history.extended(stats_of(take_counts(engine))),
    )
    for factory in background_tasks:
        run_in_background(engine, getattr(factory, "__name__", None) or shown(factory), _runner(factory))
    if options.on_failure is not None or options.quarantine is not None:
        _watch_failures(engine, options)
    provenance = None if options.provenance is None else _open_log(cfg, engine, options)
    if not options.resumable:
        return Pipeline(engine, repr(cfg), history=history)
    from ._resume._state import make_resumable  # imported late: few pipelines need it

    return Pipeline(engine, repr(cfg), make_resumable(cfg, engine, approximate, options.seed, provenance), history)


def _open_log(cfg: PipelineConfig[Any], engine: Engine, options: BuildOptions) -> ProvenanceLog:
    from ._provenance._log import ProvenanceLog, fingerprint_for_log  # imported late: few pipelines need it

    assert isinstance(engine, RecordedEngine)
    assert options.provenance is not None
    header = options.seed, fingerprint_for_log(cfg, engine, options.seed)
    engine.recorder = found = ProvenanceLog(engine, fspath(options.provenance), header)
    engine.on_ended.append(found.close)
    return found


def _watch_failures(engine: Engine, options: BuildOptions) -> None:
    from ._quarantine import FailureWatcher, QuarantineFile, size_of  # imported late: few pipelines need it

    if options.on_failure is not None and not callable(options.on_failure):
        raise TypeError(f"on_failure must be a function of a FailureEvent, got {options.on_failure!r}")
    if inspect.iscoroutinefunction(options.on_failure):
        raise TypeError("on_failure must not be an async function: nothing would await it")
    file = None
    if options.quarantine is not None:
        sources = [node for node in engine.nodes if isinstance(node, SourceNode)]
        ranks = (node.passes.rank for node in sources if node.passes.world > 1)
        sizes = {node.number: size_of(node.iterable) for node in sources}
        file = QuarantineFile(fspath(options.quarantine), next(ranks, None), sizes)
        engine.on_ended.append(file.close)
    engine.failure_watchers.append(FailureWatcher(engine, options.on_failure, file))


def _make_exclusion(quarantine: str | PathLike[str] | None, source: SourceConfig[Any]) -> Callable[[Any], bool]:
    from ._quarantine import exclusion  # imported late: few pipelines need it

    return exclusion(source.exclude, source.exclude_keys, source.source, quarantine)


def _num_threads(given: int | None) -> int:
    if given is None:
        return max(4, min(32, usable_cpus()))  # at least 4, so that blocking calls overlap
    return as_positive_int("num_threads", given)


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
