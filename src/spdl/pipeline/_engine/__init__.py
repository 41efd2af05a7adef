"""The engine: runs a graph of stages on threads, an event loop and the user's executors.

``_graph`` and ``_kinds`` turn descriptions into nodes, channels and lanes. ``_core`` holds the lock and what nodes and
lanes share, ``_engine`` starts, reads and stops. ``_stages`` handle the outcomes of calls, and ``_lanes`` run calls.
The engine starts no process, formats no report and does not depend on the handle that owns it.
"""

from ._core import EngineState as EngineState
from ._engine import END as END
from ._engine import EPOCH as EPOCH
from ._engine import Engine as Engine
from ._graph import build_graph as build_graph
from ._graph import run_in_background as run_in_background
from ._graph_builder import GraphOptions as GraphOptions

__all__ = ["END", "EPOCH", "Engine", "EngineState", "GraphOptions", "build_graph", "run_in_background"]
