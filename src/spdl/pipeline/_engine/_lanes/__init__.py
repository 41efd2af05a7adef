"""The lanes, which run calls: worker threads, the event loop, executors, processes; and the threads of sources."""

from spdl.pipeline._engine._thread import Lane as Lane

from ._executor import ExecutorLane as ExecutorLane
from ._isolated import IsolatedJobs as IsolatedJobs
from ._isolated import IsolatedLane as IsolatedLane
from ._isolated import IsolatedTask as IsolatedTask
from ._isolated import IsolatedWorker as IsolatedWorker
from ._isolated import StartIsolated as StartIsolated
from ._loop import LoopLane as LoopLane
from ._pool import PoolLane as PoolLane
from ._region import RegionLane as RegionLane
from ._source import SourceLane as SourceLane

__all__ = [
    "ExecutorLane",
    "IsolatedJobs",
    "IsolatedLane",
    "IsolatedTask",
    "IsolatedWorker",
    "Lane",
    "LoopLane",
    "PoolLane",
    "RegionLane",
    "SourceLane",
    "StartIsolated",
]
