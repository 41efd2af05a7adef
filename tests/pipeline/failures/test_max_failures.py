"""``max_failures``: when it trips, and what the error tells."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, PipelineBuilder, PipelineError, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.running import await_event, build_of, drain, fail, run


def failing_on(*items: int) -> Callable[[int], int]:
    """Return an op that fails on some items and passes the others."""

    def op(item: int) -> int:
        if item in items:
            raise ValueError(item)
        return item

    return op


def asynchronous(op: Callable[[int], int]) -> Any:
    """Return ``op`` for the loop."""

    async def op_async(item: int) -> int:
        return op(item)

    return op_async


def add(op: Any, **options: Any) -> Callable[[PipelineBuilder[Any, Any]], Any]:
    return lambda builder: builder.pipe(op, **options)


@pytest.mark.parametrize("limit", [-1, -7])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_negative_limit_never_trips(limit: int, is_async: bool) -> None:
    """All but one of the items fail, and the pipeline ends well; in ``build`` and in ``pipe``, where all may fail."""
    op: Any = failing_on(*range(1, 120))
    stage = add(asynchronous(op) if is_async else op)
    assert run(build_of(range(120), stage), max_failures=limit) == [0]
    assert run(build_of(range(1, 120), add(op, max_failures=limit)), max_failures=0) == []


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("where", ["build", "pipe"])
@pytest.mark.parametrize("kind", ["sync", "async", "ordered", "executor"])
def test_a_count_trips_at_the_failure_beyond_it(limit: int, where: str, kind: str) -> None:
    """With ``n`` allowed, the n+1-th failure ends the stage: nothing is called after it."""
    called: list[int] = []

    def op(item: int) -> int:
        called.append(item)
        if item % 2:
            raise ValueError(item)
        return item

    with ThreadPoolExecutor(1) as pool:
        options: dict[str, Any] = {"max_failures": limit} if where == "pipe" else {}
        if kind == "ordered":
            options["output_order"] = "input"
        if kind == "executor":
            options["executor"] = pool
        builder = build_of(range(100), add(asynchronous(op) if kind == "async" else op, name="odd", **options), sink=50)
        items, error = fail(builder, num_threads=2, max_failures=limit if where == "build" else -1)
    last = 2 * limit + 1
    assert items == list(range(0, last, 2))
    assert called == list(range(last + 1))
    assert isinstance(error, FailureLimitError)
    assert isinstance(error, PipelineError)
    assert isinstance(error, RuntimeError)
    assert (error.num_failures, error.num_calls, error.limit) == (limit + 1, last + 1, limit)
    assert error.stage.endswith(":1:odd")
    assert (
        f"The pipeline stage ({error.stage}) failed {limit + 1} times, which exceeds the threshold ({limit})."
        in str(error)
    )
    assert isinstance(error.__cause__, ValueError)
    assert error.__cause__.args == (last,)


@pytest.mark.parametrize("limit", [0, 2])
def test_exactly_as_many_failures_as_allowed_are_no_error(limit: int) -> None:
    """The limit must be exceeded."""
    builder = build_of(range(10), add(failing_on(*range(limit))))
    assert run(builder, max_failures=limit) == list(range(limit, 10))


@pytest.mark.parametrize(("num_failures", "trips_at"), [(51, 100), (50, None)])
def test_a_rate_is_looked_at_from_the_hundredth_call_on(num_failures: int, trips_at: int | None) -> None:
    """Half of the calls may fail: 51 of the first 100 trip it with the 100th; 50 do not, though the first 50 failed."""
    called: list[int] = []

    def op(item: int) -> int:
        called.append(item)
        return failing_on(*range(num_failures))(item)

    builder = build_of(range(100), add(op), sink=100)
    items, failure = drain(builder.build(num_threads=1, max_failures=Fraction(1, 2)))
    assert items == list(range(num_failures, 100))
    assert called == list(range(100))
    if trips_at is None:
        assert failure is None
        return
    assert failure is not None
    (error,) = failure.exceptions
    assert isinstance(error, FailureLimitError)
    assert (error.num_failures, error.num_calls, error.limit) == (51, 100, Fraction(1, 2))
    assert "failed 51 times" in str(error)
    assert "100 calls" in str(error)
    assert "51" in str(error)
    assert "50.00%" in str(error) or "50%" in str(error)


def test_a_rate_trips_at_a_success() -> None:
    """It is looked at when any call ends: here the 100th, a success, with more than a tenth failed before."""
    items, error = fail(
        build_of(range(200), add(failing_on(*range(11))), sink=200), num_threads=1, max_failures=Fraction(1, 10)
    )
    assert items == list(range(11, 100))
    assert (error.num_failures, error.num_calls) == (11, 100)
    assert error.__cause__.args == (10,)


def test_a_rate_trips_as_soon_as_it_is_exceeded_later() -> None:
    """Failures from item 100 on, a tenth allowed: the twelfth of 112 is the first beyond it."""
    items, error = fail(
        build_of(range(200), add(failing_on(*range(100, 200)), max_failures=Fraction(1, 10)), sink=200), num_threads=1
    )
    assert items == list(range(100))
    assert (error.num_failures, error.num_calls) == (12, 112)


def test_fewer_than_a_hundred_calls_never_trip_a_rate() -> None:
    """98 of 99 failed: too few to tell."""
    assert run(build_of(range(99), add(failing_on(*range(1, 99)))), max_failures=Fraction(1, 1000)) == [0]


def test_a_rate_of_one_never_trips() -> None:
    """Nothing exceeds it."""
    assert run(build_of(range(150), add(failing_on(*range(150)))), max_failures=Fraction(1, 1)) == []


@pytest.mark.parametrize("limit", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_fraction_out_of_range_is_refused(limit: Fraction) -> None:
    """By ``build`` for the pipeline's limit and for a stage's own."""
    with pytest.raises(ValueError, match=r"must be in range \(0, 1\]"):
        build_of([1], add(failing_on())).build(max_failures=limit)
    with pytest.raises(ValueError, match=r"must be in range \(0, 1\]"):
        build_of([1], add(failing_on(), max_failures=limit)).build()


@pytest.mark.parametrize("limit", [0.5, "1", [1], 1.0])
def test_other_types_of_limit_are_refused(limit: Any) -> None:
    """The message says what to use."""
    with pytest.raises(TypeError, match="Fraction"):
        build_of([1], add(failing_on())).build(max_failures=limit)
    with pytest.raises(TypeError, match="Fraction"):
        build_of([1], add(failing_on(), max_failures=limit)).build()


def test_none_is_no_limit_for_build() -> None:
    """``None`` in ``pipe`` means the pipeline's limit; ``build`` has no other to fall back on."""
    with pytest.raises(TypeError, match="Fraction"):
        build_of([1]).build(max_failures=None)


