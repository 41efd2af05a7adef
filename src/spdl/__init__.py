"""Scalable and performant data loading.

``spdl.pipeline`` is the engine, ``spdl.io`` reads media, ``spdl.source`` holds iterables and samplers and
``spdl.dataloader`` loaders in familiar shapes. Importing this package loads none of them.
"""

from importlib import metadata as _metadata

__all__ = ["__version__"]

try:
    __version__: str = _metadata.version("spdl")
except _metadata.PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "unknown"
