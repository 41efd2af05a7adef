"""Imports Ray on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_ray() -> Any:
    """Return the module ``ray``.

    Raises:
        ImportError: It is not installed; the message names the extra.
    """
    try:
        return import_module("ray")
    except ImportError as exc:
        text = f"RayActors needs the package ray, which cannot be imported ({exc}): pip install 'spdl-native[ray]'"
        raise ImportError(text, name=exc.name) from exc
