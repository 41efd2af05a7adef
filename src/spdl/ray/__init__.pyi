# Written by scripts/stubs from the module's table.

from ._actors import RayActors as RayActors
from ._actors import RaySource as RaySource

__all__ = [
    "RayActors",
    "RaySource",
]
