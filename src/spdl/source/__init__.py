"""Sources of items: samplers that distribute indices over ranks, shards, folders and tables; and source protocols.

More sources: files of a folder (``spdl.source.local_directory``, ``spdl.source.imagenet``), and sources made from other
sources (``spdl.source.utils``). Importing this package imports neither NumPy nor torch, and of ``spdl`` only the code
for states. The random samplers import NumPy when they are used. Names are imported on first use.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        "._hugging_face": "HuggingFaceStream",
        "._image_folder": "ImageFolder",
        "._json_lines": "JsonLines",
        "._keyed": "KeyedPermutation",
        "._lance": "LanceRows",
        "._mixture": "KeyedMix",
        "._parquet": "ParquetRows",
        "._protocols": "IterableWithShuffle SizedIterable SizedIterableWithShuffle",
        "._random": "DistributedKeyedSampler DistributedRandomSampler",
        "._sampler": "DistributedDeterministicSampler",
        "._shard_mix": "ShardMix",
        "._shard_order": "ShardOrder",
        "._shard_stream": "ShardStream",
        "._shuffle_buffer": "ShuffleBuffer",
        "._stores": "CompressedShardError RangeStore ShardError StaleIndexError",
        "._tar_index": "TarIndex TarSample",
    },
)
