"""Saves the position of a training run in its data, and continues from there.

``state_dict()`` of pipelines and loaders returns a state, and ``load_state_dict()`` takes one. This package saves
states in files, merges the states of all ranks, skips batches, and reproduces logged batches. It does not import torch;
it imports pipelines only to reproduce batches. Names are imported on first use, because every pipeline imports a part
of this package.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

if TYPE_CHECKING:
    from ._errors import ResumeError as ResumeError
    from ._files import load as load
    from ._files import save as save
    from ._gather import gather as gather
    from ._replay import replay as replay
    from ._skip import skip as skip

__all__ = ["ResumeError", "gather", "load", "replay", "save", "skip"]

#: The module that defines each name.
_MODULE_OF = {
    "ResumeError": "._errors",
    "gather": "._gather",
    "load": "._files",
    "replay": "._replay",
    "save": "._files",
    "skip": "._skip",
}

if not TYPE_CHECKING:  # otherwise a type checker would accept any name
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
