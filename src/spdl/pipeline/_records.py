"""Counters that observers read from the engine: plain records, copied under the engine's lock.

The engine updates them while it holds its lock anyway; hooks, queues, tables and log lines are views of them. To get an
interval, a reader keeps the previous record and subtracts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from spdl.pipeline._info import StageInfo

#: What became of a failed item: nothing, a substitute, or the failure of its stage.
FailureOutcome: TypeAlias = Literal["dropped", "substituted", "raised"]
EngineState: TypeAlias = Literal["new", "running", "stopping", "ended", "failed"]
#: Where the calls of a node run: the iterator of a source, threads of this process (those of the pool, or of a user's
#: executor), the event loop, other processes, the thread that completes the call before (the engine), or the consumer.
Place: TypeAlias = Literal["source", "pool", "executor", "loop", "process", "region", "engine", "sink"]
NodeKind: TypeAlias = Literal["source", "stage", "router", "path", "sink"]
#: What an output is to the user: batches where an aggregate makes it.
Unit: TypeAlias = Literal["items", "batches"]


class CallCounts(NamedTuple):
    """Calls of one stage's op so far. The end of a generator does not count as a call."""

    num_calls: int  #: finished calls, successful or failed
    num_failures: int
    success_time: float  #: s, sum of wall time over the calls that succeeded
    recent: tuple[float, ...]  #: s, wall times of the newest successful calls, oldest first, at most 1024


class ChannelCounts(NamedTuple):
    """Counters of one channel so far."""

    elapsed: float  #: s since the pipeline started
    num_items: int  #: items taken out
    num_put: int  #: items put in
    put_wait: float  #: s, sum over items of the time a finished result waited for room
    get_wait: float  #: s, sum over items of the time the consumer waited for it
    recent_put_waits: tuple[float, ...]  #: s, the newest non-zero waits, oldest first, at most 1024
    recent_get_waits: tuple[float, ...]
    num_put_waits: int  #: number of puts that waited
    num_get_waits: int
    occupied: float  #: s during which the channel was not empty, including the current period


CallReader: TypeAlias = Callable[[], CallCounts]
ChannelReader: TypeAlias = Callable[[], ChannelCounts]


class FailedCall(NamedTuple):
    """A call that failed its item."""

    stage: str
    origin: object
    item_repr: str
    error: BaseException
    attempts: int
    seconds: float
    outcome: FailureOutcome


class NodeCounts(NamedTuple):
    """Counters of one node so far. All times are in seconds."""

    info: StageInfo
    num_calls: int
    num_failures: int
    num_dropped: int
    num_in_flight: int
    num_emitted: int
    num_substituted: int  #: failed calls with a substitute for their output
    num_lost: int  #: parts that calls left out of their results
    num_redealt: int  #: items of a dead worker that were sent to another worker
    busy: float  #: sum over all calls, those that have not returned included
    wall_time: float  #: sum over successful calls
    success_time: float  #: sum over successful calls of an op; 0 for a source
    cpu_share: float | None  #: CPU time over wall time of a call; ``None``: not measured
    starved: float
    blocked: float
    queue_len: int  #: number of items in the outputs, up to their capacity; of a sink, in its input
    queue_capacity: int
    occupied: float
    failures: tuple[FailedCall, ...]  #: the newest, oldest first
    runs_on: Place = "engine"
    inputs: tuple[str, ...] = ()  #: ids of the stages that the node reads from
    num_workers: int = 0  #: of the executor or region that runs its calls; 0: there is none, or it is not known


class EngineCounts(NamedTuple):
    """Counters of a whole pipeline so far, copied under one acquisition of the engine's lock."""

    elapsed: float  #: s since the start
    state: EngineState
    num_threads: int
    num_items: int  #: number of items returned to the consumer
    consumer_wait: float  #: s
    nodes: tuple[NodeCounts, ...]  #: in order of stage id
    unit: Unit = "items"  #: what the sink receives


class CallInFlight(NamedTuple):
    """A call that has not returned: of an op, or of the source's iterator."""

    stage: str
    item: str  #: short ``repr`` of the item
    age: float | None  #: s; ``None``: not known
    thread_id: int | None  #: of the thread that it runs on; ``None``: in another process
    stack: str  #: of a coroutine; empty for others


class ThreadBoard(Protocol):
    """Records which stage each thread works for. Stages are numbered in order of stage id; the loop comes last."""

    def enter(self, stage: int) -> None:
        """Record that the calling thread begins a call of a stage."""

    def leave(self) -> None:
        """Record that the calling thread ends a call."""

    def watch(self, native_id: int, thread: object, call: int, owner: int) -> None:
        """Read what a thread works for from words of its object, at these offsets."""

    def name(self, owner: object, stage: int) -> None:
        """Record which stage such an object stands for."""

    def assign(self, native_id: int, stage: int) -> None:
        """Record that a thread always works for this stage."""

    def adopt(self, native_id: int, stage: int) -> None:
        """Record that a thread is in a call that began earlier."""

    def forget(self, native_id: int) -> None:
        """Record that the call of an adopted thread has ended."""


@dataclass
class StageWiring:
    """The observers of one node. The graph builder connects them to their counters."""

    task_hooks: list[Any] = field(default_factory=list)  # hooks whose ``task_hook`` must run around every call
    stage_hooks: list[Callable[[], Any]] = field(default_factory=list)  # return async context managers around the stage
    read_calls: CallReader | None = None
    read_channel: ChannelReader | None = None


class ItemEnd(Protocol):
    """An end of a channel, for a merge op."""

    @property
    def capacity(self) -> int:
        """Maximum number of buffered items."""

    def qsize(self) -> int:
        """Number of buffered items and marks."""


class ItemReader(ItemEnd, Protocol):
    """An input of a merge op."""

    async def get(self) -> Any:
        """Wait for the next item or mark."""

    def get_nowait(self) -> Any:
        """Return the next item or mark; raises ``asyncio.QueueEmpty``."""


class ItemWriter(ItemEnd, Protocol):
    """The output of a merge op."""

    def full(self) -> bool:
        """Whether ``put_nowait`` would raise."""

    async def put(self, value: Any) -> None:
        """Wait for room, then put an item."""

    def put_nowait(self, value: Any) -> None:
        """Put an item; raises ``asyncio.QueueFull``."""
