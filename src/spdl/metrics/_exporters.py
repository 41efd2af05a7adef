"""Prometheus and OpenTelemetry: collectors that read the pipelines of the process when they are scraped or read."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, TracebackType
from typing import Any, Final

from spdl._numbers import as_int
from spdl.pipeline import PipelineStateError, PipelineStats, StageStats
from spdl.pipeline._observer import LIVE

DEFAULT_PORT: Final = 9432
_STAGE: Final = ("pipeline", "stage_id", "stage")


def prometheus(port: int | None = None, *, address: str = "127.0.0.1", registry: Any = None) -> PrometheusExporter:
    """Export the metrics of all pipelines of this process to Prometheus.

    .. code-block:: python

        metrics.prometheus()  # http://127.0.0.1:9432/metrics
        metrics.prometheus(registry=prometheus_client.REGISTRY)  # in the server that you have

    Pipelines are read when Prometheus scrapes, and need not be registered: pipelines built later are included. A forked
    child exports nothing; call this again there, with a different port.

    Args:
        port: Port of the HTTP server to start; 0: a free one, see ``PrometheusExporter.port``. ``None``: 9432.
        address: Address of the server. Anyone who can reach it can read the metrics.
        registry: ``prometheus_client.CollectorRegistry`` to add the metrics to, instead of starting a server.

    Returns:
        The exporter. It exports until its ``close()``, even if you keep no reference.

    Raises:
        ImportError: The package ``prometheus-client`` is missing: install the extra ``prometheus``.
        OSError: The server cannot use the port.
        ValueError: Both ``port`` and ``registry`` are given, or the registry already has these metrics.
    """
    client = import_extra("prometheus_client", "prometheus-client", "prometheus")
    collector = _Collector()
    if registry is not None:
        if port is not None:
            raise ValueError(f"give either port or registry: with a registry no server is started, got port={port}")
        registry.register(collector)
        return PrometheusExporter(registry, collector, None, None)
    port = DEFAULT_PORT if port is None else as_int("port", port)
    registry = client.CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = client.start_http_server(port, address, registry)
    except OSError as exc:
        raise OSError(
            exc.errno,
            f"cannot serve the metrics of the pipelines at {address}:{port}: {exc.strerror}. Does another process of "
            "this machine use the port? Give each rank its own",
        ) from exc
    return PrometheusExporter(registry, collector, server, thread)


class PrometheusExporter:
    """Result of :func:`prometheus`. Also a context manager, which closes it.

    Attributes:
        port: Port of the server; ``None`` if a registry was given.
    """

    def __init__(self, registry: Any, collector: _Collector, server: Any, thread: threading.Thread | None) -> None:
        self.port: int | None = None if server is None else server.server_port
        self._registry = registry
        self._collector: _Collector | None = collector
        self._server = server
        self._thread = thread
        if server is not None:
            _leave_in_children()
            _KEPT.add(self)

    def close(self) -> None:
        """Stop exporting. Idempotent."""
        collector, self._collector = self._collector, None
        if collector is None:
            return
        self._registry.unregister(collector)
        _KEPT.discard(self)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            assert self._thread is not None
            self._thread.join()

    def __enter__(self) -> PrometheusExporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


#: Exporters with a server, which runs until they are closed, so they must be kept alive.
_KEPT: Final[set[PrometheusExporter]] = set()


@functools.cache
def _leave_in_children() -> None:
    """A forked child has no server thread, and must not keep the parent's port bound."""

    def leave() -> None:
        for exporter in _KEPT.copy():
            exporter._collector = None
            exporter._server.socket.close()
        _KEPT.clear()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=leave)


class _Collector:
    """Makes the current metrics. ``prometheus_client`` calls ``collect`` for every scrape."""

    def describe(self) -> Iterable[Any]:
        """Return the metrics without values, so that registering does not read any pipeline."""
        return _families(())

    def collect(self) -> Iterator[Any]:
        yield from _families(read_all())


