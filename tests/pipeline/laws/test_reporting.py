"""Whatever users' code raises, wherever, and whatever goes wrong as it is reported: the pipeline ends and accounts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import InternalError, Pipeline, PipelineFailure, build_pipeline
from spdl.pipeline.defs import (
    MergeConfig,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from tests.pipeline.laws.places import COSTS_AN_ITEM, NUM_ITEMS, PLACES, Plan, Trouble
from tests.strategies.hostile import EXCEPTIONS, LOGS, Unspeakable, hostile_log
from tests.strategies.profiles import cases
from tests.strategies.watch import BOUND, bounded, nothing_left


def read_all(pipeline: Pipeline[Any]) -> tuple[list[Any], PipelineFailure | None]:
    """What comes out, up to the end or the failure."""
    found = []
    with bounded("get_item()"):
        while True:
            try:
                found.append(pipeline.get_item(timeout=BOUND))
            except EOFError:
                return found, None
            except PipelineFailure as failure:
                return found, failure


def check(
    place: Callable[[Plan], None],
    exception: str,
    every: int,
    log: str,
    hostile_items: bool,
    concurrency: int,
    order: Any,
) -> None:
    items: list[Any] = [Unspeakable(n) if hostile_items else n for n in range(NUM_ITEMS)]
    with nothing_left(), ExitStack() as stack:
        plan = Plan(Trouble(EXCEPTIONS[exception], every), items, concurrency, order)
        place(plan)
        if plan.with_executor is not None:
            stack.enter_context(plan.with_executor)
        src = plan.source if isinstance(plan.source, MergeConfig) else SourceConfig(plan.source)
        config: PipelineConfig[Any] = PipelineConfig(src, plan.stages, SinkConfig(2))
        pipeline = build_pipeline(config, num_threads=2, **plan.build)
        with hostile_log(log):
            found, failure = read_all(pipeline)
            stats = pipeline.stats()
            try:
                with bounded("stop()"):
                    pipeline.stop(timeout=BOUND)
            except PipelineFailure:
                pass
        for error in failure.exceptions if failure is not None else ():
            assert not isinstance(error, InternalError), error.__cause__
        if failure is None and place in COSTS_AN_ITEM:
            num_failed = sum(stage.num_failures for stage in stats.stages)
            assert num_failed == plan.trouble.num_raised
            assert len(found) + num_failed == NUM_ITEMS


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_any_exception_anywhere_ends_the_pipeline(place: Callable[[Plan], None]) -> None:
    """Raised at the second call: items before it come out, and every one is accounted for."""
    for exception in EXCEPTIONS:
        check(place, exception, 2, "well", False, 2, "completion")


@cases(400)
@given(
    place=st.sampled_from(PLACES),
    exception=st.sampled_from(sorted(EXCEPTIONS)),
    every=st.integers(1, 4),
    log=st.sampled_from(LOGS),
    hostile_items=st.booleans(),
    concurrency=st.integers(1, 3),
    order=st.sampled_from(["completion", "input"]),
)
def test_no_failure_to_report_is_a_failure_of_the_engine(
    place: Callable[[Plan], None],
    exception: str,
    every: int,
    log: str,
    hostile_items: bool,
    concurrency: int,
    order: Any,
) -> None:
    """The same where the log raises too, and items cannot be shown."""
    check(place, exception, every, log, hostile_items, concurrency, order)
