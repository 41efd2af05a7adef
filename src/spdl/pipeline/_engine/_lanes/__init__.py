"""Where calls run: the pool's threads, the event loop, the user's executors; and the threads that iterate sources."""

from ._base import Lane as Lane
from ._executor import ExecutorLane as ExecutorLane
from ._loop import LoopLane as LoopLane
from ._pool import PoolLane as PoolLane
from ._source import SourceLane as SourceLane

__all__ = ["ExecutorLane", "Lane", "LoopLane", "PoolLane", "SourceLane"]
