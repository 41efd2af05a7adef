"""Metrics of all pipelines of the process, for monitoring systems: Prometheus and OpenTelemetry.

They read the counters that pipelines keep anyway, when they are asked: nothing runs in between. For loggers that take
dictionaries, such as those of W&B and TensorBoard, there is :meth:`spdl.pipeline.PipelineStats.to_dict`. The traces of
:meth:`spdl.pipeline.Pipeline.trace` are put together with those of torch's profiler by :func:`merge_traces`.
"""

from typing import TYPE_CHECKING, Any

from spdl._names import unknown_name

if TYPE_CHECKING:
    from ._merging import merge_traces as merge_traces
    from ._opentelemetry import opentelemetry as opentelemetry
    from ._prometheus import PrometheusExporter as PrometheusExporter
    from ._prometheus import prometheus as prometheus
    from ._reporting import write_report as write_report

__all__ = ["PrometheusExporter", "merge_traces", "opentelemetry", "prometheus", "write_report"]

_MODULE_OF = {
    "PrometheusExporter": "._prometheus",
    "merge_traces": "._merging",
    "opentelemetry": "._opentelemetry",
    "prometheus": "._prometheus",
    "write_report": "._reporting",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULE_OF:
        raise unknown_name(__name__, name, __all__)
    value = getattr(import_module(_MODULE_OF[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
