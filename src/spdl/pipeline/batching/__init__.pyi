# Written by scripts/stubs from the module's table.

from ._cost_budget import CostBudget as CostBudget
from ._length_buckets import LengthBuckets as LengthBuckets
from ._max_wait import ManualClock as ManualClock
from ._max_wait import MaxWait as MaxWait
from ._pack_sequences import PackedRow as PackedRow
from ._pack_sequences import PackSequences as PackSequences

__all__ = [
    "CostBudget",
    "LengthBuckets",
    "ManualClock",
    "MaxWait",
    "PackSequences",
    "PackedRow",
]
