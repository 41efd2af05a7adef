"""TorchCodec's approximate mode, which relies on the container's header and does not scan the file."""

from collections.abc import Callable
from typing import Any

from . import torchcodec_exact
from .torchcodec_exact import outputs as outputs
from .torchcodec_exact import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    return torchcodec_exact.prepare(case, data, "approximate")
