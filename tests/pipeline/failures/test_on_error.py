"""``pipe(on_error=...)``: what goes on in place of the output of a call that failed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure, StageTimeoutError, TaskHook
from spdl.pipeline.defs import MAIN_PROCESS, Pipe
from tests.support.region_kinds import RegionKind
from tests.support.running import TIMEOUT, build_of, drain, fail, run, running


def odd_fails(item: int) -> int:
    if item % 2:
        raise ValueError(f"odd: {item}")
    return item


async def odd_fails_async(item: int) -> int:
    await asyncio.sleep(0)
    return odd_fails(item)


def odd_fails_later(item: int) -> Iterator[int]:
    yield item * 10
    yield odd_fails(item)


async def odd_fails_later_async(item: int) -> AsyncIterator[int]:
    yield item * 10
    yield odd_fails(item)


def negative(item: int, error: Exception) -> int:
    assert "odd" in str(error)
    return -item


OPS = [odd_fails, odd_fails_async, odd_fails_later, odd_fails_later_async]


def expected_of(op: Any, substitute: Callable[[int], Any]) -> list[Any]:
    found: list[Any] = []
    for item in range(20):
        if "later" in op.__name__:
            found.append(item * 10)
        if item % 2 == 0:
            found.append(item)
        elif substitute(item) is not None:
            found.append(substitute(item))
    return found


class Hook(TaskHook):
    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("hooked", [False, True])
def test_a_substitute_goes_on_in_place_of_the_output(op: Any, order: Any, hooked: bool) -> None:
    """Of any kind of op; what a generator gave before stays. It is counted, and the item is consumed."""
    if op is odd_fails_later_async and order == "input":
        pytest.skip("an async generator keeps no order")
    builder = build_of(range(20), lambda b: b.pipe(op, concurrency=3, output_order=order, on_error=negative))
    hooks: Any = (lambda info: [Hook()]) if hooked else None
    with running(builder, task_hook_factory=hooks) as pipeline:
        found = list(pipeline.get_iterator(timeout=TIMEOUT))
    expected = expected_of(op, lambda item: -item)
    assert (found if order == "input" else sorted(found)) == (expected if order == "input" else sorted(expected))
    stage = pipeline.stats().stages[1]
    assert (stage.num_failures, stage.num_substituted, stage.num_emitted) == (10, 10, len(expected))
    assert {failure.outcome for failure in stage.failures} == {"substituted"}
    assert not pipeline._engine.ledger.pending


@pytest.mark.parametrize("op", OPS)
def test_no_substitute_drops_the_item(op: Any) -> None:
    """A function that returns ``None`` is like "skip"."""
    builder = build_of(range(20), lambda b: b.pipe(op, on_error=lambda item, error: None))
    with running(builder) as pipeline:
        assert sorted(pipeline) == sorted(expected_of(op, lambda item: None))
    stage = pipeline.stats().stages[1]
    assert (stage.num_failures, stage.num_substituted) == (10, 0)
    assert stage.failures[-1].outcome == "dropped"
    assert not pipeline._engine.ledger.pending


@pytest.mark.parametrize("op", OPS)
def test_raise_fails_the_pipeline_with_the_exception_itself(op: Any) -> None:
    """What came before stays; the item is not consumed, so that a resumed pipeline tries it again."""
    builder = build_of(range(20), lambda b: b.pipe(op, on_error="raise", name="load"))
    pipeline = builder.build(num_threads=1)
    items, failure = drain(pipeline)
    assert items == expected_of(op, lambda item: None)[: len(items)]
    assert items
    assert failure is not None
    (error,) = failure.exceptions
    assert type(error) is ValueError
    assert str(error) == "odd: 1"
    assert any("Pipeline stage:" in note and "load" in note for note in error.__notes__)
    assert pipeline.stats().stages[1].failures[-1].outcome == "raised"
    assert 1 in pipeline._engine.ledger.pending


@pytest.mark.parametrize("op", OPS)
def test_a_function_that_raises_is_the_failure_of_the_call(op: Any) -> None:
    """With the op's exception as its cause; the stage goes on."""

    def refuse(item: int, error: Exception) -> int:
        raise LookupError(f"no substitute for {item}")

    with running(build_of(range(20), lambda b: b.pipe(op, on_error=refuse))) as pipeline:
        assert sorted(pipeline) == sorted(expected_of(op, lambda item: None))
    failure = pipeline.stats().stages[1].failures[-1]
    assert type(failure.error) is LookupError
    assert type(failure.error.__cause__) is ValueError
    assert failure.outcome == "dropped"


def test_a_function_may_raise_what_it_got() -> None:
    """The item fails as it would have without a function."""

    def only_three(item: int, error: Exception) -> int:
        if item == 3:
            return 30
        raise error

    with running(build_of(range(6), lambda b: b.pipe(odd_fails, on_error=only_three))) as pipeline:
        assert list(pipeline) == [0, 2, 30, 4]
    assert [str(failure.error) for failure in pipeline.stats().stages[1].failures] == ["odd: 1", "odd: 3", "odd: 5"]


def test_a_function_that_exits_fails_the_stage() -> None:
    """As an op does that exits."""

    def leave(item: int, error: Exception) -> int:
        raise SystemExit(3)

    _, error = fail(build_of(range(4), lambda b: b.pipe(odd_fails, on_error=leave)))
    assert isinstance(error.__cause__, SystemExit)
    assert "on_error of stage" in str(error)


