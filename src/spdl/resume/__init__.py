"""Saves the position of a training run in its data, and continues from there.

``state_dict()`` of pipelines and loaders returns a state, and ``load_state_dict()`` takes one. This package saves
states in files, merges the states of all ranks, skips batches, and reproduces logged batches. It does not import torch;
it imports pipelines only to reproduce batches. Names are imported on first use, because every pipeline imports a part
of this package.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(), {"._batches": "replay skip", "._elastic": "gather", "._files": "load save", "._values": "ResumeError"}
)
