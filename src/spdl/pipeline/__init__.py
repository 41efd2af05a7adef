"""The pipeline engine: sources, stages and sinks on threads, an event loop and executors.

Start with ``PipelineBuilder``. ``Pipeline.stats()`` returns statistics, ``spdl.pipeline.config`` holds process-wide
defaults, and ``spdl.pipeline.defs`` is the declarative form. Imports neither NumPy, torch nor ``spdl.io``.

Names are imported lazily, on first use. Worker processes (``_remote``) import this package too but need only a part of
it, and importing the engine would take longer than starting the process.
"""

from typing import Any

from spdl._names import lazy_names

__all__, _get, __dir__ = lazy_names(
    globals(),
    {
        ".": "config defs",
        "._build": "build_pipeline",
        "._builder": "PipelineBuilder",
        "._cache_iterator": "cache_iterator",
        "._info": "StageInfo is_eof is_epoch_end",
        "._observe._background": "BackgroundTask BackgroundTaskFactory create_task",
        "._observe._process_group": "ProcessGroupResourceUsage ProcessGroupStatsMonitor",
        "._observe._queues": "AsyncQueue QueuePerfStats StatsQueue",
        "._observe._stats": "ItemFailure PipelineStats StageStats",
        "._observe._task_hooks": "TaskHook TaskPerfStats TaskStatsHook",
        "._observe._verdict": "StageShares Verdict",
        "._pipeline": "Pipeline",
        "._priority_pools": (
            "PriorityExecutorEntrypoint PriorityInterpreterPoolExecutor PriorityProcessPoolExecutor "
            "PriorityThreadPoolExecutor"
        ),
        "._profile_results": "ProfileResult ProfileResults ProfileStats",
        "._profiling": "ProfileHook profile_pipeline",
        "._provenance._origin": "BatchOrigin",
        "._failed_items": "FailureEvent QuarantinedItem read_quarantine",
        "._remote._iterate": "iterate_in_subprocess",
        "._remote._run_pipeline": (
            "iterate_in_subinterpreter run_pipeline_in_subinterpreter run_pipeline_in_subprocess"
        ),
        ".defs": "Rate",
        "spdl._errors": (
            "FailureLimitError InternalError InvalidOpError NoSuccessError PipelineError PipelineFailure "
            "PipelineStateError PipelineStructureError RemoteOpError StageTimeoutError StallError "
            "UnsupportedPythonError WorkerDiedError WorkerError WorkerTimeoutError"
        ),
        "spdl._processes._transport._arena": "arena_slot",
        "spdl._processes._transport._explicit": "SharedMemoryRingBuffer SharedMemorySegmentPool",
        "spdl._random": "Rng RngKey",
    },
)
#: Using these needs the engine: in this process, or in a forked one that inherits the imported modules.
_WITH_ENGINE = {"PipelineBuilder", "run_pipeline_in_subprocess"}


def __getattr__(name: str) -> Any:
    if name in _WITH_ENGINE:
        _get("build_pipeline")
    return _get(name)
