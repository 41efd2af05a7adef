"""What an op may be, what becomes of its results and errors, and how many calls run at once."""

import asyncio
import functools
import itertools
import operator
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, build_pipeline
from spdl.pipeline._errors import InvalidOpError, PipelineStructureError
from spdl.pipeline.defs import Pipe, PipelineConfig, SinkConfig, SourceConfig

from .running import TIMEOUT, await_event, build_of, drain, fail, run, running


def double(item: int) -> int:
    return 2 * item


async def double_async(item: int) -> int:
    await asyncio.sleep(0)
    return 2 * item


def scale(factor: int, item: int) -> int:
    return factor * item


async def scale_async(factor: int, item: int) -> int:
    return factor * item


def twice(item: int) -> Iterator[int]:
    yield item
    yield item


async def twice_async(item: int) -> AsyncIterator[int]:
    yield item
    yield item


def decorated(op: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(op)
    def wrapper(*args: Any) -> Any:
        return op(*args)

    return wrapper


class Doubler:
    def __call__(self, item: int) -> int:
        return 2 * item

    def method(self, item: int) -> int:
        return 2 * item

    @classmethod
    def of_class(cls, item: int) -> int:
        return 2 * item

    @staticmethod
    def static(item: int) -> int:
        return 2 * item

    async def method_async(self, item: int) -> int:
        return 2 * item


class AsyncDoubler:
    async def __call__(self, item: int) -> int:
        return 2 * item


class GeneratorDoubler:
    def __call__(self, item: int) -> Iterator[int]:
        yield 2 * item


class AsyncGeneratorDoubler:
    async def __call__(self, item: int) -> AsyncIterator[int]:
        yield 2 * item


class Doubled:
    """As a torch ``Dataset``: ``__getitem__`` alone."""

    def __getitem__(self, index: int) -> int:
        return 2 * index


class Talkative:
    """It has every attribute, as mocks and proxies do."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, item: int) -> int:
        return 2 * item


@pytest.mark.parametrize(
    "op",
    [
        double,
        lambda item: 2 * item,
        functools.partial(scale, 2),
        functools.partial(functools.partial(scale), 2),
        decorated(double),
        (2).__mul__,
        functools.partial(operator.mul, 2),
        Doubler(),
        functools.partial(Doubler()),
        Doubler().method,
        Doubler.of_class,
        Doubler.static,
        double_async,
        functools.partial(scale_async, 2),
        Doubler().method_async,
        AsyncDoubler(),
        functools.partial(AsyncDoubler()),
        AsyncDoubler().__call__,
        GeneratorDoubler(),
        GeneratorDoubler().__call__,
        functools.partial(GeneratorDoubler()),
        AsyncGeneratorDoubler(),
        functools.partial(AsyncGeneratorDoubler()),
        [0, 2, 4, 6],
        (0, 2, 4, 6),
        range(0, 8, 2),
        {0: 0, 1: 2, 2: 4, 3: 6},
        Doubled(),
    ],
)
def test_every_kind_of_op_runs(op: Any) -> None:
    """Functions, objects, methods, partials, containers, sync and async, with and without yield."""
    assert run(build_of(range(4), lambda b: b.pipe(op))) == [0, 2, 4, 6]


def test_builtin_functions_and_classes_are_ops() -> None:
    """What has no signature of its own is called all the same."""
    assert run(build_of(["1", "22"], lambda b: b.pipe(len).pipe(str).pipe(int).pipe(complex))) == [1, 2]


def test_an_object_with_every_attribute_is_a_sync_op() -> None:
    """What an op is shows in its class, not in what it answers."""
    assert run(build_of(range(2), lambda b: b.pipe(Talkative()))) == [0, 2]


def test_a_partial_of_a_generator_function_yields() -> None:
    """A generator function is recognised through ``partial``."""
    assert run(build_of([1], lambda b: b.pipe(functools.partial(twice)))) == [1, 1]
    assert run(build_of([1], lambda b: b.pipe(functools.partial(twice_async)))) == [1, 1]


def test_a_plain_function_that_returns_a_generator_returns_one_item() -> None:
    """Only generator functions are iterated: a generator as a result is a value like any other."""
    (item,) = run(build_of([1], lambda b: b.pipe(lambda item: twice(item))))
    assert list(item) == [1, 1]


@pytest.mark.parametrize("op", [None, 1, object(), iter([1])])
def test_what_is_no_op_is_refused_by_pipe(op: Any) -> None:
    """Neither callable nor a container: the call of ``pipe`` raises, as ``TypeError`` and as ``AssertionError``."""
    with pytest.raises(InvalidOpError) as raised:
        PipelineBuilder[Any, Any]().add_source([1]).pipe(op)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, AssertionError)


def test_a_missing_key_costs_its_item() -> None:
    """A container whose ``__getitem__`` raises fails that item only."""
    pipeline = build_of(["a", "x", "b", []], lambda b: b.pipe({"a": 1, "b": 2})).build(num_threads=1)
    assert drain(pipeline) == ([1, 2], None)
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_failures) == (4, 2)
    assert [type(failure.error) for failure in stage.failures] == [KeyError, TypeError]


@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("kind", ["sync", "async", "generator", "async generator", "executor"])
def test_only_none_is_dropped(kind: str, order: Any) -> None:
    """Falsy results pass; ``None`` is how an op filters."""
    values: list[Any] = [0, None, "", [], None, {}, False, 0.0, b"", ()]

    async def identity_async(item: Any) -> Any:
        return item

    def yield_it(item: Any) -> Iterator[Any]:
        yield item

    async def yield_it_async(item: Any) -> AsyncIterator[Any]:
        yield item

    if (kind, order) == ("async generator", "input"):
        pytest.skip("refused by pipe")
    ops: dict[str, Any] = {
        "sync": lambda item: item,
        "executor": lambda item: item,
        "async": identity_async,
        "generator": yield_it,
        "async generator": yield_it_async,
    }
    with ThreadPoolExecutor(1) as pool:
        executor = pool if kind == "executor" else None
        builder = build_of(values, lambda b: b.pipe(ops[kind], executor=executor, output_order=order))
        pipeline = builder.build(num_threads=2)
        assert drain(pipeline) == ([value for value in values if value is not None], None)
    assert pipeline.stats().stages[1].num_dropped == 2


def test_items_that_compare_strangely_pass() -> None:
    """The engine never compares, hashes or truth-tests an item."""

    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        def __bool__(self) -> bool:
            raise RuntimeError("asked for its truth")

        def __len__(self) -> int:
            raise RuntimeError("asked for its length")

        def __repr__(self) -> str:
            raise RuntimeError("asked for its repr")

    items = [Odd(), Odd()]

    async def pass_async(item: Any) -> Any:
        return item

    def give(item: Any) -> Iterator[Any]:
        yield item

    out = run(
        build_of(
            items,
            lambda b: b.pipe(lambda item: item, output_order="input").pipe(pass_async).pipe(give).aggregate(2),
            lambda b: b.disaggregate(),
        )
    )
    assert [id(item) for item in out] == [id(item) for item in items]


def test_a_failed_item_whose_repr_raises_is_only_a_failed_item() -> None:
    """The note needs a repr; one that raises must not become an error of the pipeline."""

    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    def refuse(item: Any) -> Any:
        raise ValueError("no")

    pipeline = build_of([Unprintable()], lambda b: b.pipe(refuse)).build(num_threads=1)
    assert drain(pipeline) == ([], None)
    assert pipeline.stats().stages[1].num_failures == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_an_ordinary_exception_drops_the_item_and_nothing_else(is_async: bool) -> None:
    """The stage goes on, and the exception keeps its type and says where it happened."""
    errors: list[BaseException] = []

    def op(item: int) -> int:
        if item % 3 == 0:
            errors.append(ValueError(f"no {item}"))
            raise errors[-1]
        return item

    async def op_async(item: int) -> int:
        return op(item)

    pipeline = build_of(range(8), lambda b: b.pipe(op_async if is_async else op, name="picky")).build(num_threads=1)
    assert drain(pipeline) == ([1, 2, 4, 5, 7], None)
    assert len(errors) == 3
    for position, error in zip([0, 3, 6], errors, strict=True):
        (note,) = error.__notes__
        assert "picky" in note
        assert str(position) in note
        assert "test_pipe.py" in note


@pytest.mark.parametrize("exception", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bare_base_exception_fails_the_stage(exception: BaseException, is_async: bool) -> None:
    """It is no item's failure: it neither vanishes nor kills a worker silently."""

    def op(item: int) -> int:
        if item == 2:
            raise exception
        return item

    async def op_async(item: int) -> int:
        return op(item)

    items, error = fail(build_of(range(5), lambda b: b.pipe(op_async if is_async else op)))
    assert items == [0, 1]
    assert error.__cause__ is exception


def test_stop_iteration_from_an_op_is_a_failed_item() -> None:
    """``StopIteration`` of an op neither ends the stage nor a generator of ours."""

    def op(item: int) -> int:
        if item == 1:
            raise StopIteration(7)
        return item

    async def op_async(item: int) -> int:
        if item == 2:
            raise StopAsyncIteration
        return item

    assert run(build_of(range(4), lambda b: b.pipe(op).pipe(op_async))) == [0, 3]


def test_timeout_and_cancelled_errors_of_a_sync_op_are_its_own() -> None:
    """``TimeoutError``, and the cancellation of a future that the op waited for, cost the item."""
    from concurrent.futures import CancelledError

    def op(item: int) -> int:
        if item == 0:
            raise TimeoutError
        if item == 1:
            raise CancelledError
        return item

    assert run(build_of(range(3), lambda b: b.pipe(op))) == [2]


def test_an_async_op_that_is_cancelled_from_inside_costs_its_item() -> None:
    """A cancellation that the engine did not ask for is that call's failure; the stage goes on."""

    async def op(item: int) -> int:
        if item == 1:
            task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(task.cancel)
            await task
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op)).build(num_threads=1)
    assert drain(pipeline) == ([0, 2], None)
    assert pipeline.stats().stages[1].num_failures == 1


