"""Batching by cost, by length, by packing, and by time: aggregators for ``PipelineBuilder.aggregate``.

All are deterministic, keep the order of arrival inside a batch, and neither lose nor repeat items. They need neither
NumPy nor torch, but accept arrays and tensors. Names are imported lazily, on first use.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

if TYPE_CHECKING:
    from ._batching._cost_budget import CostBudget as CostBudget
    from ._batching._length_buckets import LengthBuckets as LengthBuckets
    from ._batching._manual_clock import ManualClock as ManualClock
    from ._batching._max_wait import MaxWait as MaxWait
    from ._batching._pack_sequences import PackSequences as PackSequences
    from ._batching._packed_row import PackedRow as PackedRow

__all__ = ["CostBudget", "LengthBuckets", "ManualClock", "MaxWait", "PackSequences", "PackedRow"]

#: The module that defines each name.
_MODULE_OF = {
    "CostBudget": "._batching._cost_budget",
    "LengthBuckets": "._batching._length_buckets",
    "ManualClock": "._batching._manual_clock",
    "MaxWait": "._batching._max_wait",
    "PackSequences": "._batching._pack_sequences",
    "PackedRow": "._batching._packed_row",
}

if not TYPE_CHECKING:  # hidden, or a type checker would accept any name of this module
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
