"""Batching by cost, by length, by packing, and by time: aggregators for ``PipelineBuilder.aggregate``.

All are deterministic, keep the order of arrival inside a batch, and neither lose nor repeat items. They need neither
NumPy nor torch, but accept arrays and tensors. Names are imported lazily, on first use.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        "._cost_budget": "CostBudget",
        "._length_buckets": "LengthBuckets",
        "._max_wait": "ManualClock MaxWait",
        "._pack_sequences": "PackSequences PackedRow",
    },
)
