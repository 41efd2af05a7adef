"""Each place where users' code is called, with code in it that raises at the calls it is told."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final

from spdl.pipeline import BackgroundTask, TaskHook
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    Retry,
    SinkConfig,
    SourceConfig,
)
from tests.strategies.watch import BOUND

NUM_ITEMS: Final = 7


class Trouble:
    """Raises at the calls whose numbers say so, and counts."""

    def __init__(self, make: Callable[[], BaseException], every: int) -> None:
        self.make = make
        self.every = every
        self.lock = threading.Lock()
        self.num_calls = 0
        self.num_raised = 0

    def __call__(self) -> None:
        with self.lock:
            self.num_calls += 1
            if self.num_calls % self.every:
                return
            self.num_raised += 1
        raise self.make()


class Plan:
    """A pipeline in the making, with trouble in one place."""

    def __init__(self, trouble: Trouble, items: list[Any], concurrency: int, order: Any) -> None:
        self.trouble = trouble
        self.items = items
        self.options: dict[str, Any] = {"concurrency": concurrency, "output_order": order}
        self.source: Any = items
        self.stages: list[Any] = []
        self.build: dict[str, Any] = {}
        self.with_executor: Executor | None = None

    # -- ops

    def op(self, item: Any) -> Any:
        self.trouble()
        return item

    async def async_op(self, item: Any) -> Any:
        self.trouble()
        return item

    def generator(self, item: Any) -> Iterator[Any]:
        self.trouble()
        yield item

    async def async_generator(self, item: Any) -> AsyncIterator[Any]:
        self.trouble()
        yield item

    async def closing(self, item: Any) -> AsyncIterator[Any]:
        """Raises as it is closed, which is where an error has already been found."""
        try:
            yield item
            raise ValueError("first")
        finally:
            self.trouble()


def in_op(plan: Plan) -> None:
    plan.stages = [Pipe(plan.op, **plan.options)]


def in_timed_op(plan: Plan) -> None:
    plan.stages = [Pipe(plan.op, call_timeout=BOUND, **plan.options)]


def in_retried_op(plan: Plan) -> None:
    plan.stages = [Pipe(plan.op, retry=Retry(2, delay=0), **plan.options)]


def in_async_op(plan: Plan) -> None:
    plan.stages = [Pipe(plan.async_op, **plan.options)]


def in_retried_async_op(plan: Plan) -> None:
    plan.stages = [Pipe(plan.async_op, retry=Retry(2, delay=0), **plan.options)]


def in_generator(plan: Plan) -> None:
    plan.stages = [Pipe(plan.generator, **plan.options)]


def in_async_generator(plan: Plan) -> None:
    plan.stages = [Pipe(plan.async_generator, concurrency=plan.options["concurrency"])]


def in_closing(plan: Plan) -> None:
    plan.stages = [Pipe(plan.closing, concurrency=plan.options["concurrency"])]


def in_executor_op(plan: Plan) -> None:
    plan.with_executor = ThreadPoolExecutor(2)
    plan.stages = [Pipe(plan.op, executor=plan.with_executor, **plan.options)]


def in_executor_generator(plan: Plan) -> None:
    plan.with_executor = ThreadPoolExecutor(2)
    plan.stages = [Pipe(plan.generator, executor=plan.with_executor, **plan.options)]


class _Submitting(Executor):
    """``submit`` is where it goes wrong."""

    def __init__(self, plan: Plan, *, gives_garbage: bool = False) -> None:
        self.plan = plan
        self.gives_garbage = gives_garbage

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.gives_garbage:
            return self.plan.trouble.make()  # type: ignore[return-value]
        self.plan.trouble()
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class _Callbacks(Future[Any]):
    """A future of the user's own class that does not take callbacks, or says nothing sensible."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.plan.trouble()
        return None

    def result(self, timeout: float | None = None) -> Any:
        self.plan.trouble()
        return "result"


class _OddFutures(Executor):
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = _Callbacks(self.plan)
        future.set_result(None)
        return future


def in_submit(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item, executor=_Submitting(plan), **plan.options)]


def in_what_submit_returns(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item, executor=_Submitting(plan, gives_garbage=True), **plan.options)]


def in_future(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item, executor=_OddFutures(plan), **plan.options)]


def in_source(plan: Plan) -> None:
    def give() -> Iterator[Any]:
        for item in plan.items:
            plan.trouble()
            yield item

    plan.source = give()
    plan.stages = [Pipe(lambda item: item)]


class _Iterable:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> Any:
        self.plan.trouble()
        return self

    def __next__(self) -> Any:
        self.plan.trouble()
        return self.plan.items[0]

    def __getattr__(self, name: str) -> Any:
        if name == "close":
            self.plan.trouble()
        raise AttributeError(name)


def in_iterable(plan: Plan) -> None:
    plan.source = _Iterable(plan)
    plan.trouble.every = min(plan.trouble.every, 5)  # it does not end by itself


def in_async_source(plan: Plan) -> None:
    async def give() -> AsyncIterator[Any]:
        for item in plan.items:
            plan.trouble()
            yield item

    plan.source = give()


