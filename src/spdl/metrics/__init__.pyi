# Written by scripts/stubs from the module's table.

from ._exporters import PrometheusExporter as PrometheusExporter
from ._exporters import opentelemetry as opentelemetry
from ._exporters import prometheus as prometheus
from ._merging import merge_traces as merge_traces
from ._reporting import write_report as write_report

__all__ = [
    "PrometheusExporter",
    "merge_traces",
    "opentelemetry",
    "prometheus",
    "write_report",
]
