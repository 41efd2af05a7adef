"""Regions of a pipeline on several machines, with Ray actors as workers; and Ray Datasets as sources.

Importing this package does not import Ray. Building a pipeline that uses it does, and raises ``ImportError`` if Ray is
not installed: ``pip install 'spdl-native[ray]'``.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(globals(), {"._actors": "RayActors RaySource"})
