# Written by scripts/stubs from the module's table.

from ._hugging_face import HuggingFaceStream as HuggingFaceStream
from ._image_folder import ImageFolder as ImageFolder
from ._json_lines import JsonLines as JsonLines
from ._keyed import KeyedPermutation as KeyedPermutation
from ._lance import LanceRows as LanceRows
from ._mixture import KeyedMix as KeyedMix
from ._parquet import ParquetRows as ParquetRows
from ._protocols import IterableWithShuffle as IterableWithShuffle
from ._protocols import SizedIterable as SizedIterable
from ._protocols import SizedIterableWithShuffle as SizedIterableWithShuffle
from ._random import DistributedKeyedSampler as DistributedKeyedSampler
from ._random import DistributedRandomSampler as DistributedRandomSampler
from ._sampler import DistributedDeterministicSampler as DistributedDeterministicSampler
from ._shard_mix import ShardMix as ShardMix
from ._shard_order import ShardOrder as ShardOrder
from ._shard_stream import ShardStream as ShardStream
from ._shuffle_buffer import ShuffleBuffer as ShuffleBuffer
from ._stores import CompressedShardError as CompressedShardError
from ._stores import RangeStore as RangeStore
from ._stores import ShardError as ShardError
from ._stores import StaleIndexError as StaleIndexError
from ._tar_index import TarIndex as TarIndex
from ._tar_index import TarSample as TarSample

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
