"""A stage of which every call fails: the pipeline fails, and never ends like one that had nothing to do."""

import os
import pickle
from collections.abc import AsyncIterator, Iterator
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import (
    NoSuccessError,
    PipelineBuilder,
    PipelineFailure,
    Rate,
    build_pipeline,
    run_pipeline_in_subprocess,
)
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Merge,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from tests.support.region_kinds import IN_PROCESSES, RegionKind
from tests.support.running import TIMEOUT, build_of, drain, fail, refuse, run


async def refuse_async(item: Any) -> Any:
    raise ValueError(item)


def refuse_some(item: Any) -> Iterator[Any]:
    yield refuse(item)


async def refuse_some_async(item: Any) -> AsyncIterator[Any]:
    yield refuse(item)


def even(item: int) -> int | None:
    return None if item % 2 else item


@pytest.mark.parametrize("op", [refuse, refuse_async, refuse_some, refuse_some_async])
@pytest.mark.parametrize("order", ["completion", "input"])
def test_a_stage_that_only_fails_is_a_failure(op: Any, order: Any) -> None:
    """The error names the stage, how many calls there were, and the newest exception."""
    if op is refuse_some_async and order == "input":
        pytest.skip("an async generator keeps no order")
    builder = build_of(range(7), lambda b: b.pipe(op, output_order=order, name="decode"), lambda b: b.aggregate(2))
    items, error = fail(builder, num_threads=1)
    assert items == []
    assert isinstance(error, NoSuccessError)
    assert error.stage.endswith(":1:decode")
    assert error.num_failures == 7
    assert f"all 7 calls of stage {error.stage} failed" in str(error)
    assert "ValueError: 6" in str(error)
    assert isinstance(error.__cause__, ValueError)
    same = pickle.loads(pickle.dumps(error))
    assert (str(same), same.stage, same.num_failures) == (str(error), error.stage, 7)


def test_one_success_is_enough() -> None:
    """Wherever it is."""
    for good in (0, 3, 6):

        def op(item: int, good: int = good) -> Any:
            return item if item == good else refuse(item)

        assert run(build_of(range(7), lambda b: b.pipe(op))) == [good]


def test_a_filter_succeeds_when_it_drops() -> None:
    """``None`` is a result."""

    def op(item: int) -> int | None:
        return None if item == 0 else refuse(item)

    assert run(build_of(range(7), lambda b: b.pipe(op))) == []
    assert run(build_of([], lambda b: b.pipe(refuse))) == []
    assert run(build_of([1, 3], lambda b: b.pipe(even), lambda b: b.pipe(refuse))) == []


def test_only_stages_that_had_work_are_judged() -> None:
    """Those behind have had none; one in front that failed in part is no cause."""
    items, error = fail(
        build_of(
            range(6),
            lambda b: b.pipe(lambda item: refuse(item) if item % 2 else item, name="first"),
            lambda b: b.pipe(refuse, name="second"),
            lambda b: b.pipe(refuse, name="third"),
        )
    )
    assert items == []
    assert error.stage.endswith(":second")
    assert error.num_failures == 3


@pytest.mark.parametrize("limit", [3, Fraction(1, 2), Rate(0.5), -1])
def test_a_limit_of_the_pipeline_that_is_not_exceeded_changes_nothing(limit: Any) -> None:
    """Nor does one of the stage that says how many may fail."""
    _, error = fail(build_of(range(3), lambda b: b.pipe(refuse)), max_failures=limit)
    assert isinstance(error, NoSuccessError)
    if limit != -1:
        _, error = fail(build_of(range(3), lambda b: b.pipe(refuse, max_failures=limit)))
        assert isinstance(error, NoSuccessError)


@pytest.mark.parametrize("limit", [-1, -3, Fraction(1), Rate(1)])
def test_a_limit_that_says_that_all_may_fail_is_taken_at_its_word(limit: Any) -> None:
    """The stage's own, or the pipeline's where it is not the default."""
    assert run(build_of(range(3), lambda b: b.pipe(refuse, max_failures=limit))) == []
    if not isinstance(limit, int):
        assert run(build_of(range(3), lambda b: b.pipe(refuse)), max_failures=limit) == []