def test_failures_add_up_over_stages() -> None:
    """Two stages with one failure each exceed a limit of one, though neither does alone."""
    builder = build_of(range(6), add(failing_on(0), name="a"), add(failing_on(3), name="b"), sink=10)
    items, error = fail(builder, num_threads=1, max_failures=1)
    assert error.stage.endswith(":2:b")
    assert error.num_failures == 2
    assert error.__cause__.args == (3,)
    assert items == [1, 2]


def test_failures_in_paths_and_merged_pipelines_add_up_too() -> None:
    """All stages of the pipeline means all of them, one in a path and one before a merge."""

    def path(op: Any) -> list[Any]:
        return [Pipe(op)]

    below: PipelineConfig[Any] = PipelineConfig(SourceConfig([0, 1]), [Pipe(failing_on(0))], SinkConfig(1))
    config: PipelineConfig[Any] = PipelineConfig(
        Merge([below]),
        [*build_of([], lambda b: b.path_variants(lambda item: 0, [path(failing_on(1))])).get_config().pipes],
        SinkConfig(1),
    )
    items, failure = drain(build_pipeline(config, num_threads=1, max_failures=1))
    assert items == []
    assert failure is not None
    (error,) = failure.exceptions
    assert isinstance(error, FailureLimitError)
    assert error.num_failures == 2


