"""``Pipe``: what an op may be, how it is recognised and named, and what the options accept."""

import functools
import inspect
import operator
import pickle
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future
from fractions import Fraction
from typing import Any

import pytest

from spdl._errors import InvalidOpError
from spdl.pipeline.defs import Pipe, PipeConfig, Retry


def sync_op(item: Any) -> Any:
    return item


async def async_op(item: Any) -> Any:
    return item


def generator_op(item: Any) -> Iterator[Any]:
    yield item


async def async_generator_op(item: Any) -> AsyncIterator[Any]:
    yield item


class SyncCallable:
    def __call__(self, item: Any) -> Any:
        return item


class AsyncCallable:
    async def __call__(self, item: Any) -> Any:
        return item


class GeneratorCallable:
    def __call__(self, item: Any) -> Iterator[Any]:
        yield item


class AsyncGeneratorCallable:
    async def __call__(self, item: Any) -> AsyncIterator[Any]:
        yield item


class Methods:
    def sync(self, item: Any) -> Any:
        return item

    async def run_async(self, item: Any) -> Any:
        return item

    def generate(self, item: Any) -> Iterator[Any]:
        yield item

    async def generate_async(self, item: Any) -> AsyncIterator[Any]:
        yield item

    @staticmethod
    async def static(item: Any) -> Any:
        return item

    @classmethod
    def of_class(cls, item: Any) -> Iterator[Any]:
        yield item

    bound_early = functools.partialmethod(run_async)


class StaticCall:
    @staticmethod
    async def __call__(item: Any) -> Any:
        return item


class ClassCall:
    @classmethod
    def __call__(cls, item: Any) -> Iterator[Any]:
        yield item


class CallByObject:
    __call__ = AsyncCallable()


class AsyncContainer:
    async def __getitem__(self, key: Any) -> Any:
        return key


class CallableContainer:
    def __call__(self, item: Any) -> Any:
        return item

    async def __getitem__(self, key: Any) -> Any:
        return key


class NoContainer:
    __getitem__ = None

    def __call__(self, item: Any) -> Any:
        return item


class OwnIndexer:
    """Has the attribute, but ``obj[key]`` does not work: Python looks at the class."""

    def __init__(self) -> None:
        self.__dict__["__getitem__"] = sync_op


class Hostile:
    """Nothing that it is asked about itself works."""

    def __repr__(self) -> str:
        raise RuntimeError("repr must not be called")

    __str__ = __repr__

    def __call__(self, item: Any) -> Any:
        return item


@functools.wraps(async_op)
def sync_around_async(item: Any) -> Any:
    return item


@functools.wraps(sync_op)
async def async_around_sync(item: Any) -> Any:
    return item


