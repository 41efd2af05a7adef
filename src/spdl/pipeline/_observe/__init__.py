"""Observability: statistics, hooks, background tasks and log lines. The engine does not import it.

Queues are in ``_queues``: they need asyncio, which is imported only when it is used.
"""

from spdl._failure_log import describe_error as describe_error
from spdl._failure_log import is_compact_log as is_compact_log
from spdl._failure_log import set_compact_log as set_compact_log
from spdl.pipeline._observe._background import BackgroundTask as BackgroundTask
from spdl.pipeline._observe._background import BackgroundTaskFactory as BackgroundTaskFactory
from spdl.pipeline._observe._create_task import create_task as create_task
from spdl.pipeline._observe._stats import ItemFailure as ItemFailure
from spdl.pipeline._observe._stats import PipelineStats as PipelineStats
from spdl.pipeline._observe._stats import StageStats as StageStats
from spdl.pipeline._observe._task_hooks import TaskHook as TaskHook
from spdl.pipeline._observe._task_hooks import TaskPerfStats as TaskPerfStats
from spdl.pipeline._observe._task_hooks import TaskStatsHook as TaskStatsHook
from spdl.pipeline._observe._task_hooks import overrides as overrides

__all__ = [
    "BackgroundTask",
    "BackgroundTaskFactory",
    "ItemFailure",
    "PipelineStats",
    "StageStats",
    "TaskHook",
    "TaskPerfStats",
    "TaskStatsHook",
    "create_task",
    "describe_error",
    "is_compact_log",
    "overrides",
    "set_compact_log",
]
