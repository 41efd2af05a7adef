"""Scalable and performant data loading.

``spdl.pipeline`` is the engine, ``spdl.io`` reads media, ``spdl.source`` holds iterables and samplers and
``spdl.dataloader`` loaders in familiar shapes. Importing this package loads none of them; to write ``spdl.io`` does.
"""

from typing import Any

__all__ = ["__version__"]

#: What ``import spdl`` alone leads to. Not in ``__all__``, or ``from spdl import *`` would import all of them.
_PACKAGES = ("dataloader", "debug", "io", "metrics", "pipeline", "remote", "resume", "source")

__version__: str


def __getattr__(name: str) -> Any:
    """Import a package, or find the version, on first use: both cost more than importing this package."""
    if name != "__version__":
        if name not in _PACKAGES:
            from spdl._names import unknown_name

            raise unknown_name(__name__, name, _PACKAGES)
        from importlib import import_module

        return import_module(f"spdl.{name}")
    from importlib import metadata

    try:
        version = metadata.version("spdl")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        version = "unknown"
    globals()["__version__"] = version
    return version


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
