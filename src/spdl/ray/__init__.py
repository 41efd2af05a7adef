"""Regions of a pipeline on several machines, with Ray actors as workers; and Ray Datasets as sources.

Importing this package does not import Ray. Building a pipeline that uses it does, and raises ``ImportError`` if Ray is
not installed: ``pip install 'spdl-native[ray]'``.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

if TYPE_CHECKING:
    from ._actors import RayActors as RayActors
    from ._source import RaySource as RaySource

__all__ = ["RayActors", "RaySource"]

if not TYPE_CHECKING:  # otherwise a type checker would accept any name
    __getattr__, __dir__ = lazy_names(globals(), {"RayActors": "._actors", "RaySource": "._source"})
