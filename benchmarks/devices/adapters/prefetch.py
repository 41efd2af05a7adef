"""``prefetch_to_device``: a thread, reused page-locked memory, and an event for each batch."""

from collections.abc import Callable
from typing import Any

from spdl.dataloader import prefetch_to_device

from ._epoch import outputs, prepare_with, versions

__all__ = ["outputs", "prepare", "versions"]


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    return prepare_with(prefetch_to_device, data)
