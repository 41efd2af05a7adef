"""Fast paths that are written out by hand do what the long way does that they copy.

No thread runs here: two graphs of one description are driven step by step, with one clock. One takes the fast paths as
the lanes do, the other the long way of ``slow_paths``.
"""

import ast
import inspect
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from textwrap import dedent
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._engine._core import EngineState
from spdl.pipeline._engine._engine import Engine
from spdl.pipeline._engine._lanes._pool import PoolLane
from spdl.pipeline._engine._lanes._source import SourceLane
from spdl.pipeline._engine._origin import Branch, Ledger, Origin, SourcePosition, plain_origin, roots_of
from spdl.pipeline._engine._passes import Passes
from spdl.pipeline._engine._stages._aggregate import AggregateStage
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._stages._source import SourceNode
from spdl.pipeline._engine._thread import EngineThread, Task
from spdl.pipeline._engine._ticket import Ticket
from spdl.pipeline._engine._traced import Tracer
from tests.pipeline.laws.slow_paths import differences_of, make_slow
from tests.strategies.profiles import cases

#: Steps of the clock in seconds: powers of two, so that sums of times are exact. Some calls are shorter than the limits
#: of the engine (20 us, 200 us), some longer.
TICKS = [2.0**-18, 2.0**-16, 2.0**-14, 2.0**-12, 2.0**-5]


@dataclass(frozen=True)
class Shape:
    """One stage of the description."""

    kind: str = "sync"
    concurrency: int = 1
    is_ordered: bool = False
    on_error: Any = "skip"
    max_failures: int | None = None
    batch: int | None = None  # an aggregate
    drop_last: bool = False

    def add(self, builder: PipelineBuilder[Any, Any], number: int) -> None:
        if self.batch is not None:
            builder.aggregate(self.batch, drop_last=self.drop_last)
            return
        builder.pipe(
            _same if self.kind == "sync" else _same_async,
            name=f"stage{number}",
            concurrency=self.concurrency,
            output_order="input" if self.is_ordered else "completion",
            on_error=self.on_error,
            max_failures=self.max_failures,
        )


def _same(item: Any) -> Any:
    return item


async def _same_async(item: Any) -> Any:
    return item


def _substitute(item: Any, error: Exception) -> Any:
    return ["instead"]


CALLS = st.builds(
    Shape,
    kind=st.sampled_from(["sync", "sync", "sync", "async"]),
    concurrency=st.integers(1, 3),
    is_ordered=st.booleans(),
    on_error=st.sampled_from(["skip", "skip", "raise", _substitute]),
    max_failures=st.sampled_from([None, None, None, 2]),
)
PLAIN = st.builds(Shape, concurrency=st.integers(1, 3))  # may hand results on to each other
BATCHES = st.builds(Shape, batch=st.integers(1, 4), drop_last=st.booleans())


@dataclass
class Twins:
    """Two graphs in step: ``fast`` and ``slow``."""

    fast: Engine
    slow: Engine
    now: float = 1.0
    num_given: int = 0
    calls: list[tuple[Ticket, Ticket]] = field(default_factory=list)

    def __post_init__(self) -> None:
        make_slow(self.slow)
        for engine in (self.fast, self.slow):
            engine.clock = lambda: self.now
            engine.report_failure = lambda failure: None
            engine.state = EngineState.RUNNING
            for node in engine.nodes[1:-1]:
                node.counters.begin_starved(self.now)

    def sources(self) -> tuple[SourceNode, SourceNode]:
        fast, slow = self.fast.nodes[0], self.slow.nodes[0]
        assert isinstance(fast, SourceNode)
        assert isinstance(slow, SourceNode)
        return fast, slow

    def stages(self) -> list[tuple[CallStage, CallStage]]:
        pairs = zip(self.fast.nodes, self.slow.nodes, strict=True)
        return [(fast, slow) for fast, slow in pairs if isinstance(fast, CallStage) and isinstance(slow, CallStage)]

    def check(self) -> None:
        differences = differences_of(self.fast, self.slow, self.now)
        assert not differences, differences
        for fast, slow in self.calls:
            assert _seen(fast) == _seen(slow)

    # -- the steps, each as a lane does it

    def emit(self, num_more: int) -> None:
        """The source gives an item, as in ``SourceLane._one_pass``."""
        fast, slow = self.sources()
        assert fast.has_room() == slow.has_room()
        if fast.ended or not fast.has_room():
            return
        given, self.num_given = self.num_given, self.num_given + 1
        if fast.collates is not None and fast.collates.accept(given, fast, self.now):
            rest = iter(range(self.num_given, self.num_given + num_more))
            fast.collates.fill(rest, fast)
            last, self.num_given = self.num_given, self.num_given + num_more - len(list(rest))
            for value in (given, *range(last, self.num_given)):
                slow.emit(value, self.now)
            return
        slow.emit(given, self.now)
        stage = fast.next_call
        ticket = None
        if stage is not None and not fast.out.items:
            ticket = stage.accept(given, fast.next_origin, self.now)
        if ticket is None:
            fast.emit(given, self.now)
        else:
            (other,) = [slow for each, slow in self.stages() if each is stage]
            self.calls.append((ticket, other.take(self.now)))

    def claim(self, number: int) -> None:
        """A thread claims a call of a stage, if there is one."""
        pairs = self.stages()
        if not pairs:
            return
        fast, slow = pairs[number % len(pairs)]
        assert fast.ready() == slow.ready()
        if fast.ready():
            self.calls.append((fast.take(self.now), slow.take(self.now)))

    def end(self, number: int, outcome: str, may_hand_on: bool) -> None:
        """A call returns, and its thread runs the next stage's call on the result if it may."""
        if not self.calls:
            return
        fast, slow = self.calls.pop(number % len(self.calls))
        for ticket in (fast, slow):
            stage: Any = ticket.stage
            if outcome == "result":
                ticket.result = ticket.value
            elif outcome == "error":
                stage.settle_error(ticket, ValueError("failed"))
            elif outcome == "fatal":
                stage.settle_error(ticket, SystemExit())
        after: Any = None
        if may_hand_on and fast.stage.hand_on(fast, self.now, 0):
            after = slow.stage.out.consumer  # type: ignore[attr-defined]
        else:
            fast.stage.finish(fast, self.now)
        slow.stage.finish(slow, self.now)
        if after is not None:
            assert after.ready()
            self.calls.append((fast, after.take(self.now)))

    def read(self) -> None:
        """The consumer reads an item, or the end of an epoch or of the stream."""
        inbox = self.fast.sink.inbox
        if inbox.items or inbox.closed:
            value = self.fast.read(0.0)
            taken = self.slow.take(0.0)
            self.slow.commit(taken)
            assert value == (taken[0] if isinstance(taken, tuple) else taken)

    def end_epoch(self) -> None:
        for source in self.sources():
            if not source.ended and source.has_room():
                source.end_pass(self.now)

    def end_stream(self) -> None:
        for source in self.sources():
            source.end(self.now)