def test_each_epoch_is_judged_alone() -> None:
    """The first epoch in which nothing works fails, in place of its end."""

    class Source:
        num_passes = 0

        def __iter__(self) -> Iterator[tuple[int, int]]:
            self.num_passes += 1
            return iter([(self.num_passes, k) for k in range(3)])

    def op(item: tuple[int, int]) -> Any:
        return refuse(item) if item[0] == 3 or item[1] == 0 else item

    builder: Any = PipelineBuilder().add_source(Source(), continuous=True).pipe(op).add_sink()
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == [(1, 1), (1, 2)]
        assert list(pipeline) == [(2, 1), (2, 2)]
        with pytest.raises(PipelineFailure) as info:
            list(pipeline)
    (error,) = info.value.exceptions
    assert isinstance(error, NoSuccessError)
    assert error.num_failures == 3


def test_a_path_may_have_had_one_rare_item() -> None:
    """It is no failure while anything comes out of the pipeline; without any output, it is."""

    def build(items: Any) -> Any:
        paths = [[Pipe(int)], [Pipe(refuse, name="rare")]]
        return build_of(items, lambda b: b.path_variants(lambda item: int(item > 5), paths))

    assert sorted(run(build(range(8)))) == [0, 1, 2, 3, 4, 5]
    items, error = fail(build([6, 7]))
    assert items == []
    assert isinstance(error, NoSuccessError)
    assert error.stage.endswith(":rare")


def test_a_branch_of_a_merge_is_judged() -> None:
    """The other's items come first."""
    good: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(5)), [Pipe(int)], SinkConfig(1))
    bad: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(5)), [Pipe(refuse, name="bad")], SinkConfig(1))
    items, failure = drain(build_pipeline(PipelineConfig(Merge([good, bad]), [], SinkConfig(3)), num_threads=2))
    assert items == [0, 1, 2, 3, 4]
    assert failure is not None
    assert [exc.stage.split(":")[2] for exc in failure.exceptions if isinstance(exc, NoSuccessError)] == ["bad"]


def test_a_source_that_broke_is_the_cause_alone() -> None:
    """Not all of the input has come: nobody can say that nothing works."""

    def source() -> Iterator[int]:
        yield 1
        raise LookupError("broken")

    _, error = fail(build_of(source(), lambda b: b.pipe(refuse)))
    assert type(error) is LookupError


def test_a_resumed_epoch_is_not_judged() -> None:
    """Its successes may have been before."""

    def op(item: int) -> int:
        return refuse(item) if item > 4 else item

    def build() -> Any:
        return build_of(list(range(7)), lambda b: b.pipe(op)).build(num_threads=1, resumable=True)

    first = build()
    with first.auto_stop():
        assert [first.get_item(timeout=TIMEOUT) for _ in range(5)] == [0, 1, 2, 3, 4]
        state = first.state_dict()
    second = build()
    second.load_state_dict(state)
    assert list(second) == []


def refuse_but_nine(item: int) -> int:
    if item != 9:
        raise ValueError(item)
    return item


@pytest.mark.slow
def test_regions_are_judged_over_all_of_their_workers(kind: RegionKind) -> None:
    """A worker that had only bad items is no failure; a region in which nothing worked is."""

    def build(source: Any) -> Any:
        builder = PipelineBuilder().add_source(source).to(kind.workers(2))
        return builder.pipe(refuse_but_nine).to(MAIN_PROCESS).add_sink()

    assert run(build(range(10))) == [9]
    _, error = fail(build(range(6)))
    assert isinstance(error, NoSuccessError)
    assert error.num_failures == 6
    assert "subprocess_pipeline(refuse_but_nine)" in error.stage


def die(item: int) -> int:
    os._exit(3)


@pytest.mark.slow
@IN_PROCESSES
def test_calls_that_end_their_workers_are_no_success(kind: RegionKind) -> None:
    """Although no worker could tell how they ended."""

    def build(**options: Any) -> Any:
        builder = PipelineBuilder().add_source(range(3)).to(kind.workers(1, restart=True))
        return builder.pipe(die, **options).to(MAIN_PROCESS).add_sink()

    _, error = fail(build())
    assert isinstance(error, NoSuccessError)
    assert error.num_failures == 3
    assert run(build(max_failures=-1)) == []


@pytest.mark.slow
def test_a_pipeline_in_a_subprocess_fails_here() -> None:
    """With the stage in the message."""
    builder = PipelineBuilder().add_source(range(4)).pipe(refuse_but_nine).add_sink()
    items = run_pipeline_in_subprocess(builder, num_threads=1, timeout=TIMEOUT)
    with pytest.raises(RuntimeError, match=r"all 4 calls of stage \d+:1:refuse_but_nine failed"):
        list(items)
