"""What processes have from this one: environment variables, and the modules that a fork server imports for them.

A fork server keeps the environment of its own start, and so do all processes that it forks; workers that are kept
between epochs keep that of their start. Credentials, for example, are renewed in between. Only differences are sent, so
what a process has set for itself remains.

Imports little, because every package that has modules to preload imports it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


class Environment:
    """The environment that another process has, as far as this one knows.

    Args:
        variables: What it has now; ``None``: that of this process.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = dict(os.environ if variables is None else variables)
        self._raw = _raw().copy() if variables is None else {}

    def changes(self) -> dict[str, str | None]:
        """What has changed here since the last call. The other process must get it. ``None``: deleted."""
        raw = _raw()
        if raw and raw == self._raw:
            return {}
        self._raw = raw.copy()
        now = dict(os.environ)
        before, self._variables = self._variables, now
        changes: dict[str, str | None] = {name: now[name] for name in now if before.get(name) != now[name]}
        changes.update((name, None) for name in before if name not in now)
        return changes


class Renewed:
    """The variables that have changed since processes were last given a whole environment, by a fork server."""

    def __init__(self) -> None:
        self._environment = Environment()
        self._changes: dict[str, str | None] = {}

    def begin(self, variables: Mapping[str, str]) -> None:
        """From now on, processes begin with ``variables``."""
        self._environment = Environment(variables)
        self._changes = {}

    def changes(self) -> dict[str, str | None]:
        """All changes since ``begin``, also those of variables that have their first value again."""
        self._changes.update(self._environment.changes())
        return dict(self._changes)


def change_environment(changes: Mapping[str, str | None]) -> None:
    """Make the changes that another process has made."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _raw() -> dict[object, object]:
    """The encoded variables, which can be compared in a microsecond; empty if they have no such name."""
    raw = getattr(os.environ, "_data", None)
    return raw if isinstance(raw, dict) else {}


# -- modules that the fork server imports before it forks, so that children need not import them

#: Those that every child imports, and those that packages have added.
_modules = ["spdl._processes._preloaded", "spdl._processes._child_main"]


def preload(*modules: str) -> None:
    """Add modules for fork servers that have not started yet. They are imported there, not here."""
    _modules.extend(module for module in modules if module not in _modules)


def to_preload() -> list[str]:
    """Return all of them."""
    return list(_modules)
