"""Saving where a training run is in its data, and going on from there.

``state_dict()`` and ``load_state_dict()`` of pipelines and loaders give and take states. This module keeps them in
files, joins those of all ranks, and changes them; and it makes logged batches again. It does not import torch, and
pipelines only for that. Names are imported lazily, on first use: every pipeline imports a part of this package.
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

if not TYPE_CHECKING:  # or a type checker would take any name for one of this module
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
