"""Sources of items: samplers that distribute indices over ranks, shards, folders and tables; and source protocols.

More sources: files of a folder (``spdl.source.local_directory``, ``spdl.source.imagenet``), and sources made from other
sources (``spdl.source.utils``). Importing this package imports neither NumPy nor torch, and of ``spdl`` only the code
for states. The random samplers import NumPy when they are used. Shards, folders and tables are imported on first use.
"""

from typing import TYPE_CHECKING

from spdl._names import lazy_names

from ._deterministic import DistributedDeterministicSampler as DistributedDeterministicSampler
from ._keyed import KeyedPermutation as KeyedPermutation
from ._keyed_mix import KeyedMix as KeyedMix
from ._keyed_sampler import DistributedKeyedSampler as DistributedKeyedSampler
from ._protocols import IterableWithShuffle as IterableWithShuffle
from ._protocols import SizedIterable as SizedIterable
from ._protocols import SizedIterableWithShuffle as SizedIterableWithShuffle
from ._random import DistributedRandomSampler as DistributedRandomSampler

if TYPE_CHECKING:
    from ._errors import CompressedShardError as CompressedShardError
    from ._errors import ShardError as ShardError
    from ._errors import StaleIndexError as StaleIndexError
    from ._image_folder import ImageFolder as ImageFolder
    from ._shards._mix import ShardMix as ShardMix
    from ._shards._order import ShardOrder as ShardOrder
    from ._shards._stream import ShardStream as ShardStream
    from ._shards._tar_index import TarIndex as TarIndex
    from ._shards._tar_sample import TarSample as TarSample
    from ._shuffle_buffer import ShuffleBuffer as ShuffleBuffer
    from ._stores import RangeStore as RangeStore
    from ._tables._hugging_face import HuggingFaceStream as HuggingFaceStream
    from ._tables._json_lines import JsonLines as JsonLines
    from ._tables._lance import LanceRows as LanceRows
    from ._tables._parquet import ParquetRows as ParquetRows

__all__ = [
    "CompressedShardError",
    "DistributedDeterministicSampler",
    "DistributedKeyedSampler",
    "DistributedRandomSampler",
    "HuggingFaceStream",
    "ImageFolder",
    "IterableWithShuffle",
    "JsonLines",
    "KeyedMix",
    "KeyedPermutation",
    "LanceRows",
    "ParquetRows",
    "RangeStore",
    "ShardError",
    "ShardMix",
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
    "CompressedShardError": "._errors",
    "HuggingFaceStream": "._tables._hugging_face",
    "ImageFolder": "._image_folder",
    "JsonLines": "._tables._json_lines",
    "LanceRows": "._tables._lance",
    "ParquetRows": "._tables._parquet",
    "RangeStore": "._stores",
    "ShardError": "._errors",
    "ShardMix": "._shards._mix",
    "ShardOrder": "._shards._order",
    "ShardStream": "._shards._stream",
    "ShuffleBuffer": "._shuffle_buffer",
    "StaleIndexError": "._errors",
    "TarIndex": "._shards._tar_index",
    "TarSample": "._shards._tar_sample",
}

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __getattr__, __dir__ = lazy_names(globals(), _MODULE_OF)
