"""``Pipe``: what an op may be, and how it is recognised, named and pickled."""

import functools
import inspect
import operator
import pickle
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from spdl._errors import InvalidOpError
from spdl.pipeline.defs import Pipe, PipeConfig, Retry
from tests.pipeline.building.kinds import (
    AsyncCallable,
    AsyncContainer,
    AsyncGeneratorCallable,
    GeneratorCallable,
    SyncCallable,
    async_generator_op,
    async_op,
    generator_op,
    sync_op,
)


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
    with pytest.raises(InvalidOpError, match=rf"^op .*got <{type(op).__name__} object at 0x\w+>: give the fun"):
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
    limits: dict[str, Any] = {"max_failures": Fraction(1, 2), "retry": Retry(3, on=OSError), "call_timeout": 1.5}
    config = Pipe(op, concurrency=2, name="x", output_order="input", **limits)
    restored = pickle.loads(pickle.dumps(config))
    assert isinstance(restored, PipeConfig)
    for field in ("name", "_kind", "_concurrency", "_executor", "_output_order", "_max_failures", "_retry", "_timeout"):
        assert getattr(restored, field) == getattr(config, field)


def test_container_still_looks_up_after_pickling() -> None:
    """The bound lookup travels with its container."""
    op: Callable[[Any], Any] = pickle.loads(pickle.dumps(Pipe({"a": 1})))._op
    assert op("a") == 1
