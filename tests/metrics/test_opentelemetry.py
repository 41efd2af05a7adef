"""``spdl.metrics.opentelemetry``: what a reader collects."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from spdl import metrics
from spdl.pipeline import Pipeline, PipelineBuilder

sdk = pytest.importorskip("opentelemetry.sdk.metrics")
export = pytest.importorskip("opentelemetry.sdk.metrics.export")


@pytest.fixture
def reader() -> Iterator[Any]:
    found = export.InMemoryMetricReader()
    provider = sdk.MeterProvider([found], shutdown_on_exit=False)
    metrics.opentelemetry(provider.get_meter("test"))
    yield found
    provider.shutdown()


def collected(reader: Any, name: str, number: int) -> dict[str | None, float]:
    """The values of one instrument for one pipeline, by stage."""
    data = reader.get_metrics_data()
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
    return {
        point.attributes.get("spdl.stage.name"): point.value
        for metric in found
        for point in metric.data.data_points
        if point.attributes["spdl.pipeline.id"] == number
    }


def number_of(pipeline: Pipeline[Any]) -> int:
    return pipeline.stats().stages[0].info.pipeline_id


def test_instruments_have_the_values_of_the_statistics(reader: Any) -> None:
    """Durations in seconds, items, and the share of time that a channel was not empty."""
    pipeline = PipelineBuilder().add_source(range(4)).pipe(str).add_sink().build()
    assert len(list(pipeline)) == 4
    number, stats = number_of(pipeline), pipeline.stats()
    names = ("src", "str", "sink")
    durations = collected(reader, "spdl.stage.call.duration", number)
    assert durations == dict(zip(names, [stage.wall_time for stage in stats.stages], strict=True))
    assert collected(reader, "spdl.stage.items", number) == dict.fromkeys(names, 4)
    assert collected(reader, "spdl.stage.failures", number) == dict.fromkeys(names, 0)
    assert collected(reader, "spdl.stage.substituted", number) == dict.fromkeys(names, 0)
    assert collected(reader, "spdl.stage.lost", number) == dict.fromkeys(names, 0)
    assert collected(reader, "spdl.pipeline.items", number) == {None: 4}


def test_occupancy_is_that_of_the_interval(reader: Any) -> None:
    """Since the last collection; a pipeline that has ended has no further interval."""
    pipeline = PipelineBuilder().add_source(range(4)).pipe(str).add_sink().build()
    assert len(list(pipeline)) == 4
    number, stats = number_of(pipeline), pipeline.stats()
    first = collected(reader, "spdl.channel.occupancy", number)
    assert first["str"] == stats.stages[1].occupancy
    assert collected(reader, "spdl.channel.occupancy", number) == {}


def test_units_are_those_of_the_conventions(reader: Any) -> None:
    """Seconds, and counts in braces."""
    pipeline = PipelineBuilder().add_source(range(4)).add_sink().build()
    assert len(list(pipeline)) == 4
    data = reader.get_metrics_data()
    units = {m.name: m.unit for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert units["spdl.stage.call.duration"] == "s"
    assert units["spdl.stage.items"] == "{item}"
    assert units["spdl.channel.occupancy"] == "1"


def test_something_else_than_a_meter_is_an_error() -> None:
    """The message says what is needed."""
    with pytest.raises(TypeError, match=r"opentelemetry\.metrics\.Meter, got str"):
        metrics.opentelemetry("meter")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to install it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(ImportError, match=r'pip install "opentelemetry-api".* extra "opentelemetry"'):
        metrics.opentelemetry(None)