#: Kind, name, text and value of the metrics of a pipeline, and of those of a stage.
_OF_PIPELINES: Final[tuple[tuple[str, str, str, Callable[[PipelineStats], float]], ...]] = (
    ("Gauge", "pipeline_threads", "Worker threads", lambda p: p.num_threads),
    ("Counter", "pipeline_items", "Items returned to the consumer", lambda p: p.num_items),
    ("Counter", "pipeline_consumer_wait_seconds", "Time that the consumer waited", lambda p: p.consumer_wait),
)
_OF_STAGES: Final[tuple[tuple[str, str, str, Callable[[StageStats], float]], ...]] = (
    ("Counter", "stage_calls", "Finished calls, successful or failed", lambda s: s.num_calls),
    ("Counter", "stage_failures", "Calls that raised an exception", lambda s: s.num_failures),
    ("Counter", "stage_substituted", "Failed calls with a substitute for their output", lambda s: s.num_substituted),
    ("Counter", "stage_lost", "Parts that calls left out of their results", lambda s: s.num_lost),
    ("Counter", "stage_dropped", "Items dropped on purpose", lambda s: s.num_dropped),
    ("Counter", "stage_items", "Items emitted", lambda s: s.num_emitted),
    ("Counter", "stage_busy_seconds", "Time of all calls", lambda s: s.busy),
    ("Counter", "stage_starved_seconds", "Time with a free slot and no input", lambda s: s.starved),
    ("Counter", "stage_blocked_seconds", "Time with a result and no room for it", lambda s: s.blocked),
    ("Gauge", "stage_in_flight", "Calls that run now", lambda s: s.num_in_flight),
    ("Gauge", "channel_items", "Items that wait after the stage", lambda s: s.queue_len),
    ("Gauge", "channel_capacity", "Items that may wait after the stage", lambda s: s.queue_capacity),
    ("Counter", "channel_occupied_seconds", "Time in which items waited there", lambda s: s.occupied),
)


def _families(found: Iterable[tuple[int, PipelineStats]]) -> list[Any]:
    """Return all metrics, each with its values for these pipelines."""
    core = import_extra("prometheus_client.core", "prometheus-client", "prometheus")

    def made(kind: str, name: str, text: str, labels: tuple[str, ...]) -> Any:
        return getattr(core, f"{kind}MetricFamily")(f"spdl_{name}", text, labels=labels)

    state = made("Gauge", "pipeline_state", "1 for the state that the pipeline is in", ("pipeline", "state"))
    pipelines = [made(kind, name, text, ("pipeline",)) for kind, name, text, _ in _OF_PIPELINES]
    stages = [made(kind, name, text, _STAGE) for kind, name, text, _ in _OF_STAGES]
    call = made("Summary", "stage_call_seconds", "Wall time of successful calls", _STAGE)
    cpu = made("Counter", "stage_cpu_seconds", "CPU time of successful calls, where it is measured", _STAGE)
    for number, stats in found:
        state.add_metric((str(number), stats.state), 1)
        for family, of_pipeline in zip(pipelines, _OF_PIPELINES, strict=True):
            family.add_metric((str(number),), of_pipeline[-1](stats))
        for stage in stats.stages:
            labels = str(number), stage.info.stage_id, stage.info.stage_name
            for family, of_stage in zip(stages, _OF_STAGES, strict=True):
                family.add_metric(labels, of_stage[-1](stage))
            call.add_metric(labels, count_value=stage.num_success, sum_value=stage.wall_time)
            if stage.num_cpu_samples:
                cpu.add_metric(labels, stage.cpu_time)
    return [state, *pipelines, *stages, call, cpu]


def read_all() -> Iterator[tuple[int, PipelineStats]]:
    """Yield the number and the statistics of each pipeline that was started in this process and still exists."""
    for pipeline in LIVE.started():
        try:
            stats = pipeline.stats()
        except PipelineStateError:  # the process has been forked since
            continue
        yield stats.stages[-1].info.pipeline_id, stats


def import_extra(module: str, package: str, extra: str) -> ModuleType:
    """Import an optional package. The ``ImportError`` says how to install it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as exc:
        raise ImportError(
            f"spdl.metrics.{extra}() needs the package {package}, which cannot be imported ({exc}): "
            f'pip install "{package}", or install spdl-native with its extra "{extra}"',
            name=exc.name,
        ) from exc


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

    def of_stages(
        value: Callable[[StageStats], float], read: Callable[[], Iterable[tuple[int, PipelineStats]]] = read_all
    ) -> list[Callable[[Any], Iterator[Any]]]:
        def observe(_options: Any) -> Iterator[Any]:
            for number, stats in read():
                for stage in stats.stages:
                    info = stage.info
                    of = {
                        "spdl.pipeline.id": number,
                        "spdl.stage.id": info.stage_id,
                        "spdl.stage.name": info.stage_name,
                    }
                    yield observation(value(stage), of)

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
    text = "Share of the time since the last observation with items waiting"
    occupancies = of_stages(lambda s: s.occupancy, _Latest().intervals)
    meter.create_observable_gauge("spdl.channel.occupancy", occupancies, "1", text)
    meter.create_observable_counter(
        "spdl.pipeline.items", of_pipelines(lambda p: p.num_items), "{item}", "Items returned to the consumer"
    )
    meter.create_observable_counter(
        "spdl.pipeline.consumer.wait", of_pipelines(lambda p: p.consumer_wait), "s", "Time that the consumer waited"
    )


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