def _seen(ticket: Ticket) -> tuple[Any, ...]:
    stage = ticket.stage.info.stage_name
    return stage, ticket.value, plain_origin(ticket.origin), ticket.started, ticket.sample_cpu, ticket.cancelled


@contextmanager
def _clock(now: Callable[[], float]) -> Iterator[None]:
    with ExitStack() as stack:
        for module in ("_channel", "_core", "_engine", "_traced"):
            stack.enter_context(patch(f"spdl.pipeline._engine.{module}.perf_counter", now))
        yield


def _engine_of(shapes: list[Shape]) -> Engine:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(range(0), continuous=True)
    for number, shape in enumerate(shapes):
        shape.add(builder, number)
    engine = builder.add_sink(2).build(num_threads=2)._engine
    engine.ledger.tracks_epochs = True
    return engine


#: What happens next, and how often.
STEPS = ["emit"] * 6 + ["claim"] * 4 + ["end"] * 8 + ["read"] * 3 + ["end_epoch"]
OUTCOMES = ["result"] * 8 + ["none", "error"]


@cases(160)
@given(
    shapes=st.lists(PLAIN | PLAIN | CALLS | BATCHES, max_size=4), seed=st.integers(0, 2**32), is_traced=st.booleans()
)
def test_graphs_driven_by_fast_paths_are_those_driven_the_long_way(
    shapes: list[Shape], seed: int, is_traced: bool
) -> None:
    """Same items, origins, counters, times, failures, ends and notes of a trace after each step."""
    random = Random(seed)
    twins = Twins(_engine_of(shapes), _engine_of(shapes))
    # Notes are appended the short way if all items are traced, as with a negative number the long way.
    tracers = (Tracer(twins.fast), Tracer(twins.slow, every=-1)) if is_traced else ()
    with _clock(lambda: twins.now):
        for tracer in tracers:
            tracer.begin()
        twins.check()
        for _ in range(100):
            twins.now += random.choice(TICKS)
            what = random.choice(STEPS)
            if what == "emit":
                twins.emit(random.randrange(6))
            elif what == "claim":
                twins.claim(random.randrange(4))
            elif what == "end":
                twins.end(random.randrange(4), random.choice(OUTCOMES), random.random() < 0.8)
            elif what == "read":
                twins.read()
            else:
                twins.end_epoch()
            twins.check()
        twins.end_stream()
        for _ in range(200):
            twins.end(0, random.choice([*OUTCOMES, "fatal"]), random.random() < 0.8)
            twins.claim(random.randrange(4))
            twins.read()
        twins.check()
        for tracer in tracers:
            tracer.end()
    if tracers:
        assert _notes(tracers[0]) == _notes(tracers[1])


def _notes(tracer: Tracer) -> list[tuple[Any, ...]]:
    notes, num_lost = tracer.take()
    assert num_lost == 0
    return [
        (node.info.stage_name, began, ended, None if origin is None else plain_origin(origin), error)
        for node, began, ended, origin, error in notes
    ]


