"""Modules that the fork server imports before it forks, so that children need not import them."""

from __future__ import annotations

#: Modules that every child imports, and those that packages have added.
_modules = ["spdl._processes._preloaded", "spdl._processes._child_main"]


def preload(module: str) -> None:
    """Add a module for fork servers that have not started yet. It is imported there, not here."""
    if module not in _modules:
        _modules.append(module)


def to_preload() -> list[str]:
    """Return all of them."""
    return list(_modules)
