"""``profile_pipeline``: runs each stage alone, at several concurrencies, on the outputs of the stage before it.

In diagnostic mode, the first read of a pipeline profiles its stages and ends the program.
"""

from __future__ import annotations

import logging
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any, Final, TypeVar

from spdl._errors import PipelineError
from spdl._numbers import as_int, check_callable
from spdl._reports import add_note, describe_exception, log, shown
from spdl.pipeline import config as _config
from spdl.pipeline._assemble import assemble
from spdl.pipeline._observe._queues import AsyncQueue
from spdl.pipeline._observe._stats import StageStats
from spdl.pipeline._options import BuildOptions
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    AggregateConfig,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    PlacementConfig,
    Region,
    SinkConfig,
    SourceConfig,
    split_regions,
)

from ._profile_results import ProfileResult, ProfileResults, ProfileStats, rate

_LOG = logging.getLogger("spdl.pipeline")

#: Concurrencies of the runs of a pipe. The last one keeps the order of the items, which the next stage gets.
CONCURRENCIES: Final = (32, 16, 8, 4, 1)
#: Seconds between lines of the log about a run that takes long.
_PROGRESS_INTERVAL: Final = 10.0
#: Outputs of merged pipelines are shuffled in the same way in each profile.
_SHUFFLE_SEED: Final = 0

Callback = Callable[[ProfileResult], Any]
U = TypeVar("U")


class ProfileHook(ABC):
    """Code that runs around a profile and around each of its runs, for example another profiler.

    .. code-block:: python

        import cProfile
        from contextlib import contextmanager

        class CProfileHook(ProfileHook):
            @contextmanager
            def stage_profile_hook(self, stage, concurrency):
                with cProfile.Profile() as profile:
                    yield
                profile.dump_stats(f"{stage}-{concurrency}.prof")

            @contextmanager
            def pipeline_profile_hook(self):
                yield
    """

    @abstractmethod
    def stage_profile_hook(self, stage: str, concurrency: int) -> AbstractContextManager[Any]:
        """Return a context manager around one run of one stage: five for a pipe, one for other stages.

        Args:
            stage: Name of the stage.
            concurrency: Maximum number of calls in flight in this run.
        """

    @abstractmethod
    def pipeline_profile_hook(self) -> AbstractContextManager[Any]:
        """Return a context manager around the whole profile."""


def profile_pipeline(
    cfg: PipelineConfig[Any],
    num_inputs: int = 1000,
    *,
    callback: Callback | None = None,
    hook: ProfileHook | None = None,
) -> ProfileResults:
    """Measure each stage of a pipeline alone, at several concurrencies.

    Takes items from the source, then runs one stage after the other on the outputs of the stage before it: a pipe with
    32, 16, 8, 4 and 1 calls in flight and as many threads, other stages once. Concurrency, executor, processes and
    failure limit of the description are ignored. ``print()`` of the result shows a table per stage; its ``to_svg()``
    returns a chart.

    .. code-block:: python

        results = profile_pipeline(builder.get_config(), 200)
        print(results)
        results.to_svg("profile.svg")

    An op is called five times with each item, so it must not change the item. Packets and frames of ``spdl.io``, which
    a call consumes, are cloned for each run. All outputs of a stage are in memory until the next one has been measured.
    Failed items are counted, not logged one by one.

    The pipelines of a merge are measured one by one, and the stages after it on all their outputs in random order. Path
    variants and regions are not measured, with a warning; they run once if a stage after them needs their outputs.

    Args:
        cfg: Description of the pipeline. Its source is iterated, but no further than needed.
        num_inputs: Maximum number of items taken from each source.
        callback: Function called with each result as soon as it is available. ``None``: the one set by
            ``config.set_default_profile_callback``.
        hook: Code that runs around the profile and around each run. ``None``: the one set by
            ``config.set_default_profile_hook``.

    Returns:
        The results, in order of the stages: a list with ``to_svg()``. Empty if the environment variable ``LOCAL_RANK``
        is set to something other than 0, so that only one process of a machine measures.

    Raises:
        RuntimeError: A source has no items, or every call of a stage failed; the last failure is the cause.
        ValueError: ``num_inputs`` is less than 1.
        TypeError: An argument has the wrong type.
    """
    num_inputs = as_int("num_inputs", num_inputs, 1)
    if not isinstance(cfg, PipelineConfig):
        raise TypeError(f"cfg must be a PipelineConfig, got {type(cfg).__qualname__}: pass builder.get_config()")
    for method in ("stage_profile_hook", "pipeline_profile_hook"):
        if hook is not None and not callable(getattr(hook, method, None)):
            raise TypeError(f"hook must be a ProfileHook, got an object of type {type(hook).__qualname__}")
    check_callable("callback", callback)
    if os.environ.get("LOCAL_RANK", "").strip() not in ("", "0"):
        return ProfileResults()
    hook = _config.get_default_profile_hook() if hook is None else hook
    callback = _config.get_default_profile_callback() if callback is None else callback
    profile = _Profile(num_inputs, callback, hook)
    with nullcontext() if hook is None else _checked(hook.pipeline_profile_hook(), "pipeline_profile_hook"):
        profile.measure(cfg)
    return profile.results


