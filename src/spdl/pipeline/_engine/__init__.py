"""The engine: runs a graph of stages on threads, an event loop and the user's executors.

``_graph`` turns descriptions into stages and channels, ``_engine`` holds the one lock and decides what may run,
``_stages`` say what a stage does with the outcome of a call, ``_lanes`` are where calls run. It starts no process,
formats no report and knows nothing of the handle that owns it.
"""

from ._engine import Engine as Engine
from ._engine import EngineState as EngineState
from ._graph import GraphOptions as GraphOptions
from ._graph import StageWiring as StageWiring
from ._graph import build_graph as build_graph

__all__ = ["Engine", "EngineState", "GraphOptions", "StageWiring", "build_graph"]
