"""Where items come from: samplers that deal indices to ranks, and what a source must be able to do.

Files of a folder are in ``spdl.source.local_directory`` and ``spdl.source.imagenet``, sources made of other sources in
``spdl.source.utils``. Imports neither NumPy nor torch, and of ``spdl`` only what states are made of; the random
samplers import NumPy on use.
"""

from ._deterministic import DistributedDeterministicSampler as DistributedDeterministicSampler
from ._keyed import KeyedPermutation as KeyedPermutation
from ._keyed_mix import KeyedMix as KeyedMix
from ._keyed_sampler import DistributedKeyedSampler as DistributedKeyedSampler
from ._protocols import IterableWithShuffle as IterableWithShuffle
from ._protocols import SizedIterable as SizedIterable
from ._protocols import SizedIterableWithShuffle as SizedIterableWithShuffle
from ._random import DistributedRandomSampler as DistributedRandomSampler

__all__ = [
    "DistributedDeterministicSampler",
    "DistributedKeyedSampler",
    "DistributedRandomSampler",
    "IterableWithShuffle",
    "KeyedMix",
    "KeyedPermutation",
    "SizedIterable",
    "SizedIterableWithShuffle",
]
