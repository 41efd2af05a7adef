"""Modules that the fork server imports before it forks, so that no child has to."""

from __future__ import annotations

__all__ = ["preload", "to_preload"]

#: What every child imports, and what packages have added.
_modules = ["spdl._processes._child_main"]


def preload(module: str) -> None:
    """Add a module for fork servers that have yet to start. It is imported there, not here."""
    if module not in _modules:
        _modules.append(module)


def to_preload() -> list[str]:
    """All of them."""
    return list(_modules)
