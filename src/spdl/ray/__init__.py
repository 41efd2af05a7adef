"""Regions of a pipeline on several machines: their workers are Ray actors.

Importing this package does not import Ray. Building a pipeline that uses it does, and raises ``ImportError`` if it is
not installed: ``pip install 'spdl-native[ray]'``.
"""

from ._actors import RayActors as RayActors

__all__ = ["RayActors"]