def test_wrong_number_of_parameters_of_a_sync_op_fails_each_item() -> None:
    """The call raises TypeError, as any failed call; the pipeline ends well."""

    def two(a: int, b: int) -> int:
        return a + b

    pipeline = build_of(range(5), lambda b: b.pipe(two)).build(num_threads=2)  # type: ignore[arg-type,unused-ignore]
    assert drain(pipeline) == ([], None)
    assert pipeline.stats().stages[1].num_failures == 5


@pytest.mark.parametrize("kind", ["async", "async generator", "partial", "object"])
def test_wrong_number_of_parameters_of_an_async_op_fails_the_stage(kind: str) -> None:
    """The TypeError of the very first call ends the pipeline, whatever ``max_failures`` allows."""

    async def two(a: int, b: int) -> int:
        return a + b

    async def two_yielding(a: int, b: int) -> AsyncIterator[int]:
        yield a + b

    class Two:
        async def __call__(self, a: int, b: int) -> int:
            return a + b

    async def three(a: int, b: int, c: int) -> int:
        return a + b + c

    ops: dict[str, Any] = {
        "async": two,
        "async generator": two_yielding,
        "partial": functools.partial(three, 1),
        "object": Two(),
    }
    items, error = fail(build_of(range(5), lambda b: b.pipe(ops[kind])), max_failures=-1)
    assert items == []
    assert type(error) is TypeError