class NoExecutor(Executor):
    """An executor of the user's own that starts nothing."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (sync_op, "sync"),
        (async_op, "async"),
        (generator_op, "generator"),
        (async_generator_op, "async_generator"),
        (SyncCallable(), "sync"),
        (AsyncCallable(), "async"),
        (GeneratorCallable(), "generator"),
        (AsyncGeneratorCallable(), "async_generator"),
        (Methods().sync, "sync"),
        (Methods().run_async, "async"),
        (Methods().generate, "generator"),
        (Methods().generate_async, "async_generator"),
        (Methods.static, "async"),
        (Methods().of_class, "generator"),
        (Methods().bound_early, "async"),
        (StaticCall(), "async"),
        (ClassCall(), "generator"),
        (CallByObject(), "async"),
        (Methods.__dict__["static"], "async"),
        (SyncCallable, "sync"),
        (AsyncCallable, "sync"),
        (str, "sync"),
        (len, "sync"),
        ([].append, "sync"),
        (str.upper, "sync"),
        (operator.itemgetter(0), "sync"),
        (functools.lru_cache(sync_op), "sync"),
        (CallableContainer().__call__, "sync"),
        (NoContainer(), "sync"),
        (Hostile(), "sync"),
        (lambda item: item, "sync"),
    ],
)
@pytest.mark.parametrize("num_partials", [0, 1, 3])
def test_kind_of_op_is_recognised(op: Any, kind: str, num_partials: int) -> None:
    """How an op gives its outputs is seen through partials, methods and objects that can be called."""
    for _ in range(num_partials):
        op = functools.partial(op)
    assert Pipe(op)._kind == kind


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ([1, 2], "sync"),
        ({1: 2}, "sync"),
        ("text", "sync"),
        (AsyncContainer(), "async"),
        (CallableContainer(), "async"),
        (functools.partial(CallableContainer()), "sync"),
    ],
)
def test_kind_of_container_is_that_of_its_lookup(op: Any, kind: str) -> None:
    """What can be called too is a container, unless something that is called is put around it."""
    assert Pipe(op)._kind == kind


@pytest.mark.parametrize(("op", "kind"), [(sync_around_async, "sync"), (async_around_sync, "async")])
def test_what_a_decorator_returns_is_what_counts(op: Any, kind: str) -> None:
    """``functools.wraps`` copies names, not behaviour."""
    assert Pipe(op)._kind == kind


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inspect.markcoroutinefunction is new in Python 3.12")
def test_object_marked_as_async_is_async() -> None:
    """Wrappers say so by the mark of the standard library."""
    op = SyncCallable()
    inspect.markcoroutinefunction(op)  # type: ignore[attr-defined,unused-ignore]  # not before 3.12
    assert Pipe(op)._kind == "async"


def test_partial_flattened_by_subclass_is_seen_through() -> None:
    """A subclass of partial, which Python does not merge with an inner one, is looked through too."""

    class Own(functools.partial[Any]):
        pass

    assert Pipe(functools.partial(Own(functools.partial(generator_op))))._kind == "generator"


@pytest.mark.parametrize("op", [[10, 20], (10, 20), {0: 10, 1: 20}, range(10, 30, 10), b"\x0a\x14"])
def test_container_is_looked_up(op: Any) -> None:
    """The item is the key or index."""
    config = Pipe(op)
    assert config.name == "__getitem__"
    assert [config._op(0), config._op(1)] == [10, 20]


def test_callable_is_its_own_op() -> None:
    """What is called is what was given, not something around it."""
    op = functools.partial(SyncCallable())
    assert Pipe(op)._op is op


@pytest.mark.parametrize("op", [None, 5, object(), OwnIndexer(), 1.5])
def test_anything_else_is_no_op(op: Any) -> None:
    """The error is of both builtin types that callers catch, and shows class and address only."""
    with pytest.raises(InvalidOpError, match=f"got <{type(op).__name__} object at 0x"):
        Pipe(op)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (sync_op, "sync_op"),
        (functools.partial(functools.partial(sync_op)), "sync_op"),
        (SyncCallable(), "SyncCallable"),
        (functools.partial(SyncCallable()), "SyncCallable"),
        (SyncCallable, "SyncCallable"),
        (Methods().sync, "sync"),
        (len, "len"),
        (sync_around_async, "async_op"),
        (operator.itemgetter(0), "itemgetter"),
        (lambda item: item, "<lambda>"),
        ([1], "__getitem__"),
    ],
)
def test_name_is_that_of_the_op(op: Any, name: str) -> None:
    """Without a name given, a stage has the name of its op, or of its op's class."""
    assert Pipe(op).name == name


def test_given_name_wins() -> None:
    """A name that was given is used for containers too."""
    assert Pipe(sync_op, name="decode").name == "decode"
    assert Pipe([1], name="lookup").name == "lookup"


def test_object_whose_name_is_no_text_has_its_class_name() -> None:
    """A ``__name__`` that is not a string is not used."""
    op = SyncCallable()
    op.__name__ = 5  # type: ignore[attr-defined]  # what is tested
    assert Pipe(op).name == "SyncCallable"


