# Written by scripts/stubs from the module's table.

from ._deterministic import DistributedDeterministicSampler as DistributedDeterministicSampler
from ._errors import CompressedShardError as CompressedShardError
from ._errors import ShardError as ShardError
from ._errors import StaleIndexError as StaleIndexError
from ._image_folder import ImageFolder as ImageFolder
from ._keyed import KeyedPermutation as KeyedPermutation
from ._keyed_mix import KeyedMix as KeyedMix
from ._keyed_sampler import DistributedKeyedSampler as DistributedKeyedSampler
from ._protocols import IterableWithShuffle as IterableWithShuffle
from ._protocols import SizedIterable as SizedIterable
from ._protocols import SizedIterableWithShuffle as SizedIterableWithShuffle
from ._random import DistributedRandomSampler as DistributedRandomSampler
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
