"""``max_failures=Rate(...)``: how many of the newest calls of a stage may fail."""

import pickle
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, PipelineBuilder, Rate, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS
from tests.support.region_kinds import RegionKind
from tests.support.running import TIMEOUT, build_of, fail, run


class FailsAt:
    def __init__(self, *items: int) -> None:
        self.items = items

    def __call__(self, item: int) -> int:
        if item in self.items:
            raise ValueError(item)
        return item


def wanted(failing: list[int], num_items: int, most: int, per: int) -> int | None:
    """The item at which a window has too many failures."""
    for item in range(num_items):
        if sum(item - per < each <= item for each in failing) > most:
            return item
    return None


@pytest.mark.parametrize("where", ["build", "pipe"])
@pytest.mark.parametrize(
    ("failing", "rate"),
    [
        ([], Rate(0.1, per=10)),
        ([3, 14, 25, 36], Rate(0.1, per=10)),
        ([3, 13, 25], Rate(0.1, per=10)),
        ([3, 12], Rate(0.1, per=10)),
        ([0, 1, 2], Rate(Fraction(1, 5), per=10)),
        ([5, 20, 21, 22], Rate(1 / 10, per=20)),
        ([0], Rate(0.01, per=10)),
        ([5, 6, 7, 8, 9], Rate(1, per=2)),
        ([39], Rate(0.5, per=1)),
    ],
)
def test_the_newest_calls_are_counted(where: str, failing: list[int], rate: Rate) -> None:
    """More failures than allowed, anywhere, and from the first call on; older ones are forgotten."""
    options: dict[str, Any] = {"max_failures": rate} if where == "pipe" else {}
    builder = build_of(range(40), lambda b: b.pipe(FailsAt(*failing), name="op", **options), sink=50)
    build = {"max_failures": rate} if where == "build" else {}
    at = wanted(failing, 40, rate.most, rate.per)
    if at is None:
        assert run(builder, num_threads=1, **build) == [item for item in range(40) if item not in failing]
        return
    items, error = fail(builder, num_threads=1, **build)
    assert items == [item for item in range(at) if item not in failing]
    assert isinstance(error, FailureLimitError)
    assert error.limit == rate
    assert error.num_calls == at + 1
    assert str(rate) in str(error)
    assert error.__cause__ is not None
    assert error.__cause__.args == (at,)


def test_a_million_good_items_do_not_hide_that_a_source_went_bad() -> None:
    """A share of all calls would."""
    bad = range(2000, 2100)
    builder = build_of(range(2100), lambda b: b.pipe(FailsAt(*bad), name="op"))
    assert len(run(builder, max_failures=Fraction(1, 20))) == 2000
    items, error = fail(builder, num_threads=1, max_failures=Rate(1 / 20, per=100))
    assert len(items) == 2000
    assert error.num_failures == 6


def test_each_stage_has_a_window_of_its_own() -> None:
    """Failures of several stages do not add up."""
    builder = build_of(
        range(40), lambda b: b.pipe(FailsAt(3, 20), name="a"), lambda b: b.pipe(FailsAt(4, 21), name="b"), sink=50
    )
    assert len(run(builder, max_failures=Rate(0.1, per=10))) == 36
    _, error = fail(builder, max_failures=Rate(0.05, per=10))
    assert error.num_failures == 1


def test_one_percent_of_a_thousand_is_ten() -> None:
    """Although 1/100 is no binary fraction."""
    assert Rate(1 / 100, per=1000).most == 10
    assert Rate(0.07, per=100).most == 7
    assert Rate(0.29, per=100).most == 29
    assert Rate(Fraction(1, 3), per=10).most == 3
    assert Rate(0.5).per == 1000


def test_it_is_a_plain_value() -> None:
    """Frozen, equal by value, hashable; it pickles, and its repr says what it is."""
    rate = Rate(0.25, per=8)
    assert pickle.loads(pickle.dumps(rate)) == rate
    assert hash(rate) == hash(Rate(0.25, per=8))
    assert repr(rate) == "Rate(0.25, per=8)"
    assert "25.00% of the newest 8 calls" in str(rate)
    with pytest.raises(AttributeError):
        rate.per = 3  # type: ignore[misc]
    error = FailureLimitError("x", stage="1:1:op", num_failures=1, num_calls=2, limit=rate)
    assert pickle.loads(pickle.dumps(error)).limit == rate


@pytest.mark.parametrize(
    ("share", "per", "kind"),
    [
        (0, 10, ValueError),
        (1.5, 10, ValueError),
        (-0.1, 10, ValueError),
        (float("nan"), 10, ValueError),
        (0.5, 0, ValueError),
        (0.5, -3, ValueError),
        (0.5, 2.5, TypeError),
        ("0.5", 10, TypeError),
        (True, 10, ValueError),
        (None, 10, TypeError),
    ],
)
def test_what_is_no_rate_is_refused(share: Any, per: Any, kind: type[Exception]) -> None:
    """The message names the argument."""
    with pytest.raises(kind, match=r"share|per"):
        Rate(share, per=per)


@pytest.mark.slow
def test_regions_have_it(kind: RegionKind) -> None:
    """It goes along."""
    builder = PipelineBuilder().add_source(range(40)).to(kind.workers(1))
    builder.pipe(FailsAt(3, 5, 7)).to(MAIN_PROCESS).add_sink()
    _, error = fail(builder, max_failures=Rate(0.1, per=10))
    assert "of the newest 10 calls" in str(error)


@pytest.mark.slow
def test_subprocesses_have_it() -> None:
    """The same."""
    builder = PipelineBuilder().add_source(range(40)).pipe(FailsAt(3, 5, 7)).add_sink()
    with pytest.raises(RuntimeError, match="of the newest 10 calls"):
        list(run_pipeline_in_subprocess(builder, max_failures=Rate(0.1, per=10), timeout=TIMEOUT))