def test_a_type_error_inside_an_async_op_costs_its_item() -> None:
    """Only the call itself is checked: a TypeError from the body is an ordinary exception."""

    async def op(item: Any) -> Any:
        return len(item)

    assert run(build_of(["a", 1, "bb"], lambda b: b.pipe(op))) == [1, 2]


def test_async_op_with_executor_is_refused() -> None:
    """Coroutines do not run in executors."""
    with ThreadPoolExecutor(1) as pool:
        for op in (double_async, AsyncDoubler(), twice_async, functools.partial(scale_async, 1)):
            with pytest.raises(ValueError, match="executor"):
                PipelineBuilder[Any, Any]().add_source([1]).pipe(op, executor=pool)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_concurrency_below_one_is_refused(concurrency: int) -> None:
    """The message names the argument and what was given."""
    with pytest.raises(ValueError, match=f"concurrency.*{concurrency}"):
        PipelineBuilder[Any, Any]().add_source([1]).pipe(double, concurrency=concurrency)


@pytest.mark.parametrize(("concurrency", "num_threads", "expected"), [(3, 8, 3), (8, 3, 3), (1, 8, 1)])
def test_calls_in_flight_are_as_many_as_allowed_and_no_more(concurrency: int, num_threads: int, expected: int) -> None:
    """Concurrency is a cap, and so is the number of threads; what is allowed is used."""
    lock = threading.Lock()
    running = most = 0
    full = threading.Event()

    def op(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == expected:
                full.set()
        await_event(full)
        with lock:
            running -= 1
        return item

    builder = build_of(range(40), lambda b: b.pipe(op, concurrency=concurrency))
    assert sorted(run(builder, num_threads=num_threads)) == list(range(40))
    assert most == expected


def test_async_calls_are_limited_by_concurrency_alone() -> None:
    """Calls on the loop need no thread: 16 wait at once in a pipeline of one thread, and never a 17th."""
    running = most = 0
    full: list[asyncio.Event] = []

    async def op(item: int) -> int:
        nonlocal running, most
        if not full:
            full.append(asyncio.Event())
        running += 1
        most = max(most, running)
        if running == 16:
            full[0].set()
        await asyncio.wait_for(full[0].wait(), TIMEOUT)
        await asyncio.sleep(0)
        running -= 1
        return item

    assert sorted(run(build_of(range(64), lambda b: b.pipe(op, concurrency=16)), num_threads=1)) == list(range(64))
    assert most == 16


def test_stages_share_few_threads_without_a_deadlock() -> None:
    """Five stages of concurrency 4 on one thread: every item comes out, in order, each stage on that thread."""
    threads = set()

    def op(item: int) -> int:
        threads.add(threading.get_ident())
        return item + 1

    def add(builder: PipelineBuilder[Any, Any]) -> None:
        for _ in range(5):
            builder.pipe(op, concurrency=4, output_order="input")

    assert run(build_of(range(50), add), num_threads=1) == [item + 5 for item in range(50)]
    assert threading.get_ident() not in threads


def test_threads_take_the_latest_stage_first() -> None:
    """With one thread and a full backlog, an item that has been through the first stage goes on before the next."""
    calls: list[tuple[str, int]] = []
    begun = threading.Event()
    filled = threading.Event()

    def source() -> Iterator[int]:
        yield 0
        await_event(begun)
        yield 1
        yield 2
        filled.set()

    def first(item: int) -> int:
        begun.set()
        await_event(filled)
        calls.append(("first", item))
        return item

    def second(item: int) -> int:
        calls.append(("second", item))
        return item

    assert run(build_of(source(), lambda b: b.pipe(first).pipe(second)), num_threads=1) == [0, 1, 2]
    assert calls == [(name, item) for item in range(3) for name in ("first", "second")]


def test_a_slow_stage_does_not_keep_threads_from_others() -> None:
    """One stage blocked with its whole concurrency leaves the other threads to the other stages."""
    release = threading.Event()
    seen = threading.Event()

    def blocked(item: int) -> int:
        if item == 0:
            await_event(release)
        return item

    def later(item: int) -> int:
        if item == 3:
            seen.set()
        return item

    builder = build_of(range(4), lambda b: b.pipe(blocked, concurrency=2).pipe(later), sink=4)
    with running(builder, num_threads=2) as pipeline:
        await_event(seen)  # with item 0 still blocked
        release.set()
        assert sorted(pipeline.get_iterator(timeout=TIMEOUT)) == [0, 1, 2, 3]


def test_disaggregate_gives_the_items_of_each_iterable() -> None:
    """Strings and dicts are iterated; what cannot be iterated is a failed item; an empty one gives nothing."""
    items = [[1, 2], "ab", {"k": 1}, 5, [], (x for x in (3, 4)), {7}]
    pipeline = build_of(items, lambda b: b.disaggregate()).build(num_threads=2)
    assert drain(pipeline) == ([1, 2, "a", "b", "k", 3, 4, 7], None)
    stage = pipeline.stats().stages[1]
    assert stage.num_failures == 1
    assert isinstance(stage.failures[0].error, TypeError)
    assert stage.failures[0].origin == 3


def test_disaggregate_drops_none_elements() -> None:
    """As with anything that is yielded: ``None`` filters, falsy values pass."""
    assert run(build_of([[0, None, ""], [None]], lambda b: b.disaggregate())) == [0, ""]


def test_disaggregate_keeps_what_an_iterable_gave_before_it_raised() -> None:
    """The rest of that iterable is lost, counted as one failure."""

    def broken() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("broken")

    pipeline = build_of([broken(), [3]], lambda b: b.disaggregate()).build(num_threads=2)
    assert drain(pipeline) == ([1, 2, 3], None)
    assert pipeline.stats().stages[1].num_failures == 1


def test_disaggregate_takes_an_endless_iterable_step_by_step() -> None:
    """It is not collected first."""
    with running(build_of([itertools.count()], lambda b: b.disaggregate())) as pipeline:
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(10)] == list(range(10))