class _Profile:
    def __init__(self, num_inputs: int, callback: Callback | None, hook: ProfileHook | None) -> None:
        self.num_inputs = num_inputs
        self.callback = callback
        self.hook = hook
        self.results = ProfileResults()

    def measure(self, cfg: PipelineConfig[Any], *, needs_outputs: bool = False) -> list[Any]:
        """Measure all stages of one description. Returns the outputs of the last one, if they are needed."""
        items = self.inputs_of(cfg.src)
        skipped: list[Any] = []  # since the last measured stage; they run when their outputs are needed
        stages = split_regions(cfg.pipes)
        for number, stage in enumerate(stages):
            if not isinstance(stage, PipeConfig | AggregateConfig | DisaggregateConfig):
                what = "path variants" if isinstance(stage, PathVariantsConfig) else "stages in other processes"
                log(_LOG, logging.WARNING, "the profile skips %s: %s are not measured", stage.name, what)
                skipped.append(stage)
                continue
            items = self.run_skipped(skipped, items)
            skipped.clear()
            if not items:
                text = "the profile ends before stage %s: the stages before it have no outputs"
                log(_LOG, logging.WARNING, text, stage.name)
                return []
            is_last = number == len(stages) - 1
            items = self.measure_stage(stage, items, needs_outputs=needs_outputs or not is_last)
        return self.run_skipped(skipped, items) if needs_outputs else []

    def inputs_of(self, source: SourceConfig[Any] | MergeConfig) -> list[Any]:
        if isinstance(source, MergeConfig):
            merged = [item for sub in source.pipeline_configs for item in self.measure(sub, needs_outputs=True)]
            random.Random(_SHUFFLE_SEED).shuffle(merged)
            return merged
        log(_LOG, logging.INFO, "profile: taking up to %d items from the source", self.num_inputs)
        began = perf_counter()
        items = _take(source, self.num_inputs)
        if not items:
            raise PipelineError("cannot profile the pipeline: its source has no items")
        seconds = perf_counter() - began
        if seconds > 0:
            text = "profile: the source gave %d items, %s items/s"
            log(_LOG, logging.INFO, text, len(items), rate(len(items) / seconds))
        return items

    def run_skipped(self, stages: Sequence[Any], items: list[Any]) -> list[Any]:
        """Run the stages that are not measured, as they are described."""
        if not stages or not items:
            return items
        marked: list[Any] = []
        for stage in stages:
            if isinstance(stage, Region):
                marked += [stage.mark, *stage.stages, PlacementConfig(MAIN_PROCESS, buffer_size=stage.output_size)]
            else:
                marked.append(stage)
        outputs, _ = _run(PipelineConfig(SourceConfig(items), marked, SinkConfig(8)), None, "stages that are skipped")
        return outputs

    def measure_stage(self, stage: Any, items: list[Any], *, needs_outputs: bool) -> list[Any]:
        outputs: list[Any] = []
        runs: list[ProfileStats] = []
        for concurrency in CONCURRENCIES if isinstance(stage, PipeConfig) else (1,):
            outputs = []  # frees the outputs of the run before
            is_last = concurrency == 1
            around = nullcontext() if self.hook is None else self.hook.stage_profile_hook(stage.name, concurrency)
            with _checked(around, "stage_profile_hook"):
                outputs, run = self.run_stage(stage, items, concurrency, keep=needs_outputs and is_last)
            runs.append(run)
        result = ProfileResult(stage.name, runs)
        self.results.append(result)
        if self.callback is not None:
            self.callback(result)
        return outputs

    def run_stage(
        self, stage: Any, items: list[Any], concurrency: int, *, keep: bool
    ) -> tuple[list[Any], ProfileStats]:
        what = f"stage {stage.name} at concurrency {concurrency}"
        if isinstance(stage, PipeConfig):
            stage = replace(stage, _concurrency=concurrency, _executor=None, _isolate=False, _max_failures=None)
        config: PipelineConfig[Any] = PipelineConfig(
            SourceConfig(_Fresh(items)), [stage], SinkConfig(max(2, concurrency))
        )
        outputs, stats = _run(config, concurrency, what, len(items), keep=keep)
        if stats.num_failures and not stats.num_success:
            error = PipelineError(f"cannot profile {what}: all {stats.num_failures} calls failed")
            raise error from (stats.failures[-1].error if stats.failures else None)
        elapsed = stats.elapsed
        run = ProfileStats(
            concurrency=concurrency,
            qps=stats.num_emitted / elapsed if elapsed > 0 else 0.0,
            occupancy_rate=stats.occupancy,
            elapsed=elapsed,
            num_inputs=len(items),
            num_outputs=stats.num_emitted,
            num_failures=stats.num_failures,
            wall_per_call=stats.wall_per_call,
            cpu_per_call=stats.cpu_per_call,
        )
        log(_LOG, logging.INFO, "profile: %s: %s items/s in %.1f s", what, rate(run.qps), elapsed)
        if stats.num_failures:
            first = describe_exception(stats.failures[0].error) if stats.failures else "?"
            text = "profile: %s: %d of %d items failed, one of them with %s"
            log(_LOG, logging.WARNING, text, what, stats.num_failures, len(items), first)
        return outputs, run


