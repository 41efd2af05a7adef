"""How regions start, or fail to: workers that have not come up yet, and processes that cannot be started."""

import gc
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure
from spdl.pipeline._engine._region._workers import Event, Then
from spdl.pipeline._remote._region_main import RegionSpec
from spdl.pipeline.defs import MAIN_PROCESS, ExecutorConfig


class _Away:
    """Workers that never come up, or whose start fails."""

    num_workers = 2
    may_replace = True
    may_resize = False
    waits_until_ready = True

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.woken = threading.Event()

    def start(self) -> None:
        if self.error is not None:
            raise self.error

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> Sequence[tuple[int, Exception]]:
        raise AssertionError("nobody is there")

    def wait(self) -> Sequence[Event]:
        self.woken.wait()
        return []

    def wake(self) -> None:
        self.woken.set()

    def replace(self, worker: int, done: Sequence[int]) -> None:
        raise AssertionError("none has died")

    def stop(self, timeout: float) -> Sequence[int]:
        return []

    def kill(self) -> None: ...

    def describe(self, worker: int) -> str:
        return f"worker {worker}"


@dataclass(frozen=True)
class _AwayConfig(ExecutorConfig):
    error: Exception | None = None

    def _build(self, spec: RegionSpec) -> _Away:
        return _Away(self.error)


def pipeline_of(target: ExecutorConfig) -> Pipeline[Any]:
    builder = PipelineBuilder().add_source(range(0)).to(target).pipe(abs).to(MAIN_PROCESS)
    return builder.add_sink().build(num_threads=1)


def test_a_stream_that_ends_before_the_workers_are_up_leaves_no_thread() -> None:
    """The dealing thread ends the stage itself, and then nobody is left to wake it."""
    pipeline = pipeline_of(_AwayConfig())
    with pipeline.auto_stop():
        assert list(pipeline) == []
    assert not [each.name for each in threading.enumerate() if each.name.startswith("spdl-")]


def failed_to_start(*, is_read: bool, error: Exception) -> "weakref.ref[Pipeline[Any]]":
    pipeline = pipeline_of(_AwayConfig(error=error))
    if is_read:
        with pytest.raises(PipelineFailure), pipeline.auto_stop():
            list(pipeline)
    else:
        pipeline.start()
    return weakref.ref(pipeline)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_pipeline_whose_region_could_not_start_is_collected(is_read: bool) -> None:
    """The engine keeps the error, and that must not keep the frames of the consumer."""
    reference = failed_to_start(is_read=is_read, error=OSError("no more processes"))
    gc.collect()
    assert reference() is None


def test_a_start_error_shows_where_it_came_from() -> None:
    """As a note: the traceback itself is dropped."""
    pipeline = pipeline_of(_AwayConfig(error=OSError("no more processes")))
    with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
        list(pipeline)
    (error,) = caught.value.exceptions
    assert any("in start\n" in note and "OSError: no more processes" in note for note in error.__notes__)
