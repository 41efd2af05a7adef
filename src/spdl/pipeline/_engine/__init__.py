"""The engine: runs a graph of stages on threads, an event loop and the user's executors.

``_graph`` turns descriptions into nodes, channels and lanes. ``_core`` holds the lock and what nodes and lanes share,
``_engine`` starts, reads and stops. ``_stages`` handle the outcomes of calls, and ``_lanes`` run calls.
The engine starts no process, formats no report and does not depend on the handle that owns it.
"""