def test_executors_and_timeouts_have_substitutes() -> None:
    """The function runs here, wherever the op ran."""
    gate = threading.Event()

    def stuck(item: int) -> int:
        if item == 1:
            gate.wait(TIMEOUT)
        return item

    with ThreadPoolExecutor(3) as pool:
        builder = build_of(range(6), lambda b: b.pipe(odd_fails, executor=pool, on_error=negative))
        assert sorted(run(builder)) == [-5, -3, -1, 0, 2, 4]
        errors: list[Exception] = []

        def late(item: int, error: Exception) -> int:
            errors.append(error)
            return -item

        try:
            builder = build_of(range(3), lambda b: b.pipe(stuck, call_timeout=0.02, on_error=late))
            assert sorted(run(builder)) == [-1, 0, 2]
        finally:
            gate.set()
    assert [type(error) for error in errors] == [StageTimeoutError]


@pytest.mark.slow
def test_isolated_stages_have_substitutes() -> None:
    """Made in this process."""
    builder = build_of(range(6), lambda b: b.pipe(odd_fails, isolate=True, on_error=lambda item, error: -item))
    with running(builder) as pipeline:
        assert list(pipeline) == [0, -1, 2, -3, 4, -5]
    assert pipeline.stats().stages[1].num_substituted == 3


@pytest.mark.slow
def test_regions_have_substitutes(kind: RegionKind) -> None:
    """Made in their workers."""
    builder = PipelineBuilder().add_source(range(6)).to(kind.workers(1))
    builder.pipe(odd_fails, on_error=negative).to(MAIN_PROCESS).add_sink()
    with running(builder) as pipeline:
        assert list(pipeline) == [0, -1, 2, -3, 4, -5]
    stage = pipeline.stats().stages[1]
    assert (stage.num_failures, stage.num_substituted) == (3, 3)
    assert stage.failures[0].outcome == "substituted"


def test_random_numbers_do_not_change_what_the_function_gets() -> None:
    """The item is the item, although it travels with its place."""
    got: list[Any] = []

    def op(item: int, *, rng: Any) -> int:
        raise ValueError

    def note(item: Any, error: Exception) -> int:
        got.append(item)
        return -1

    builder = build_of(range(3), lambda b: b.pipe(op, rng=True, on_error=note))
    assert run(builder) == [-1, -1, -1]
    assert got == [0, 1, 2]


def test_paths_have_substitutes_and_may_raise() -> None:
    """As any stage."""
    path = [Pipe(odd_fails, on_error=negative)]
    builder = build_of(range(6), lambda b: b.path_variants(lambda item: item % 2, [[Pipe(int)], path]))
    assert sorted(run(builder)) == [-5, -3, -1, 0, 2, 4]
    path = [Pipe(odd_fails, on_error="raise")]
    builder = build_of(range(6), lambda b: b.path_variants(lambda item: item % 2, [[Pipe(int)], path]))
    _, error = fail(builder)
    assert type(error) is ValueError


def test_the_limit_counts_substituted_calls() -> None:
    """A call that failed has failed."""
    items, error = fail(
        build_of(range(20), lambda b: b.pipe(odd_fails, on_error=negative, max_failures=2), sink=50), num_threads=1
    )
    assert items == [0, -1, 2, -3, 4, -5]
    assert error.num_failures == 3


def test_origins_tell_which_outputs_are_substitutes() -> None:
    """The failure is among those of the output's origin."""
    pipeline = build_of(range(4), lambda b: b.pipe(odd_fails, on_error=negative), lambda b: b.aggregate(2)).build()
    found = [
        (batch, [(failure.outcome, str(failure.error)) for failure in origin.failures])
        for batch, origin in pipeline.with_origins()
    ]
    assert found == [([0, -1], [("substituted", "odd: 1")]), ([2, -3], [("substituted", "odd: 3")])]


async def later(item: int, error: Exception) -> int:
    return 1


@pytest.mark.parametrize(
    ("value", "kind"),
    [("stop", ValueError), (3, TypeError), (None, TypeError), (later, ValueError), (odd_fails_later, ValueError)],
)
def test_what_is_neither_a_word_nor_a_function_is_refused(value: Any, kind: type[Exception]) -> None:
    """The message says what is accepted."""
    with pytest.raises(kind, match=r"on_error must be 'skip', 'raise', or a function \(item, error\)"):
        Pipe(odd_fails, on_error=value)


def test_the_description_shows_it() -> None:
    """In the repr; a shared default is not shown."""
    assert "on_error=" not in repr(Pipe(odd_fails))
    assert "on_error='raise'" in repr(Pipe(odd_fails, on_error="raise"))
    assert "negative" in repr(Pipe(odd_fails, on_error=negative))


def test_a_substitute_for_everything_is_no_empty_end() -> None:
    """Every call failed, and every one was dealt with."""
    builder = build_of([1, 3, 5], lambda b: b.pipe(odd_fails, on_error=negative, max_failures=Fraction(1)))
    assert run(builder) == [-1, -3, -5]
    assert run(build_of([1, 3, 5], lambda b: b.pipe(odd_fails, on_error=negative))) == [-1, -3, -5]
    with pytest.raises(PipelineFailure):
        run(build_of([1, 3, 5], lambda b: b.pipe(odd_fails, on_error=lambda item, error: None)))
