"""The engine: runs a graph of stages on threads, an event loop and the user's executors.

``_graph`` turns descriptions into nodes and channels, ``_engine`` holds the lock and the state of the whole graph,
``_stages`` handle the outcomes of calls, and ``_lanes`` run the calls. The engine starts no process, formats no report
and does not depend on the handle that owns it.
"""

from ._engine import Engine as Engine
from ._engine import EngineState as EngineState
from ._graph import GraphOptions as GraphOptions
from ._graph import StageWiring as StageWiring
from ._graph import build_graph as build_graph

__all__ = ["Engine", "EngineState", "GraphOptions", "StageWiring", "build_graph"]