def test_builds_of_one_builder_are_independent() -> None:
    """A ``range`` starts again with each build, at the same time too."""
    builder = build_of(range(3), lambda b: b.pipe(double))
    with running(builder) as one, running(builder) as other:
        assert one.get_item(timeout=TIMEOUT) == 0
        assert list(other.get_iterator(timeout=TIMEOUT)) == [0, 2, 4]
        assert list(one.get_iterator(timeout=TIMEOUT)) == [2, 4]


def test_builds_of_one_builder_share_a_generator() -> None:
    """A generator that one build has used up is empty for the next."""
    builder = build_of((item for item in range(3)), lambda b: b.pipe(double))
    assert run(builder) == [0, 2, 4]
    assert run(builder) == []


def test_a_builder_can_be_extended_after_a_build() -> None:
    """What was built keeps the stages it had."""
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).pipe(double).add_sink(3)
    before = builder.build(num_threads=1)
    builder.pipe(double)
    assert drain(before) == ([0, 2, 4], None)
    assert run(builder) == [0, 4, 8]


def test_a_builder_and_its_config_pickle_and_run() -> None:
    """If source and ops do; also with limits, orders and aggregates."""
    builder = build_of(
        range(4), lambda b: b.pipe(double, concurrency=2, output_order="input", max_failures=3).aggregate(3)
    )
    copy = pickle.loads(pickle.dumps(builder))
    assert run(copy) == [[0, 2, 4], [6]]
    config = pickle.loads(pickle.dumps(builder.get_config()))
    assert drain(build_pipeline(config, num_threads=1)) == ([[0, 2, 4], [6]], None)