class _Fresh:
    """Items for one run. Items that a call consumes are cloned: those with a method ``clone`` that are not arrays."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return map(_fresh, self.items)


def _fresh(item: Any) -> Any:
    cls = type(item)
    if cls is tuple or cls is list:
        return cls([_fresh(each) for each in item])
    if cls is dict:
        return {key: _fresh(value) for key, value in item.items()}
    if callable(getattr(cls, "clone", None)) and not hasattr(cls, "__array__"):
        return item.clone()
    return item


def _take(source: SourceConfig[Any], num_items: int) -> list[Any]:
    if hasattr(type(source.source), "__aiter__"):
        outputs, _ = _run(
            PipelineConfig(SourceConfig(source.source), [], SinkConfig(1)), 1, "the source", num_items, limit=num_items
        )
        return outputs
    iterable: Iterable[Any] = source.source  # type: ignore[assignment] # it is not async
    iterator = iter(iterable)
    try:
        return list(islice(iterator, num_items))
    finally:
        if (close := getattr(iterator, "close", None)) is not None:
            close()


def _run(
    config: PipelineConfig[Any],
    num_threads: int | None,
    what: str,
    num_inputs: int = 0,
    *,
    keep: bool = True,
    limit: int | None = None,
) -> tuple[list[Any], StageStats]:
    """Run a pipeline to its end, or to ``limit`` outputs. Returns the outputs and the statistics of its last stage."""
    options: BuildOptions = {"num_threads": num_threads, "queue_class": AsyncQueue, "task_hook_factory": lambda _: []}
    pipeline = assemble(config, options, make_region_workers=_make_region_workers, is_measured=True)
    outputs: list[Any] = []
    try:
        with pipeline.auto_stop():
            iterator = _with_progress(pipeline, what, num_inputs)
            for item in iterator if limit is None else islice(iterator, limit):
                if keep:
                    outputs.append(item)
    except Exception as exc:
        add_note(exc, f"while profiling {what}")
        raise
    return outputs, pipeline.stats().stages[-2]


def _with_progress(pipeline: Pipeline[Any], what: str, num_inputs: int) -> Iterator[Any]:
    """Iterate, and log the progress from time to time."""
    due = perf_counter() + _PROGRESS_INTERVAL
    for item in pipeline:
        yield item
        if (now := perf_counter()) > due:
            due = now + _PROGRESS_INTERVAL
            stats = pipeline.stats()
            done, seconds = stats.stages[-2].num_calls, stats.elapsed
            left = f", about {seconds / done * (num_inputs - done):.0f} s left" if 0 < done <= num_inputs else ""
            log(_LOG, logging.INFO, "profile: %s: %d of %d items in %.0f s%s", what, done, num_inputs, seconds, left)


def _make_region_workers(region: Region, info: Any, options: BuildOptions) -> Any:
    from spdl.pipeline._remote._regions import make_workers  # imported late: few profiles need processes

    return make_workers(region, info, {**options, "num_threads": None})


def _checked(manager: Any, name: str) -> AbstractContextManager[Any]:
    if not hasattr(type(manager), "__enter__"):
        raise TypeError(
            f"{name}() of the profile hook must return a context manager (is @contextmanager missing?), "
            f"got {shown(manager)}"
        )
    return manager  # type: ignore[no-any-return]


class DiagnosticPipeline(Pipeline[U]):
    """Takes the place of a pipeline that has not been started: its first read profiles the stages."""

    def __init__(self, built: Pipeline[U], cfg: PipelineConfig[U]) -> None:
        super().__init__(built._engine, built._description)
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
