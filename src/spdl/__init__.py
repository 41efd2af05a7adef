"""Scalable and performant data loading.

``spdl.pipeline`` is the engine, ``spdl.io`` reads media, ``spdl.source`` holds iterables and samplers and
``spdl.dataloader`` loaders in familiar shapes. Importing this package loads none of them.
"""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Find the version on first use: asking the installed distribution costs more than importing the engine."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    try:
        version = metadata.version("spdl")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        version = "unknown"
    globals()["__version__"] = version
    return version
