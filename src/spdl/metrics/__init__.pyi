# Written by scripts/stubs from the module's table.

from ._merging import merge_traces as merge_traces
from ._opentelemetry import opentelemetry as opentelemetry
from ._prometheus import PrometheusExporter as PrometheusExporter
from ._prometheus import prometheus as prometheus
from ._reporting import write_report as write_report

__all__ = [
    "PrometheusExporter",
    "merge_traces",
    "opentelemetry",
    "prometheus",
    "write_report",
]
