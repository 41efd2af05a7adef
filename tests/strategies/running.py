"""Builds a real pipeline from a description, and checks what its ops and sources do."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from fractions import Fraction
from typing import Any

from spdl.pipeline import Pipeline, StageInfo, TaskHook, build_pipeline, is_eof, is_epoch_end
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    MergeConfig,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)

from .graphs import Agg, Disagg, Graph, Merged, Op, Paths, Source, Stage, steps
from .items import Position, Token, Value, number_of, positions_of, tokens_of

__all__ = ["OpError", "Run", "SourceError"]


class OpError(Exception):
    """Raised by an op whose plan says so."""


class SourceError(Exception):
    """Raised by a source whose description says so."""


class Run:
    """One build of a graph, and the observations of it.

    Attributes:
        live: The tokens that exist and have not been taken, dropped or failed, with their number of places (a list of
            tokens and its tokens are the same place).
        problems: The errors found. An assertion inside an op would only be one more failed item.
        most_live: The maximum number of tokens at a time.
        unsure: The positions with a dropped or failed item or an ended generator: the engine may or may not have
            recorded it before a stop.
        running, most_running: The calls in flight of each stage, now and at most.
        num_opened, num_closed: The numbers of generators of ops that were entered and left.
        on_op: A function that each op calls, not under a lock, with the number of the call. If it returns True, an
            async op waits for ever.
        finish: A function that waits for other threads that end the pipeline.
    """

    def __init__(
        self, graph: Graph, on_op: Callable[[int], bool] | None = None, finish: Callable[[], None] = lambda: None
    ) -> None:
        self.graph = graph
        self.on_op = on_op
        self.finish = finish
        self.lock = threading.Lock()
        self.live: dict[str, frozenset[Position]] = {}
        self.problems: list[str] = []
        self.most_live = 0
        self.unsure: set[Position] = set()
        self.running: Counter[int] = Counter()
        self.most_running: Counter[int] = Counter()
        self.num_ops = 0
        self.num_hooked = 0
        self.num_opened = 0
        self.num_closed = 0
        self.num_failed: Counter[int] = Counter()
        self.sources: list[SourceWatch] = []
        self.executors: list[Executor] = []
        self.pipeline: Pipeline[Value] = build_pipeline(
            PipelineConfig(self.make_src(graph.src), self.make_stages(graph.stages), SinkConfig(graph.sink)),
            num_threads=graph.num_threads,
            # Either never trips; but with the first, a stage of which every call fails is a failure at the end.
            max_failures=Fraction(1) if graph.max_failures == -1 else graph.max_failures,
            task_hook_factory=self.make_hooks if graph.hooks else None,
        )
        self.engine = self.pipeline._engine  # for checking source positions, even without the handle

    def drop(self) -> None:
        """Drop the handle."""
        del self.pipeline

    def close(self) -> None:
        for executor in self.executors:
            executor.shutdown()

    # -- observations

    def born(self, value: Value) -> None:
        with self.lock:
            for token in tokens_of(value):
                if repr(token) in self.live:
                    self.problems.append(f"{token} exists twice")
                self.live[repr(token)] = token.positions
            self.most_live = max(self.most_live, len(self.live))

    def replaced(self, before: Value, after: Value | None) -> None:
        """``before`` became ``after``; ``None`` means dropped, failed or exhausted."""
        with self.lock:
            kept = tokens_of(after) if after is not None else []
            for token in tokens_of(before):
                if self.live.pop(repr(token), None) is None:
                    self.problems.append(f"{token} was given to an op again, or after it was gone")
            for token in kept:
                self.live[repr(token)] = token.positions
            self.unsure |= positions_of(before) - frozenset(p for token in kept for p in token.positions)

    def taken(self, value: Value) -> None:
        """The consumer has taken it."""
        with self.lock:
            for token in tokens_of(value):
                if self.live.pop(repr(token), None) is None:
                    self.problems.append(f"{token} came out twice, or was never made")

    def outstanding(self) -> frozenset[Position]:
        with self.lock:
            return frozenset(position for positions in self.live.values() for position in positions)

    @contextmanager
    def call(self, op: Op) -> Iterator[bool]:
        """Observe a call of ``op``. Yields whether an async op must wait for ever."""
        with self.lock:
            self.running[op.id] += 1
            self.most_running[op.id] = max(self.most_running[op.id], self.running[op.id])
            self.num_ops += 1
            number = self.num_ops
        try:
            yield self.on_op(number) if self.on_op is not None else False
        finally:
            with self.lock:
                self.running[op.id] -= 1

    @contextmanager
    def opened(self) -> Iterator[None]:
        with self.lock:
            self.num_opened += 1
        try:
            yield
        finally:
            with self.lock:
                self.num_closed += 1

    # -- ops

    def perform(self, op: Op, value: Value) -> Value | None:
        ((outcome, result),) = steps(op, value)
        if outcome == "ok":
            self.replaced(value, result)
            return result
        self.replaced(value, None)
        if outcome == "none":
            return None
        with self.lock:
            self.num_failed[op.id] += 1
        raise OpError(op.id, value)

    def walk(self, op: Op, value: Value) -> Iterator[Value | None]:
        """The body of a generator op, between its opening and its closing."""
        for outcome, result in steps(op, value):
            if outcome == "error":
                self.replaced(value, None)
                with self.lock:
                    self.num_failed[op.id] += 1
                raise OpError(op.id, value)
            if outcome == "ok":
                self.born(result)
                yield result
            else:
                yield None
        self.replaced(value, None)

    def make_op(self, op: Op) -> Callable[[Any], Any]:
        def call(value: Value) -> Value | None:
            with self.call(op):
                return self.perform(op, value)

        async def call_async(value: Value) -> Value | None:
            with self.call(op) as wait:
                if wait:
                    await asyncio.get_running_loop().create_future()
                else:
                    await asyncio.sleep(0)
                return self.perform(op, value)

        # A generator is one call from its first step to its last, including its waits for room.
        def generate(value: Value) -> Iterator[Value | None]:
            with self.call(op), self.opened():
                yield from self.walk(op, value)

        async def generate_async(value: Value) -> AsyncIterator[Value | None]:
            with self.call(op) as wait, self.opened():
                if wait:
                    await asyncio.get_running_loop().create_future()
                for result in self.walk(op, value):
                    await asyncio.sleep(0)
                    yield result

        if op.shape == "generator":
            return generate_async if op.lane == "async" else generate
        return call_async if op.lane == "async" else call

    def make_stages(self, stages: tuple[Stage, ...]) -> list[Any]:
        return [self.make_stage(stage) for stage in stages]

    def make_stage(self, stage: Stage) -> Any:
        if isinstance(stage, Op):
            executor = None
            if stage.lane == "executor":
                executor = ThreadPoolExecutor(max_workers=2)
                self.executors.append(executor)
            return Pipe(
                self.make_op(stage),
                concurrency=stage.concurrency,
                executor=executor,
                name=f"op{stage.id}",
                output_order=stage.order,
                max_failures=stage.max_failures,
            )
        if isinstance(stage, Agg):
            return Aggregate(_Grouper(stage.size) if stage.is_users else stage.size, drop_last=stage.drop_last)
        if isinstance(stage, Disagg):
            return Disaggregate()
        paths = [self.make_stages(path) for path in stage.paths]
        return PathVariants(_router(stage), paths, batched=stage.batched)

    def make_hooks(self, info: StageInfo) -> list[TaskHook]:
        return [_Hook(self, info)]

    def make_src(self, src: Source | Merged) -> Any:
        if isinstance(src, Source):
            watch = SourceWatch(self, src)
            self.sources.append(watch)
            return SourceConfig(watch.iterable(), continuous=src.continuous)
        subs: list[PipelineConfig[Value]] = [
            PipelineConfig(self.make_src(sub.src), self.make_stages(sub.stages), SinkConfig(1)) for sub in src.subs
        ]
        merged: MergeConfig = Merge(subs, _drain if src.drain else None)
        return merged


class SourceWatch:
    """One source, with counts of its opened, exhausted and closed iterators."""

    def __init__(self, run: Run, source: Source) -> None:
        self.run = run
        self.source = source
        self.epoch = 0
        self.num_given = 0
        self.num_opened = 0
        self.num_exhausted = 0
        self.num_raised = 0
        self.num_closed = 0

    def next_size(self) -> int:
        size = self.source.sizes[self.epoch % len(self.source.sizes)]
        self.epoch += 1
        self.num_opened += 1
        return size

    def give(self) -> Token:
        index = self.num_given
        if index == self.source.error_at:
            self.num_raised += 1
            raise SourceError(self.source.id)
        token = Token.of_source(self.source.id, index)
        self.run.born(token)
        self.num_given += 1
        return token

    def iterable(self) -> Any:
        return {"generator": _GeneratorSource, "iterator": _IteratorSource, "async": _AsyncSource}[self.source.kind](
            self
        )


class _GeneratorSource:
    def __init__(self, watch: SourceWatch) -> None:
        self.watch = watch

    def __iter__(self) -> Iterator[Token]:
        watch = self.watch
        try:
            for _ in range(watch.next_size()):
                yield watch.give()
            watch.num_exhausted += 1
        finally:
            watch.num_closed += 1


class _IteratorSource:
    """A source whose iterators have a ``close``, like files."""

    def __init__(self, watch: SourceWatch) -> None:
        self.watch = watch

    def __iter__(self) -> Iterator[Token]:
        return _ClosableIterator(self.watch)


class _ClosableIterator(Iterator[Token]):
    def __init__(self, watch: SourceWatch) -> None:
        self.watch = watch
        self.left = watch.next_size()
        self.was_closed = False

    def __next__(self) -> Token:
        assert not self.was_closed, "an item was requested from the source after it was closed"
        if self.left == 0:
            self.watch.num_exhausted += 1
            raise StopIteration
        self.left -= 1
        return self.watch.give()

    def close(self) -> None:
        self.was_closed = True
        self.watch.num_closed += 1


class _AsyncSource:
    def __init__(self, watch: SourceWatch) -> None:
        self.watch = watch

    def __aiter__(self) -> AsyncIterator[Token]:
        return _AsyncClosable(self.watch)


class _AsyncClosable(AsyncIterator[Token]):
    def __init__(self, watch: SourceWatch) -> None:
        self.watch = watch
        self.left = watch.next_size()

    async def __anext__(self) -> Token:
        if self.left == 0:
            self.watch.num_exhausted += 1
            raise StopAsyncIteration
        self.left -= 1
        return self.watch.give()

    async def aclose(self) -> None:
        self.watch.num_closed += 1


class _Grouper(Aggregator[Any, Any]):
    """A user's aggregator that does what ``Collate`` does."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: list[Any] = []
        self.num_inside = 0

    def accumulate(self, item: Any) -> list[Any] | None:
        self.num_inside += 1
        assert self.num_inside == 1, "accumulate ran beside itself"
        self.held.append(item)
        self.num_inside -= 1
        return self.flush() if len(self.held) >= self.size else None

    def flush(self) -> list[Any] | None:
        held, self.held = self.held, []
        return held or None


class _Hook(TaskHook):
    """A user's hook, which makes the engine run every call between its entry and its exit."""

    def __init__(self, run: Run, info: StageInfo) -> None:
        self.run = run
        self.info = info

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.run.num_hooked += 1
        yield


def _router(stage: Paths) -> Callable[[Any], Any]:
    def route(value: Any) -> Any:
        if stage.batched:
            return [number_of(one) % len(stage.paths) for one in value]
        return number_of(value) % len(stage.paths)

    async def route_async(value: Any) -> Any:
        return route(value)

    return route_async if stage.is_async else route


async def _drain(info: StageInfo, inputs: Any, output: Any) -> None:
    """Reads one input to the end, then the next. Epochs of continuous inputs stay separate."""
    while True:
        mark: Any = None
        for queue in inputs:
            while not is_eof(mark := await queue.get()) and not is_epoch_end(mark):
                await output.put(mark)
        if is_eof(mark):
            return
        await output.put(mark)