class _Pairs(Aggregator[Any, Any]):
    def __init__(self, plan: Plan, where: str) -> None:
        self.plan = plan
        self.where = where

    def accumulate(self, item: Any) -> Any:
        if self.where == "accumulate":
            self.plan.trouble()
        return [item]

    def flush(self) -> Any:
        if self.where == "flush":
            self.plan.trouble()
        return None


class _Due(_Pairs):
    def deadline(self) -> float | None:
        if self.where == "deadline":
            self.plan.trouble()
        return 0.0

    def clock(self) -> float:
        if self.where == "clock":
            self.plan.trouble()
        return 1.0


def in_accumulate(plan: Plan) -> None:
    plan.stages = [Aggregate(_Pairs(plan, "accumulate"))]


def in_flush(plan: Plan) -> None:
    plan.stages = [Aggregate(_Pairs(plan, "flush"))]


def in_deadline(plan: Plan) -> None:
    plan.stages = [Aggregate(_Due(plan, "deadline"))]


def in_clock(plan: Plan) -> None:
    plan.stages = [Aggregate(_Due(plan, "clock"))]


class _Iterating:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> Iterator[Any]:
        self.plan.trouble()
        return iter([1])


def in_disaggregate(plan: Plan) -> None:
    plan.source = [_Iterating(plan) for _ in plan.items]
    plan.stages = [Disaggregate()]


def _routed(plan: Plan, router: Callable[[Any], Any]) -> None:
    plan.stages = [PathVariants(router, [[Pipe(lambda item: item)], [Pipe(lambda item: item)]])]


def in_router(plan: Plan) -> None:
    def route(item: Any) -> int:
        plan.trouble()
        return 1

    _routed(plan, route)


def in_async_router(plan: Plan) -> None:
    async def route(item: Any) -> int:
        plan.trouble()
        return 1

    _routed(plan, route)


def in_index(plan: Plan) -> None:
    class Index:
        def __index__(self) -> int:
            plan.trouble()
            return 1

    _routed(plan, lambda item: Index())


def in_merge(plan: Plan) -> None:
    async def merge(info: Any, inputs: Any, output: Any) -> None:
        for _ in range(3):
            plan.trouble()
            await output.put(await inputs[0].get())

    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(plan.items), [], SinkConfig(1))
    plan.source = Merge([sub], merge)


class _Hook(TaskHook):
    def __init__(self, plan: Plan, where: str) -> None:
        self.plan = plan
        self.where = where

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        if self.where == "stage-entry":
            self.plan.trouble()
        yield
        if self.where == "stage-exit":
            self.plan.trouble()

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        if self.where == "entry":
            self.plan.trouble()
        try:
            yield
        finally:
            if self.where == "exit":
                self.plan.trouble()


def _hooked(plan: Plan, where: str) -> None:
    plan.build["task_hook_factory"] = lambda info: [_Hook(plan, where)]


def in_hooked_op(plan: Plan) -> None:
    in_op(plan)
    _hooked(plan, "nowhere")


def in_hooked_generator(plan: Plan) -> None:
    plan.stages = [Pipe(plan.generator, concurrency=plan.options["concurrency"])]
    _hooked(plan, "nowhere")


def in_hooked_executor_op(plan: Plan) -> None:
    in_executor_op(plan)
    _hooked(plan, "nowhere")


def in_hooked_submit(plan: Plan) -> None:
    in_submit(plan)
    _hooked(plan, "nowhere")


def in_hooked_garbage(plan: Plan) -> None:
    in_what_submit_returns(plan)
    _hooked(plan, "nowhere")


def in_hook_entry(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item, **plan.options)]
    _hooked(plan, "entry")


def in_hook_exit(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item, **plan.options)]
    _hooked(plan, "exit")


def in_hook_of_aggregate(plan: Plan) -> None:
    plan.stages = [Aggregate(_Pairs(plan, "nowhere"))]
    _hooked(plan, "entry")


def in_hooked_aggregate(plan: Plan) -> None:
    plan.stages = [Aggregate(_Pairs(plan, "accumulate"))]
    _hooked(plan, "nowhere")


def in_stage_hook_entry(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item)]
    _hooked(plan, "stage-entry")


def in_stage_hook_exit(plan: Plan) -> None:
    plan.stages = [Pipe(lambda item: item)]
    _hooked(plan, "stage-exit")


def in_background(plan: Plan) -> None:
    class Task(BackgroundTask):
        async def run(self) -> None:
            plan.trouble()

    plan.build["background_tasks"] = [Task]
    plan.stages = [Pipe(plan.async_op)]


#: Where the item that was being worked on fails, and everything else goes on.
COSTS_AN_ITEM: Final = {in_op, in_timed_op, in_async_op, in_generator, in_async_generator, in_executor_op,
                         in_executor_generator, in_hooked_op, in_hooked_generator, in_hooked_executor_op}  # fmt: skip
#: All of them, by the functions that put trouble there.
PLACES: Final[list[Callable[[Plan], None]]] = [value for name, value in globals().items() if name.startswith("in_")]
