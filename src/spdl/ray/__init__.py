"""Regions of a pipeline on several machines: their workers are Ray actors. And sources that are Ray Datasets.

Importing this package does not import Ray. Building a pipeline that uses it does, and raises ``ImportError`` if it is
not installed: ``pip install 'spdl-native[ray]'``.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

if TYPE_CHECKING:
    from ._actors import RayActors as RayActors
    from ._source import RaySource as RaySource

__all__ = ["RayActors", "RaySource"]

if not TYPE_CHECKING:  # or a type checker would take any name for one of this package
    __getattr__, __dir__ = lazy_names(globals(), {"RayActors": "._actors", "RaySource": "._source"})
