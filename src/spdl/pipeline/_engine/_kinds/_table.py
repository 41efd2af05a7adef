"""The table of kinds: the class of a description, and the function that adds its nodes to the graph."""

from __future__ import annotations

from typing import Final

from spdl.pipeline._engine._graph_builder import Kinds
from spdl.pipeline.defs import (
    AggregateConfig,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    Region,
    SourceConfig,
)

from ._aggregate import add_aggregate, add_disaggregate
from ._merge import add_merge
from ._pipe import add_pipe
from ._refill import Gate, add_gate
from ._region import add_region
from ._source import add_source
from ._variants import add_variants

KINDS: Final = Kinds(
    sources={
        SourceConfig: add_source,
        MergeConfig: add_merge,
    },
    stages={
        PipeConfig: add_pipe,
        AggregateConfig: add_aggregate,
        DisaggregateConfig: add_disaggregate,
        PathVariantsConfig: add_variants,
        Region: add_region,
        Gate: add_gate,
    },
)
