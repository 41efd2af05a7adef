"""Saving where a training run is in its data, and going on from there.

``state_dict()`` and ``load_state_dict()`` of pipelines and loaders give and take states. This module keeps them in
files, joins those of all ranks, and changes them; and it makes logged batches again. It does not import torch, and
pipelines only for that. Names are imported lazily, on first use: every pipeline imports a part of this package.
"""

from typing import TYPE_CHECKING, Any

from spdl._names import unknown_name

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


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULE_OF:
        raise unknown_name(__name__, name, __all__)
    value = getattr(import_module(_MODULE_OF[name], __package__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
