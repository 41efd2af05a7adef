"""``pin_memory()``, then ``to("cuda", non_blocking=True)``, at the start of the step."""

from collections.abc import Callable
from typing import Any

from ._each import Each
from ._epoch import outputs, prepare_with, versions

__all__ = ["outputs", "prepare", "versions"]


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    return prepare_with(
        lambda batches: Each(batches, lambda tensor: tensor.pin_memory().to("cuda", non_blocking=True)), data
    )