ORIGINS: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 9), lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=12
)


@cases(300)
@given(pending=st.sets(st.integers(0, 9)), origin=ORIGINS)
def test_releasing_ints_and_batches_of_ints_is_releasing_each(pending: set[int], origin: Origin) -> None:
    """``Ledger.release`` has short ways for these, and so have the functions that read origins."""

    def leaves(each: Any) -> set[int]:
        return {each} if isinstance(each, int) else {leaf for one in each for leaf in leaves(one)}

    ledger = Ledger(1)
    ledger.pending |= pending
    ledger.release(origin)
    assert ledger.pending == pending - leaves(origin)
    assert set(roots_of(origin)) == leaves(origin)
    assert plain_origin(origin) == plain_origin((origin,))[0]  # type: ignore[index]


@cases(200)
@given(inputs=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4), num_held=st.integers(0, 6))
def test_outputs_without_a_shared_item_get_the_origins_that_all_outputs_get(
    inputs: list[list[int]], num_held: int
) -> None:
    """``AggregateStage.park`` has a short way for outputs of which no two have the same item."""
    found = []
    for is_slow in (False, True):
        stage: Any = AggregateStage.__new__(AggregateStage)
        stage.engine = _Owner(Ledger(1))
        stage.held = dict(enumerate(range(num_held)))
        stage.splits = {1000: Branch(0)} if is_slow else {}  # an item in two outputs makes it take the long way
        stage.num_given = num_held
        stage.parked = []
        stage.park([f"output{number}" for number in range(len(inputs))], inputs, ())
        found.append(([(value, plain_origin(origin)) for value, origin in stage.parked], stage.held))
    assert found[0] == found[1]


@dataclass
class _Owner:
    ledger: Ledger


@cases(200)
@given(number=st.integers(0, 3), issued=st.integers(0, 20), more=st.integers(0, 20), is_one_of_several=st.booleans())
def test_many_origins_are_as_many_single_ones(number: int, issued: int, more: int, is_one_of_several: bool) -> None:
    """``SourceNode.next_origins`` issues the positions that ``next_origin`` does."""
    found = []
    for is_slow in (False, True):
        source: Any = SourceNode.__new__(SourceNode)
        source.number = number
        source.positions = Ledger(1).sources[0]
        source.shares_ledger = is_one_of_several
        source.position_class = SourcePosition
        origins = [source.next_origin() for _ in range(issued)]
        origins += [source.next_origin() for _ in range(more)] if is_slow else source.next_origins(more)
        found.append((origins, source.positions.next_index, source.positions.pending))
    assert found[0] == found[1]


@cases(200)
@given(
    world=st.integers(1, 4),
    rank=st.integers(0, 3),
    start=st.integers(0, 5),
    epoch=st.integers(0, 3),
    rng_epoch=st.none() | st.integers(0, 3),
    indices=st.sets(st.integers(0, 20), min_size=1),
)
def test_places_of_a_batch_are_those_of_its_items(
    world: int, rank: int, start: int, epoch: int, rng_epoch: int | None, indices: set[int]
) -> None:
    """``Passes.places_of`` computes at once what ``place`` finds for each."""
    passes: Any = Passes.__new__(Passes)
    passes.engine, passes.number = _Owner(Ledger(1)), 0
    passes.positions.starts, passes.positions.epoch = deque([start]), epoch
    passes.plans, passes.refill, passes.keys, passes.given = {}, None, None, None
    passes.rank, passes.world, passes.rng_epoch = rank % world, world, rng_epoch
    origins = tuple(start + index for index in sorted(indices))
    found_epoch, positions = passes.places_of(origins)
    assert [(found_epoch, position) for position in positions] == [passes.place(origin)[:2] for origin in origins]


def test_a_worker_is_woken_as_any_thread_is() -> None:
    """``PoolLane`` has ``EngineThread.wake`` written out."""
    before, work = Task(None, lambda thread: None), Task(None, lambda thread: None)
    woken, other = EngineThread("woken", before), EngineThread("other", before)
    lane: Any = PoolLane.__new__(PoolLane)
    lane.idle, lane.num_waking, lane.work = [woken], 0, work
    lane._wake()
    other.wake(work)
    assert (woken.task, woken.wake_up.locked()) == (other.task, other.wake_up.locked()) == (work, False)


def test_a_source_waits_for_room_the_same_way_in_both_places() -> None:
    """``SourceLane._one_pass`` has the loop of ``_wait_for_room`` written out: the same statements."""

    def loop_of(method: Callable[..., Any]) -> str:
        tree = ast.parse(dedent(inspect.getsource(method)))
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
        (found,) = (loop for loop in loops if "_help" in ast.unparse(loop.test))
        return ast.unparse(found)

    assert loop_of(SourceLane._one_pass) == loop_of(SourceLane._wait_for_room)
