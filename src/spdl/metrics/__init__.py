"""Metrics of all pipelines of the process for Prometheus and OpenTelemetry.

The exporters read the counters that pipelines keep anyway, only when they are scraped or collected; nothing runs in
between. For loggers that take dictionaries, such as those of W&B and TensorBoard, use
:meth:`spdl.pipeline.PipelineStats.to_dict`. :func:`merge_traces` merges traces of :meth:`spdl.pipeline.Pipeline.trace`
with those of torch's profiler.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

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

if not TYPE_CHECKING:  # otherwise a type checker would accept any name
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
