"""The lanes, which run calls: worker threads, the event loop, executors, processes; and the threads of sources."""

from ._executor import ExecutorLane as ExecutorLane
from ._isolated import IsolatedJobs as IsolatedJobs
from ._isolated import IsolatedLane as IsolatedLane
from ._jobs import JobQueue as JobQueue
from ._jobs import TimedJobQueue as TimedJobQueue
from ._loop import LoopLane as LoopLane
from ._merge_op import MergeReader as MergeReader
from ._merge_op import MergeWriter as MergeWriter
from ._pool import PoolLane as PoolLane
from ._region import RegionLane as RegionLane
from ._source import SourceLane as SourceLane

__all__ = [
    "ExecutorLane",
    "IsolatedJobs",
    "IsolatedLane",
    "JobQueue",
    "LoopLane",
    "MergeReader",
    "MergeWriter",
    "PoolLane",
    "RegionLane",
    "SourceLane",
    "TimedJobQueue",
]
