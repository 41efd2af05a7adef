"""``spdl_version``: of the SPDL that this process imports: this tree, another checkout, or the reference."""

from importlib import metadata

__all__ = ["spdl_version"]


def spdl_version() -> str:
    """As the package says; the reference does not, and is called what it is imported as."""
    import spdl

    return getattr(spdl, "__version__", None) or metadata.version("spdl")
