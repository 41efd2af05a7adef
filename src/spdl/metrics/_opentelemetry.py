"""OpenTelemetry: instruments that are observed when the user's reader collects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spdl.pipeline import PipelineStats, StageStats

from ._reading import import_extra, read_all


def opentelemetry(meter: Any) -> None:
    """Add the metrics of all pipelines of this process to a meter of OpenTelemetry.

    .. code-block:: python

        metrics.opentelemetry(opentelemetry.metrics.get_meter("training"))

    All instruments are observable: pipelines are read when the meter's reader collects, and need not be registered.
    Attributes are ``spdl.pipeline.id``, and for stages ``spdl.stage.name`` and ``spdl.stage.id``.

    Args:
        meter: An ``opentelemetry.metrics.Meter``. Call once per meter: a meter cannot remove instruments.

    Raises:
        ImportError: The package ``opentelemetry-api`` is missing: install the extra ``opentelemetry``.
        TypeError: ``meter`` cannot create observable instruments.
    """
    observation = import_extra("opentelemetry.metrics", "opentelemetry-api", "opentelemetry").Observation
    if not callable(getattr(meter, "create_observable_counter", None)):
        raise TypeError(f"meter must be an opentelemetry.metrics.Meter, got {type(meter).__qualname__}")

    def of_stages(value: Callable[[StageStats], float]) -> list[Callable[[Any], Iterator[Any]]]:
        def observe(_options: Any) -> Iterator[Any]:
            for number, stats in read_all():
                for stage in stats.stages:
                    yield observation(value(stage), _attributes(number, stage))

        return [observe]

    def of_pipelines(value: Callable[[PipelineStats], float]) -> list[Callable[[Any], Iterator[Any]]]:
        def observe(_options: Any) -> Iterator[Any]:
            for number, stats in read_all():
                yield observation(value(stats), {"spdl.pipeline.id": number})

        return [observe]

    def counter(name: str, value: Callable[[StageStats], float], unit: str, text: str) -> None:
        meter.create_observable_counter(f"spdl.stage.{name}", of_stages(value), unit, text)

    counter("call.duration", lambda s: s.wall_time, "s", "Time of successful calls; divide by spdl.stage.calls")
    counter("calls", lambda s: s.num_success, "{call}", "Successful calls")
    counter("failures", lambda s: s.num_failures, "{call}", "Calls that raised an exception")
    counter("substituted", lambda s: s.num_substituted, "{call}", "Failed calls with a substitute for their output")
    counter("lost", lambda s: s.num_lost, "{part}", "Parts that calls left out of their results")
    counter("items", lambda s: s.num_emitted, "{item}", "Items emitted")
    counter("starved", lambda s: s.starved, "s", "Time with a free slot and no input")
    counter("blocked", lambda s: s.blocked, "s", "Time with a result and no room for it")
    meter.create_observable_gauge(
        "spdl.stage.in_flight", of_stages(lambda s: s.num_in_flight), "{call}", "Calls that run now"
    )
    latest = _Latest()

    def occupancies(_options: Any) -> Iterator[Any]:
        for number, interval in latest.intervals():
            for stage in interval.stages:
                yield observation(stage.occupancy, _attributes(number, stage))

    meter.create_observable_gauge(
        "spdl.channel.occupancy", [occupancies], "1", "Share of the time since the last observation with items waiting"
    )
    meter.create_observable_counter(
        "spdl.pipeline.items", of_pipelines(lambda p: p.num_items), "{item}", "Items returned to the consumer"
    )
    meter.create_observable_counter(
        "spdl.pipeline.consumer.wait", of_pipelines(lambda p: p.consumer_wait), "s", "Time that the consumer waited"
    )


def _attributes(number: int, stage: StageStats) -> dict[str, str | int]:
    return {
        "spdl.pipeline.id": number,
        "spdl.stage.id": stage.info.stage_id,
        "spdl.stage.name": stage.info.stage_name,
    }


class _Latest:
    """The newest statistics of each pipeline, to compute the interval since then."""

    def __init__(self) -> None:
        self._found: dict[int, PipelineStats] = {}

    def intervals(self) -> list[tuple[int, PipelineStats]]:
        """Return the statistics since the last call, for each pipeline in which time has passed."""
        before, self._found = self._found, dict(read_all())
        found = []
        for number, stats in self._found.items():
            old = before.get(number)
            if old is None or stats.elapsed > old.elapsed:
                found.append((number, stats if old is None else stats - old))
        return found
