# Written by scripts/stubs from the module's table.

from ._errors import ResumeError as ResumeError
from ._files import load as load
from ._files import save as save
from ._gather import gather as gather
from ._replay import replay as replay
from ._skip import skip as skip

__all__ = [
    "ResumeError",
    "gather",
    "load",
    "replay",
    "save",
    "skip",
]
