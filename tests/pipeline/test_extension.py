"""A kind of stage and a lane that are defined outside of the package's tables."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline._engine._channel import Channel
from spdl.pipeline._engine._core import Core
from spdl.pipeline._engine._ending import Joining
from spdl.pipeline._engine._graph import KINDS
from spdl.pipeline._engine._graph_builder import GraphBuilder
from spdl.pipeline._engine._lane import CallLane, OpenCall
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._thread import EngineThread, Task
from spdl.pipeline._engine._ticket import CallSource, Ticket
from spdl.pipeline._remote._run_pipeline import find_unpicklable_part
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    PathStage,
    PathVariants,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)
from tests.support.timeouts import TIMEOUT


class OneThread(CallLane):
    """A lane with one thread, which takes a call whenever there is one."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.source: CallSource | None = None
        self.thread: EngineThread | None = None
        self.may_claim = threading.Condition(engine.lock)
        self.told: list[str] = []

    def add(self, source: CallSource) -> None:
        self.source = source

    def offer(self, source: CallSource) -> None:
        self.may_claim.notify()

    def cancel_calls(self, source: CallSource) -> None:
        self.told.append("cancel_calls")

    def prepare(self) -> None:
        self.told.append("prepare")

    def start(self) -> None:
        self.told.append("start")
        self.thread = EngineThread("one-thread", Task(self.engine.thread_died, self._run_all))
        self.thread.start()

    def request_stop(self) -> None:
        self.told.append("request_stop")

    def stop(self) -> None:
        self.told.append("stop")
        self.stopping = True
        self.may_claim.notify()

    def join(self, joining: Joining) -> None:
        self.told.append("join")
        joining.thread(self.thread)

    def open_calls(self) -> list[OpenCall]:
        ticket = None if self.thread is None else self.thread.ticket
        return [] if ticket is None else [OpenCall(ticket)]

    def forget(self) -> None:
        self.told.append("forget")
        self.source = None

    def _run_all(self, thread: EngineThread) -> None:
        source, clock = self.source, self.engine.clock
        assert source is not None
        while True:
            with self.engine.lock:
                self.may_claim.wait_for(lambda: self.stopping or source.ready())
                if self.stopping:
                    return
                ticket: Ticket | None = source.take(clock())
            while ticket is not None:
                thread.ticket = ticket
                source.run(ticket)
                thread.ticket = None
                with self.engine.lock:
                    source.finish(ticket, clock())
                ticket = None


@dataclass(frozen=True)
class TimesConfig(PathStage):
    """A description: multiply by a factor."""

    factor: Any
    name: str = "times"
    lanes: list[OneThread] = field(default_factory=list, compare=False)  # those made for it

    def _pickled_parts(self) -> Iterator[tuple[str, Any]]:
        yield "the factor", self.factor


def add_times(graph: GraphBuilder, config: TimesConfig, tail: Channel, out: Channel) -> None:
    info = graph.info(config.name)
    lane = graph.engine.add_lane(OneThread(graph.engine))
    config.lanes.append(lane)
    stage = CallStage(
        graph.engine, info, lambda item: item * config.factor, limit=1, lane=lane, location="test_extension"
    )
    lane.add(stage)
    graph.add(stage, [tail], [out], graph.wire(info, "stage", out.capacity))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> TimesConfig:
    monkeypatch.setitem(KINDS.stages, TimesConfig, add_times)
    return TimesConfig(3)


def config_of(*stages: Any, num_items: int = 4) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(range(num_items)), stages, SinkConfig(2))


def test_a_kind_from_outside_runs_on_its_lane(times: TimesConfig) -> None:
    """It needs an entry in the table of kinds, and the engine takes care of its lane."""
    pipeline = build_pipeline(config_of(times))
    with pipeline.auto_stop(timeout=TIMEOUT):
        assert list(pipeline) == [0, 3, 6, 9]
    (lane,) = times.lanes
    assert list(dict.fromkeys(lane.told)) == ["prepare", "start", "stop", "join", "forget"]
    assert lane.thread is not None
    assert not lane.thread.is_alive()


