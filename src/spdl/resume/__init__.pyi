# Written by scripts/stubs from the module's table.

from ._batches import replay as replay
from ._batches import skip as skip
from ._elastic import gather as gather
from ._files import load as load
from ._files import save as save
from ._values import ResumeError as ResumeError

__all__ = [
    "ResumeError",
    "gather",
    "load",
    "replay",
    "save",
    "skip",
]