def test_defaults() -> None:
    """One call at a time on the pipeline's threads, results as calls end, the pipeline's own limit."""
    config = Pipe(sync_op)
    assert (config._concurrency, config._executor, config._output_order) == (1, None, "completion")
    assert config._max_failures is None
    assert (config._isolate, config._retry, config._timeout) == (False, None, None)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_concurrency_below_one_is_refused(concurrency: int) -> None:
    """A stage without calls would never end."""
    with pytest.raises(ValueError, match=f"concurrency must be >= 1, got {concurrency}"):
        Pipe(sync_op, concurrency=concurrency)


@pytest.mark.parametrize("concurrency", [True, 1.5, "2", None])
def test_concurrency_must_be_an_int(concurrency: Any) -> None:
    """Neither bool nor anything else stands for a number of calls."""
    with pytest.raises(TypeError, match="concurrency must be an int"):
        Pipe(sync_op, concurrency=concurrency)


class Index:
    """An integer of another kind, as NumPy has them."""

    def __index__(self) -> int:
        return 4


def test_integers_of_other_kinds_become_ints() -> None:
    """What Python takes for an index is a whole number."""
    config = Pipe(sync_op, concurrency=Index(), max_failures=Index())  # type: ignore[arg-type]  # as NumPy's
    assert type(config._concurrency) is int
    assert (config._concurrency, config._max_failures) == (4, 4)


@pytest.mark.parametrize("order", ["INPUT", "", None, 1])
def test_unknown_output_order_is_refused(order: Any) -> None:
    """There are two orders."""
    with pytest.raises(ValueError, match="output_order must be 'completion' or 'input'"):
        Pipe(sync_op, output_order=order)


@pytest.mark.parametrize("op", [async_generator_op, AsyncGeneratorCallable(), functools.partial(async_generator_op)])
def test_async_generator_cannot_keep_input_order(op: Any) -> None:
    """What an async generator yields is emitted as it comes."""
    with pytest.raises(ValueError, match="output_order='input' does not work with an async generator"):
        Pipe(op, output_order="input")


@pytest.mark.parametrize("op", [sync_op, async_op, generator_op, [1]])
def test_other_kinds_can_keep_input_order(op: Any) -> None:
    """Every other kind of op does both orders."""
    assert Pipe(op, output_order="input")._output_order == "input"


@pytest.mark.parametrize("op", [async_op, async_generator_op, AsyncCallable(), AsyncContainer()])
def test_async_op_cannot_have_an_executor(op: Any) -> None:
    """Async ops run on the event loop, nowhere else."""
    with pytest.raises(ValueError, match="executor cannot be given with an async op"):
        Pipe(op, executor=NoExecutor())


@pytest.mark.parametrize("op", [sync_op, generator_op, SyncCallable(), [1]])
def test_sync_op_can_have_an_executor(op: Any) -> None:
    """Any executor will do, as it is."""
    executor = NoExecutor()
    assert Pipe(op, executor=executor)._executor is executor


@pytest.mark.parametrize("executor", [4, "threads", NoExecutor])
def test_executor_must_be_one(executor: Any) -> None:
    """A number of threads is no executor, and neither is a class of them."""
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor"):
        Pipe(sync_op, executor=executor)


def test_name_must_be_text() -> None:
    """A name is used in log lines and statistics."""
    with pytest.raises(TypeError, match="name must be a str, got 5"):
        Pipe(sync_op, name=5)  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("limit", [True, False, 0.5, 1.0, "3", (1, 2)])
def test_max_failures_of_another_type_points_to_fraction(limit: Any) -> None:
    """A float is a trap: 1.0 could mean one failure or all of them."""
    with pytest.raises(TypeError, match=r"max_failures must be an int .* or a fractions\.Fraction"):
        Pipe(sync_op, max_failures=limit)


@pytest.mark.parametrize("limit", [-1, 0, 7, Fraction(1, 3), Fraction(1), Fraction(3, 2)])
def test_max_failures_is_kept(limit: int | Fraction) -> None:
    """The range of a fraction is judged at build."""
    assert Pipe(sync_op, max_failures=limit)._max_failures == limit


