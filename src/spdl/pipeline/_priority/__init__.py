"""Priority executors: one pool shared by several stages, with one entry point per stage."""

from spdl.pipeline._priority._entrypoint import PriorityExecutorEntrypoint as PriorityExecutorEntrypoint
from spdl.pipeline._priority._pools import PriorityInterpreterPoolExecutor as PriorityInterpreterPoolExecutor
from spdl.pipeline._priority._pools import PriorityProcessPoolExecutor as PriorityProcessPoolExecutor
from spdl.pipeline._priority._pools import PriorityThreadPoolExecutor as PriorityThreadPoolExecutor

__all__ = [
    "PriorityExecutorEntrypoint",
    "PriorityInterpreterPoolExecutor",
    "PriorityProcessPoolExecutor",
    "PriorityThreadPoolExecutor",
]