def test_failures_of_disaggregate_count() -> None:
    """What cannot be iterated is a failed item like any other."""
    _, error = fail(build_of([1, 2, 3], lambda b: b.disaggregate()), max_failures=1)
    assert error.num_failures == 2
    assert isinstance(error.__cause__, TypeError)


def test_a_stage_with_a_limit_of_its_own_counts_its_own() -> None:
    """Failures of other stages do not count for it, and it does not trip at the pipeline's limit."""
    builder = build_of(range(8), add(failing_on(0, 1), max_failures=2), add(failing_on(3, 4), max_failures=2))
    assert run(builder, num_threads=1, max_failures=0) == [2, 5, 6, 7]
    builder = build_of(range(8), add(failing_on(0, 1)), add(failing_on(3, 4), max_failures=1, name="own"), sink=8)
    items, error = fail(builder, num_threads=1)
    assert items == [2]
    assert error.stage.endswith(":2:own")
    assert (error.num_failures, error.num_calls, error.limit) == (2, 3, 1)


def test_an_exempt_stage_still_adds_to_the_sum() -> None:
    """It never trips itself; the next stage does, by a success of its own, for the failures of the first."""
    passed = threading.Event()

    def exempt(item: int) -> int:
        if item in (1, 2):
            raise ValueError(item)
        if item == 3:
            passed.set()
        return item

    builder = build_of(
        range(10), add(exempt, max_failures=-1, name="exempt"), add(failing_on(), name="strict"), sink=10
    )
    items, error = fail(builder, num_threads=1, max_failures=1)
    assert error.stage.endswith(":2:strict")
    assert error.num_failures == 2
    assert error.__cause__.args == (2,)
    # Item 3 is the first success of the strict stage after the sum was beyond the limit: it is emitted.
    assert items == [0, 3]


def test_the_cause_is_the_failure_that_crossed_the_limit_whichever_stage_it_was() -> None:
    """The tripping stage has a failure of its own, but an older one."""
    builder = build_of(
        range(10),
        add(failing_on(3), max_failures=-1, name="exempt"),
        add(failing_on(1), name="strict"),
        sink=10,
    )
    items, error = fail(builder, num_threads=1, max_failures=1)
    assert error.stage.endswith(":2:strict")
    assert error.__cause__.args == (3,)
    assert items == [0, 2, 4]


def test_the_cause_is_found_downstream_of_the_tripping_stage_too() -> None:
    """The exempt stage comes after: its failure is the newest, whatever the order of the stages."""
    failed = threading.Event()

    def first(item: int) -> int:
        if item == 0:
            raise ValueError("first")
        if item == 3:
            await_event(failed)
        return item

    def exempt(item: int) -> int:
        if item == 2:
            failed.set()  # the failure of item 1 has been counted: this stage has one call at a time
            return item
        raise ValueError("exempt")

    builder = build_of(range(4), add(first, name="strict"), add(exempt, max_failures=-1), sink=10)
    _, error = fail(builder, num_threads=4, max_failures=1)
    assert error.stage.endswith(":1:strict")
    assert error.__cause__.args == ("exempt",)


@pytest.mark.parametrize("is_async", [False, True])
def test_each_step_of_a_generator_is_a_call(is_async: bool) -> None:
    """Four yields and the end are five calls, and the end is no failure: 20 items make the 100th call."""

    def op(item: int) -> Iterator[int]:
        if item >= 20:
            raise ValueError(item)
        for _ in range(4):
            yield item

    async def op_async(item: int) -> AsyncIterator[int]:
        for output in op(item):
            yield output

    op_any: Any = op_async if is_async else op
    # The first failing item is call 101; 1/101 is not beyond 1/100 … 2/102 is.
    items, error = fail(build_of(range(40), add(op_any), sink=100), num_threads=1, max_failures=Fraction(1, 100))
    assert items == [item for item in range(20) for _ in range(4)]
    assert (error.num_failures, error.num_calls) == (2, 102)
