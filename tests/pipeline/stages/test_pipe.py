"""What an op may be, and what becomes of its results and errors."""

import asyncio
import functools
import itertools
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import InvalidOpError, PipelineBuilder, PipelineFailure
from tests.support.doubling import Doubler
from tests.support.running import TIMEOUT, build_of, drain, fail, run


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


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        *itertools.product(["sync", "async", "generator", "executor"], ["completion", "input"]),
        ("async generator", "completion"),
    ],
)
def test_only_none_is_dropped(kind: str, order: Any) -> None:
    """Falsy results pass; ``None`` is how an op filters."""
    values: list[Any] = [0, None, "", [], None, {}, False, 0.0, b"", ()]

    async def identity_async(item: Any) -> Any:
        return item

    def yield_it(item: Any) -> Iterator[Any]:
        yield item

    async def yield_it_async(item: Any) -> AsyncIterator[Any]:
        yield item

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

    pipeline = build_of([Unprintable()], lambda b: b.pipe(refuse, max_failures=-1)).build(num_threads=1)
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

    pipeline = build_of(range(5), lambda b: b.pipe(two, max_failures=-1)).build(num_threads=2)  # type: ignore[arg-type,unused-ignore]
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
