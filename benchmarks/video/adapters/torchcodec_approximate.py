"""TorchCodec's approximate mode, which relies on the container's header: for samples only, where it matters."""

from collections.abc import Callable
from typing import Any

from . import torchcodec_exact
from .torchcodec_exact import outputs as outputs
from .torchcodec_exact import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    return torchcodec_exact.prepare(case, data, "approximate") if "indices" in data else None