def test_a_kind_from_outside_has_statistics(times: TimesConfig) -> None:
    """They are counted for every node."""
    pipeline = build_pipeline(config_of(times))
    with pipeline.auto_stop(timeout=TIMEOUT):
        assert len(list(pipeline)) == 4
    (stage,) = (stage for stage in pipeline.stats().stages if stage.info.stage_name == "times")
    assert (stage.num_calls, stage.num_emitted) == (4, 4)


def test_a_stop_ends_a_lane_from_outside(times: TimesConfig) -> None:
    """Before the source has ended: the lane is told in the order of the contract."""
    pipeline = build_pipeline(config_of(times, num_items=1000))
    with pipeline.auto_stop(timeout=TIMEOUT):
        assert pipeline.get_item(timeout=TIMEOUT) == 0
    (lane,) = times.lanes
    told = list(dict.fromkeys(lane.told))
    assert told[:3] == ["prepare", "start", "cancel_calls"]
    assert set(told[3:5]) == {"request_stop", "stop"}
    assert told[5:] == ["join", "forget"]


def test_a_call_on_a_lane_from_outside_is_named_when_it_does_not_return(times: TimesConfig) -> None:
    """The lane reports it, as any other."""
    entered, gate = threading.Event(), threading.Event()

    class Blocking:
        def __rmul__(self, item: int) -> int:
            entered.set()
            assert gate.wait(TIMEOUT)
            return item

    config = TimesConfig(Blocking(), name="stuck")
    pipeline = build_pipeline(config_of(config))
    pipeline.start(timeout=TIMEOUT)
    assert entered.wait(TIMEOUT)
    try:
        with pytest.raises(TimeoutError, match=r"stuck.*on item 0"):
            pipeline.stop(timeout=0.01)
    finally:
        gate.set()
        (lane,) = config.lanes
        assert lane.thread is not None
        lane.thread.join(TIMEOUT)


def test_a_kind_from_outside_can_stand_in_a_path(times: TimesConfig) -> None:
    """A description that is a ``PathStage`` may."""
    pipeline = build_pipeline(config_of(PathVariants(lambda item: item % 2, [[times], [times, times]])))
    with pipeline.auto_stop(timeout=TIMEOUT):
        assert sorted(pipeline) == [0, 6, 9, 27]


def test_a_kind_from_outside_says_what_has_to_pickle() -> None:
    """A pipeline that is moved to a process names the part that does not."""
    config = config_of(TimesConfig(lambda: 3))
    found = find_unpicklable_part(config, {})
    assert found is not None
    assert "the factor" in found


def test_a_kind_from_outside_can_refuse_regions(times: TimesConfig) -> None:
    """The check is a method of the description."""

    class AtHome(TimesConfig):
        def _check_in_region(self, region: object) -> None:
            raise ValueError(f"{self.name} cannot run in {region!r}")

    stages = [PlacementConfig(ProcessPoolExecutorConfig(1)), AtHome(3), PlacementConfig(MAIN_PROCESS)]
    with pytest.raises(ValueError, match="times cannot run in placement"):
        build_pipeline(config_of(*stages))


def test_a_description_without_a_kind_is_refused() -> None:
    """With its class missing in the table, the build says what it does not know."""
    with pytest.raises(TypeError, match="not a stage description"):
        build_pipeline(config_of(TimesConfig(3)))


def test_a_kind_from_outside_mixes_with_the_others(times: TimesConfig) -> None:
    """The builder's stages before it and after it."""
    before = PipelineBuilder().add_source(range(4)).pipe(lambda item: item + 1).add_sink().get_config()
    after = PipelineBuilder().add_source(range(4)).aggregate(2).add_sink().get_config()
    pipeline = build_pipeline(config_of(*before.pipes, times, *after.pipes))
    with pipeline.auto_stop(timeout=TIMEOUT):
        assert list(pipeline) == [[3, 6], [9, 12]]