@pytest.mark.parametrize("op", [async_op, async_generator_op, AsyncCallable(), AsyncContainer()])
def test_async_op_cannot_be_isolated(op: Any) -> None:
    """Async ops run on the event loop, nowhere else."""
    with pytest.raises(ValueError, match="isolate=True cannot be given with an async op"):
        Pipe(op, isolate=True)


def test_isolated_op_cannot_have_an_executor() -> None:
    """A stage runs in one place."""
    with pytest.raises(ValueError, match="isolate=True cannot be given with an executor"):
        Pipe(sync_op, isolate=True, executor=NoExecutor())


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_isolate_must_be_a_bool(value: Any) -> None:
    """A number of processes is what ``concurrency`` is for."""
    with pytest.raises(TypeError, match="isolate must be a bool"):
        Pipe(sync_op, isolate=value)


@pytest.mark.parametrize("seconds", [0, -1, 0.0, float("inf"), float("nan")])
def test_timeout_that_no_call_can_keep_is_refused(seconds: float) -> None:
    """No limit is ``None``, and a limit is above zero."""
    with pytest.raises(ValueError, match="timeout must be"):
        Pipe(sync_op, timeout=seconds)


@pytest.mark.parametrize("seconds", [True, "5", [1]])
def test_timeout_must_be_a_number(seconds: Any) -> None:
    """Neither bool nor text stands for seconds."""
    with pytest.raises(TypeError, match="timeout must be a number"):
        Pipe(sync_op, timeout=seconds)


@pytest.mark.parametrize(("given", "kept"), [(None, None), (3, Retry(3)), (Retry(2, delay=0), Retry(2, delay=0.0))])
def test_retry_is_a_number_of_attempts_or_all_of_it(given: Any, kept: Retry | None) -> None:
    """A number is short for ``Retry`` of it."""
    assert Pipe(sync_op, retry=given)._retry == kept


@pytest.mark.parametrize("value", [True, 1.5, "3", ValueError])
def test_retry_must_be_one_or_an_int(value: Any) -> None:
    """The message says what it can be."""
    with pytest.raises(TypeError, match="retry must be an int"):
        Pipe(sync_op, retry=value)


@pytest.mark.parametrize("attempts", [0, -1])
def test_less_than_one_attempt_is_refused(attempts: int) -> None:
    """The first call counts."""
    with pytest.raises(ValueError, match="retry must be >= 1"):
        Pipe(sync_op, retry=attempts)


@pytest.mark.parametrize(
    "op",
    [
        sync_op,
        async_op,
        generator_op,
        SyncCallable,
        len,
        [1, 2],
        {1: 2},
        "text",
        Methods.static,
        functools.partial(sync_op),
    ],
)
def test_config_pickles_if_the_op_does(op: Any) -> None:
    """A description can go to another process."""
    limits: dict[str, Any] = {"max_failures": Fraction(1, 2), "retry": Retry(3, on=OSError), "timeout": 1.5}
    config = Pipe(op, concurrency=2, name="x", output_order="input", **limits)
    restored = pickle.loads(pickle.dumps(config))
    assert isinstance(restored, PipeConfig)
    for field in ("name", "_kind", "_concurrency", "_executor", "_output_order", "_max_failures", "_retry", "_timeout"):
        assert getattr(restored, field) == getattr(config, field)


def test_container_still_looks_up_after_pickling() -> None:
    """The bound lookup travels with its container."""
    op: Callable[[Any], Any] = pickle.loads(pickle.dumps(Pipe({"a": 1})))._op
    assert op("a") == 1


def test_config_is_frozen() -> None:
    """Who holds a description can rely on it."""
    config = Pipe(sync_op)
    with pytest.raises(AttributeError):
        config.name = "x"  # type: ignore[misc]  # what is tested


def test_config_can_be_made_through_an_alias() -> None:
    """``PipeConfig`` is generic in its input and output."""
    alias = PipeConfig[int, str]
    assert alias("x", sync_op, "sync").name == "x"
