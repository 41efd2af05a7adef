"""``build(on_failure=...)``: a callback gets each failed item."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.pipeline import FailureEvent, PipelineBuilder, RemoteOpError, run_pipeline_in_subprocess
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Merge,
    Pipe,
    PipelineConfig,
    Retry,
    SinkConfig,
    SourceConfig,
)
from tests.support.region_kinds import RegionKind
from tests.support.running import TIMEOUT, await_event, build_of, run, running


def odd_fails(item: Any) -> Any:
    if int(item) % 2:
        raise ValueError(f"odd: {item}")
    return item


async def odd_fails_async(item: Any) -> Any:
    await asyncio.sleep(0)
    return odd_fails(item)


def odd_fails_later(item: Any) -> Iterator[Any]:
    yield odd_fails(item)


@pytest.mark.parametrize("op", [odd_fails, odd_fails_async, odd_fails_later])
def test_it_gets_the_item_and_all_that_is_known(op: Any) -> None:
    """The object itself, the stage, the error, the attempts, and where it comes from."""
    items = [str(number) for number in range(6)]
    got: list[FailureEvent] = []
    builder = build_of(items, lambda b: b.pipe(op, name="load", retry=Retry(3, delay=0)))
    assert run(builder, on_failure=got.append, num_threads=1) == ["0", "2", "4"]
    assert [event.item is items[2 * k + 1] for k, event in enumerate(got)] == [True] * 3
    assert {event.stage for event in got} == {"load"}
    assert [str(event.error) for event in got] == ["odd: 1", "odd: 3", "odd: 5"]
    assert [event.attempts for event in got] == [3, 3, 3]
    assert all(event.seconds > 0 for event in got)
    assert [event.origin.positions for event in got if event.origin is not None] == [(1,), (3,), (5,)]
    assert [event.origin.keys for event in got if event.origin is not None] == [("1",), ("3",), ("5",)]
    assert {event.outcome for event in got} == {"dropped"}
    assert got[0].item_repr == "'1'"
    assert got[0].worker


def test_a_batch_has_all_of_its_keys() -> None:
    """Of an aggregate that failed as a whole."""
    got: list[FailureEvent] = []

    def collate(batch: list[str]) -> list[str]:
        if "c" in batch:
            raise ValueError
        return batch

    builder = build_of("abcd", lambda b: b.aggregate(2), lambda b: b.pipe(collate))
    assert run(builder, on_failure=got.append) == [["a", "b"]]
    assert got[0].origin is not None
    assert got[0].origin.keys == ("c", "d")
    assert got[0].item == ["c", "d"]


def test_it_is_called_without_the_lock() -> None:
    """It may look at the statistics, and another thread may read meanwhile."""
    builder = build_of(range(6), lambda b: b.pipe(odd_fails))
    seen: list[int] = []
    was_built = threading.Event()

    def look(event: FailureEvent) -> None:
        await_event(was_built)  # items are read ahead as soon as it has started
        asked = threading.Thread(target=lambda: seen.append(pipeline.stats().num_threads))
        asked.start()
        asked.join(TIMEOUT)
        assert not asked.is_alive()

    with running(builder, on_failure=look) as pipeline:
        was_built.set()
        assert list(pipeline) == [0, 2, 4]
    assert len(seen) == 3


def test_one_that_raises_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """Logged once, and called again."""
    num_calls = 0

    def broken(event: FailureEvent) -> None:
        nonlocal num_calls
        num_calls += 1
        raise SystemExit if num_calls == 1 else LookupError

    with running(build_of(range(6), lambda b: b.pipe(odd_fails)), on_failure=broken) as pipeline:
        assert list(pipeline) == [0, 2, 4]
    assert num_calls == 3
    assert pipeline.stats().stages[1].num_failures == 3
    assert len([record for record in caplog.records if "on_failure" in record.getMessage()]) == 1


def test_outcomes_and_cancelled_calls() -> None:
    """What goes on is told; what a stop discards is no failure."""
    got: list[FailureEvent] = []
    builder = build_of(range(6), lambda b: b.pipe(odd_fails, on_error=lambda item, error: -item))
    assert run(builder, on_failure=got.append) == [0, -1, 2, -3, 4, -5]
    assert {event.outcome for event in got} == {"substituted"}


def test_behind_a_merge_op_of_the_user_nobody_knows_the_origin() -> None:
    """The rest is there."""

    async def op(info: Any, queues: Any, output: Any) -> None:
        from spdl.pipeline import is_eof

        while not is_eof(item := await queues[0].get()):
            await output.put(str(item))

    got: list[FailureEvent] = []
    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(4)), [], SinkConfig(1))
    config: PipelineConfig[Any] = PipelineConfig(Merge([sub], op=op), [Pipe(odd_fails)], SinkConfig(1))
    from spdl.pipeline import build_pipeline

    with (pipeline := build_pipeline(config, on_failure=got.append)).auto_stop():
        assert list(pipeline) == ["0", "2"]
    assert [(event.item, event.origin) for event in got] == [("1", None), ("3", None)]


@pytest.mark.parametrize("given", [3, "log", odd_fails_async])
def test_what_is_no_function_is_refused(given: Any) -> None:
    """When built."""
    with pytest.raises(TypeError, match="on_failure must"):
        build_of(range(3)).build(on_failure=given)


@pytest.mark.slow
def test_isolated_stages_tell_too() -> None:
    """In this process."""
    got: list[FailureEvent] = []
    builder = build_of("0123", lambda b: b.pipe(odd_fails, isolate=True, retry=Retry(2, delay=0)))
    assert run(builder, on_failure=got.append) == ["0", "2"]
    assert [(event.item, event.attempts) for event in got] == [("1", 2), ("3", 2)]
    assert isinstance(got[0].error, RemoteOpError)


@pytest.mark.slow
def test_regions_tell_too(kind: RegionKind) -> None:
    """In this process; the item of a region stays in its worker."""
    got: list[FailureEvent] = []
    builder = PipelineBuilder().add_source("0123").to(kind.workers(1))
    builder.pipe(odd_fails, retry=Retry(2, delay=0)).to(MAIN_PROCESS).add_sink()
    assert run(builder, on_failure=got.append) == ["0", "2"]
    assert [(event.item, event.item_repr, event.attempts, event.stage) for event in got] == [
        (None, "'1'", 2, "odd_fails"),
        (None, "'3'", 2, "odd_fails"),
    ]
    assert [event.origin.keys for event in got if event.origin is not None] == [("1",), ("3",)]
    assert ("pid" in got[0].worker) == (kind.name != "threads")


def log_it(event: FailureEvent) -> None:
    logging.getLogger(__name__).error("told of %s", event.item)
    raise RuntimeError("in the subprocess")


@pytest.mark.slow
def test_a_pipeline_in_a_subprocess_takes_its_callback_along() -> None:
    """Where it raises, it does no harm either."""
    builder = PipelineBuilder().add_source(range(4)).pipe(odd_fails).add_sink()
    assert list(run_pipeline_in_subprocess(builder, on_failure=log_it, timeout=TIMEOUT)) == [0, 2]
