# Written by scripts/stubs from the module's table.

from spdl._errors import FailureLimitError as FailureLimitError
from spdl._errors import InternalError as InternalError
from spdl._errors import InvalidOpError as InvalidOpError
from spdl._errors import NoSuccessError as NoSuccessError
from spdl._errors import PipelineError as PipelineError
from spdl._errors import PipelineFailure as PipelineFailure
from spdl._errors import PipelineStateError as PipelineStateError
from spdl._errors import PipelineStructureError as PipelineStructureError
from spdl._errors import RemoteOpError as RemoteOpError
from spdl._errors import StageTimeoutError as StageTimeoutError
from spdl._errors import StallError as StallError
from spdl._errors import UnsupportedPythonError as UnsupportedPythonError
from spdl._errors import WorkerDiedError as WorkerDiedError
from spdl._errors import WorkerError as WorkerError
from spdl._errors import WorkerTimeoutError as WorkerTimeoutError
from spdl._processes._transport._arena import arena_slot as arena_slot
from spdl._processes._transport._explicit import SharedMemoryRingBuffer as SharedMemoryRingBuffer
from spdl._processes._transport._explicit import SharedMemorySegmentPool as SharedMemorySegmentPool
from spdl._random import Rng as Rng
from spdl._random import RngKey as RngKey

from . import config as config
from . import defs as defs
from ._build import build_pipeline as build_pipeline
from ._builder import PipelineBuilder as PipelineBuilder
from ._cache_iterator import cache_iterator as cache_iterator
from ._failed_items import FailureEvent as FailureEvent
from ._failed_items import QuarantinedItem as QuarantinedItem
from ._failed_items import read_quarantine as read_quarantine
from ._info import StageInfo as StageInfo
from ._info import is_eof as is_eof
from ._info import is_epoch_end as is_epoch_end
from ._observe._background import BackgroundTask as BackgroundTask
from ._observe._background import BackgroundTaskFactory as BackgroundTaskFactory
from ._observe._background import create_task as create_task
from ._observe._process_group import ProcessGroupResourceUsage as ProcessGroupResourceUsage
from ._observe._process_group import ProcessGroupStatsMonitor as ProcessGroupStatsMonitor
from ._observe._queues import AsyncQueue as AsyncQueue
from ._observe._queues import QueuePerfStats as QueuePerfStats
from ._observe._queues import StatsQueue as StatsQueue
from ._observe._stats import ItemFailure as ItemFailure
from ._observe._stats import PipelineStats as PipelineStats
from ._observe._stats import StageStats as StageStats
from ._observe._task_hooks import TaskHook as TaskHook
from ._observe._task_hooks import TaskPerfStats as TaskPerfStats
from ._observe._task_hooks import TaskStatsHook as TaskStatsHook
from ._observe._verdict import StageShares as StageShares
from ._observe._verdict import Verdict as Verdict
from ._pipeline import Pipeline as Pipeline
from ._priority_pools import PriorityExecutorEntrypoint as PriorityExecutorEntrypoint
from ._priority_pools import PriorityInterpreterPoolExecutor as PriorityInterpreterPoolExecutor
from ._priority_pools import PriorityProcessPoolExecutor as PriorityProcessPoolExecutor
from ._priority_pools import PriorityThreadPoolExecutor as PriorityThreadPoolExecutor
from ._profile_results import ProfileResult as ProfileResult
from ._profile_results import ProfileResults as ProfileResults
from ._profile_results import ProfileStats as ProfileStats
from ._profiling import ProfileHook as ProfileHook
from ._profiling import profile_pipeline as profile_pipeline
from ._provenance._origin import BatchOrigin as BatchOrigin
from ._remote._iterate import iterate_in_subprocess as iterate_in_subprocess
from ._remote._run_pipeline import iterate_in_subinterpreter as iterate_in_subinterpreter
from ._remote._run_pipeline import run_pipeline_in_subinterpreter as run_pipeline_in_subinterpreter
from ._remote._run_pipeline import run_pipeline_in_subprocess as run_pipeline_in_subprocess
from .defs import Rate as Rate

__all__ = [
    "AsyncQueue",
    "BackgroundTask",
    "BackgroundTaskFactory",
    "BatchOrigin",
    "FailureEvent",
    "FailureLimitError",
    "InternalError",
    "InvalidOpError",
    "ItemFailure",
    "NoSuccessError",
    "Pipeline",
    "PipelineBuilder",
    "PipelineError",
    "PipelineFailure",
    "PipelineStateError",
    "PipelineStats",
    "PipelineStructureError",
    "PriorityExecutorEntrypoint",
    "PriorityInterpreterPoolExecutor",
    "PriorityProcessPoolExecutor",
    "PriorityThreadPoolExecutor",
    "ProcessGroupResourceUsage",
    "ProcessGroupStatsMonitor",
    "ProfileHook",
    "ProfileResult",
    "ProfileResults",
    "ProfileStats",
    "QuarantinedItem",
    "QueuePerfStats",
    "Rate",
    "RemoteOpError",
    "Rng",
    "RngKey",
    "SharedMemoryRingBuffer",
    "SharedMemorySegmentPool",
    "StageInfo",
    "StageShares",
    "StageStats",
    "StageTimeoutError",
    "StallError",
    "StatsQueue",
    "TaskHook",
    "TaskPerfStats",
    "TaskStatsHook",
    "UnsupportedPythonError",
    "Verdict",
    "WorkerDiedError",
    "WorkerError",
    "WorkerTimeoutError",
    "arena_slot",
    "build_pipeline",
    "cache_iterator",
    "create_task",
    "is_eof",
    "is_epoch_end",
    "iterate_in_subinterpreter",
    "iterate_in_subprocess",
    "profile_pipeline",
    "read_quarantine",
    "run_pipeline_in_subinterpreter",
    "run_pipeline_in_subprocess",
]