def test_every_method_returns_the_builder() -> None:
    """Calls chain on one object."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    assert builder.add_source([1]) is builder
    assert builder.pipe(double) is builder
    assert builder.aggregate(1) is builder
    assert builder.disaggregate() is builder
    assert builder.path_variants(lambda item: 0, [[Pipe(double)]]) is builder
    assert builder.add_sink() is builder
    assert run(builder) == [4]


def test_a_pipeline_without_stages_passes_items() -> None:
    """Source and sink are enough; without one of them it is a structure error."""
    assert run(build_of([1, None, 2])) == [1, None, 2]
    with pytest.raises(PipelineStructureError, match="source") as raised:
        PipelineBuilder[Any, Any]().add_sink().build()
    assert isinstance(raised.value, RuntimeError)
    with pytest.raises(PipelineStructureError, match="sink"):
        PipelineBuilder[Any, Any]().add_source([]).build()
    with pytest.raises(PipelineStructureError, match="sink"):
        PipelineBuilder[Any, Any]().add_source([]).get_config()


def test_the_declarative_form_runs_like_the_fluent_one() -> None:
    """A hand-built config is a pipeline, with any sequence of stages."""
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(3)), (Pipe(double), Pipe(double_async)), SinkConfig(2)
    )
    assert drain(build_pipeline(config, num_threads=2)) == ([0, 4, 8], None)


@pytest.mark.parametrize("num_threads", [0, -1])
def test_no_threads_are_refused(num_threads: int) -> None:
    """The message names the argument and what was given."""
    with pytest.raises(ValueError, match=f"num_threads.*{num_threads}"):
        build_of([1]).build(num_threads=num_threads)


def test_the_number_of_threads_is_chosen_from_the_usable_cpus() -> None:
    """``None`` means a number that ``stats`` shows; a given one is taken as it is."""
    chosen: Pipeline[Any] = build_of([1]).build()
    assert chosen.stats().num_threads >= 1
    assert build_of([1]).build(num_threads=5).stats().num_threads == 5


def test_use_thread_output_queue_has_no_effect() -> None:
    """It is accepted for code that passes it."""
    assert run(build_of(range(3)), use_thread_output_queue=True) == [0, 1, 2]


def test_a_build_error_carries_the_config() -> None:
    """The note shows which pipeline could not be built."""
    with pytest.raises(TypeError) as raised:
        build_of([1], lambda b: b.pipe(double, name="the_stage")).build(max_failures=0.5)
    assert any("the_stage" in note for note in raised.value.__notes__)


def test_names_come_from_the_op() -> None:
    """Its ``__name__``, through ``partial``; else its class; ``__getitem__`` for containers."""
    builder = build_of(
        [0],
        lambda b: b.pipe(double).pipe(functools.partial(scale, 1)).pipe(Doubler()).pipe(Doubled()),
        lambda b: b.pipe(Doubler().method).pipe(double, name="mine"),
    )
    stages = builder.build(num_threads=1).stats().stages
    names = [stage.info.stage_name for stage in stages]
    assert names == ["src", "double", "scale", "Doubler", "__getitem__", "method", "mine", "sink"]


def test_a_failing_stage_lets_those_after_it_finish() -> None:
    """What was emitted before the failure comes out of every later stage; then the read raises, again and again."""
    pipeline = build_of(
        range(10), lambda b: b.pipe(picky_until(5), max_failures=0).pipe(double).pipe(double_async)
    ).build(num_threads=1)
    with pipeline.auto_stop():
        iterator = pipeline.get_iterator(timeout=TIMEOUT)
        assert [next(iterator) for _ in range(5)] == [0, 4, 8, 12, 16]
        for _ in range(2):
            with pytest.raises(PipelineFailure, match="pipeline stages failed"):
                next(iterator)


def picky_until(last: int) -> Callable[[int], int]:
    """Return an op that fails from ``last`` on."""

    def picky(item: int) -> int:
        if item >= last:
            raise ValueError(item)
        return item

    return picky
