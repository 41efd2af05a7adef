"""Metrics of all pipelines of the process for Prometheus and OpenTelemetry.

The exporters read the counters that pipelines keep anyway, only when they are scraped or collected; nothing runs in
between. For loggers that take dictionaries, such as those of W&B and TensorBoard, use
:meth:`spdl.pipeline.PipelineStats.to_dict`. :func:`merge_traces` merges traces of :meth:`spdl.pipeline.Pipeline.trace`
with those of torch's profiler.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        "._exporters": "PrometheusExporter opentelemetry prometheus",
        "._merging": "merge_traces",
        "._reporting": "write_report",
    },
)
