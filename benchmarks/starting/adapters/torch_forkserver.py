"""torch's loader with workers by ``forkserver``."""

from collections.abc import Callable
from typing import Any

from ._epoch import epoch_of, make_torch_loader
from ._epoch import outputs as outputs
from ._epoch import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], list[Any]]:
    return epoch_of(make_torch_loader("forkserver"))
