"""Where items come from: samplers that deal indices to ranks, and what a source must be able to do.

Files of a folder are in ``spdl.source.local_directory`` and ``spdl.source.imagenet``, sources made of other sources in
``spdl.source.utils``. Imports neither NumPy nor torch, and of ``spdl`` only what states are made of; the random
samplers import NumPy on use. Shards, folders and tables are imported on first use.
"""

from typing import TYPE_CHECKING, Any

from ._deterministic import DistributedDeterministicSampler as DistributedDeterministicSampler
from ._keyed import KeyedPermutation as KeyedPermutation
from ._keyed_mix import KeyedMix as KeyedMix
from ._keyed_sampler import DistributedKeyedSampler as DistributedKeyedSampler
from ._protocols import IterableWithShuffle as IterableWithShuffle
from ._protocols import SizedIterable as SizedIterable
from ._protocols import SizedIterableWithShuffle as SizedIterableWithShuffle
from ._random import DistributedRandomSampler as DistributedRandomSampler

if TYPE_CHECKING:
    from ._image_folder import ImageFolder as ImageFolder
    from ._shards._errors import CompressedShardError as CompressedShardError
    from ._shards._errors import ShardError as ShardError
    from ._shards._errors import StaleIndexError as StaleIndexError
    from ._shards._order import ShardOrder as ShardOrder
    from ._shards._stream import ShardStream as ShardStream
    from ._shards._tar_index import TarIndex as TarIndex
    from ._shards._tar_index import TarSample as TarSample
    from ._shuffle_buffer import ShuffleBuffer as ShuffleBuffer
    from ._stores import RangeStore as RangeStore

__all__ = [
    "CompressedShardError",
    "DistributedDeterministicSampler",
    "DistributedKeyedSampler",
    "DistributedRandomSampler",
    "ImageFolder",
    "IterableWithShuffle",
    "KeyedMix",
    "KeyedPermutation",
    "RangeStore",
    "ShardError",
    "ShardOrder",
    "ShardStream",
    "ShuffleBuffer",
    "SizedIterable",
    "SizedIterableWithShuffle",
    "StaleIndexError",
    "TarIndex",
    "TarSample",
]

#: The module that defines each name that is imported on first use.
_MODULE_OF = {
    "CompressedShardError": "._shards._errors",
    "ImageFolder": "._image_folder",
    "RangeStore": "._stores",
    "ShardError": "._shards._errors",
    "ShardOrder": "._shards._order",
    "ShardStream": "._shards._stream",
    "ShuffleBuffer": "._shuffle_buffer",
    "StaleIndexError": "._shards._errors",
    "TarIndex": "._shards._tar_index",
    "TarSample": "._shards._tar_index",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name], __package__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
