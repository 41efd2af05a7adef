"""``GraphBuilder``: the functions in ``_graph`` and ``_pipes`` build nodes, channels and lanes with it. Starts nothing.

Stage ids are assigned in this order: source, stages, sink; a merge before its sub-pipelines; for path variants the
router, then the stages of the paths, then the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from spdl.pipeline._info import StageInfo
from spdl.pipeline._limits import Limit, RateLimit
from spdl.pipeline._records import ItemReader, ItemWriter, NodeKind, StageWiring
from spdl.pipeline.defs import MaxFailures, PipelineConfig, Rate, Region, SourceConfig, check_regions, split_regions

from ._channel import Channel
from ._counts import call_reader, channel_reader
from ._deadlines import Deadlines
from ._failures import FailureReporter
from ._lanes._jobs import JobQueue
from ._lanes._loop import LoopLane
from ._lanes._pool import PoolLane

if TYPE_CHECKING:
    from ._core import Core, Node
    from ._refill import Refill
    from ._region._workers import RegionWorkers
    from ._remote_calls import StartIsolated

#: Maximum number of items buffered between two stages.
CHANNEL_CAPACITY = 2


@dataclass(frozen=True)
class GraphOptions:
    """Options of a build. ``wire`` is called once per stage and once per path, in order of stage id."""

    pipeline_id: int
    num_threads: int
    max_failures: MaxFailures
    seed: int
    is_recorded: bool
    keeps_keys: bool
    first_stage_id: int
    wire: Callable[[StageInfo, NodeKind, int], StageWiring]
    make_merge_queues: Callable[[StageInfo, list[tuple[StageInfo, ItemReader]], ItemWriter], tuple[list[Any], Any]]
    report_failure: FailureReporter
    start_isolated: StartIsolated
    make_region_workers: Callable[[Region, StageInfo], RegionWorkers]
    make_exclusion: Callable[[SourceConfig[Any]], Callable[[Any], bool]]


#: ``add(graph, config, capacity)`` adds the source or merge of a pipeline, and returns its output channel.
AddSource: TypeAlias = "Callable[[GraphBuilder, Any, int], Channel]"
#: ``add(graph, config, tail, out)`` adds the nodes between two channels.
AddStage: TypeAlias = "Callable[[GraphBuilder, Any, Channel, Channel], None]"


@dataclass(frozen=True)
class Kinds:
    """How each kind of description is built: the class of the description, and the function that adds its nodes."""

    sources: dict[type, AddSource]
    stages: dict[type, AddStage]


T = TypeVar("T")


def _of_class(table: Mapping[type, T], config: object) -> T:
    for cls in type(config).__mro__:
        if (found := table.get(cls)) is not None:
            return found
    raise TypeError(f"not a stage description: {config!r}")


class GraphBuilder:
    """Builds the graph in one pass over the description, from source to sink."""

    def __init__(self, engine: Core, options: GraphOptions, kinds: Kinds) -> None:
        self.engine = engine
        self.options = options
        self.kinds = kinds
        self.next_id = options.first_stage_id
        self.num_sources = 0
        self.refill: Refill | None = None  # of the source, if it is the only one and refills
        if is_limited(options.max_failures) and not isinstance(options.max_failures, Rate):
            engine.limit = Limit(options.max_failures, is_own=False)

    def limit(self) -> Limit | None:
        """Return the pipeline's limit for one stage: with a rate, each stage has its own window."""
        rate = self.options.max_failures
        return RateLimit(rate) if isinstance(rate, Rate) else self.engine.limit

    # -- lanes

    @property
    def pool(self) -> PoolLane:
        return self.engine.shared_lane(PoolLane)

    @property
    def loop(self) -> LoopLane:
        return self.engine.shared_lane(LoopLane)

    @property
    def deadlines(self) -> Deadlines:
        return self.engine.shared_lane(Deadlines)

    def job_queue(self, info: StageInfo, timeout: float | None = None) -> JobQueue:
        """Return a queue of calls that the loop waits for and the pool runs."""
        deadlines = None if timeout is None else self.deadlines
        return JobQueue(self.engine, info, self.pool, self.loop, timeout, deadlines)

    # -- names and nodes

    def info(self, name: str, concurrency: int = 1, *, stage_id: int | None = None) -> StageInfo:
        """Return the identity of the next stage, with the next stage id."""
        if stage_id is None:
            stage_id = self.next_id
            self.next_id += 1
        return StageInfo(self.options.pipeline_id, str(stage_id), name, concurrency if concurrency > 1 else None)

    def wire(self, info: StageInfo, kind: NodeKind, capacity: int) -> StageWiring:
        """Make the observers of a stage. ``capacity`` is that of its output."""
        return self.options.wire(info, kind, capacity)

    def add(self, node: Node, inboxes: list[Channel], outs: list[Channel], wiring: StageWiring) -> None:
        """Add a node between channels."""
        node.connect(inboxes, outs)
        self.let_observe(wiring, node, outs[0] if outs else inboxes[0])
        if wiring.stage_hooks:
            node.num_hooks = len(wiring.stage_hooks)
            node.hook_lane = self.loop
            self.loop.hooks.of_nodes.append((node, wiring.stage_hooks))
        self.engine.nodes.append(node)

    def let_observe(self, wiring: StageWiring, node: Node, channel: Channel) -> None:
        """Let observers read the counters of a node and of a channel."""
        wiring.read_calls = call_reader(self.engine, node)
        wiring.read_channel = channel_reader(self.engine, channel)

    # -- descriptions inside others

    def add_pipeline(
        self,
        config: PipelineConfig[Any],
        last_capacity: int = CHANNEL_CAPACITY,
        arrange: Callable[[Sequence[Any]], Sequence[Any]] = list,
    ) -> Channel:
        """Add source and stages, but no sink: a merged pipeline has none. Returns the last channel.

        ``arrange`` returns the stages and regions to add, given those of the description.
        """
        check_regions(config.pipes, may_stay_open=True)
        pipes = arrange(split_regions(config.pipes))
        add = _of_class(self.kinds.sources, config.src)
        tail = add(self, config.src, last_capacity if not pipes else CHANNEL_CAPACITY)
        return self.add_stages(pipes, tail, last_capacity, None)

    def add_stages(
        self, stages: Sequence[Any], tail: Channel, last_capacity: int = CHANNEL_CAPACITY, block: Node | None = None
    ) -> Channel:
        """Add stages and regions one after the other, behind the channel ``tail``. Returns the last channel.

        ``block``: the node that has the new nodes among its ``members``.
        """
        for number, config in enumerate(stages):
            out = Channel(last_capacity if number == len(stages) - 1 else CHANNEL_CAPACITY)
            first = len(self.engine.nodes)
            _of_class(self.kinds.stages, config)(self, config, tail, out)
            for node in self.engine.nodes[first:]:
                if node.block is None:
                    node.block = block
            tail = out
        return tail


def is_limited(value: MaxFailures) -> bool:
    """Return whether ``max_failures`` is a limit, that is, not negative."""
    return not (isinstance(value, int) and value < 0)
