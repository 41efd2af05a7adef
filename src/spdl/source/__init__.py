"""Sources of items: samplers that distribute indices over ranks, shards, folders and tables; and source protocols.

More sources: files of a folder (``spdl.source.local_directory``, ``spdl.source.imagenet``), and sources made from other
sources (``spdl.source.utils``). Importing this package imports neither NumPy nor torch, and of ``spdl`` only the code
for states. The random samplers import NumPy when they are used. Names are imported on first use.
"""

from spdl._names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(
    globals(),
    {
        "._deterministic": "DistributedDeterministicSampler",
        "._errors": "CompressedShardError ShardError StaleIndexError",
        "._image_folder": "ImageFolder",
        "._keyed": "KeyedPermutation",
        "._keyed_mix": "KeyedMix",
        "._keyed_sampler": "DistributedKeyedSampler",
        "._protocols": "IterableWithShuffle SizedIterable SizedIterableWithShuffle",
        "._random": "DistributedRandomSampler",
        "._shards._mix": "ShardMix",
        "._shards._order": "ShardOrder",
        "._shards._stream": "ShardStream",
        "._shards._tar_index": "TarIndex",
        "._shards._tar_sample": "TarSample",
        "._shuffle_buffer": "ShuffleBuffer",
        "._stores": "RangeStore",
        "._tables._hugging_face": "HuggingFaceStream",
        "._tables._json_lines": "JsonLines",
        "._tables._lance": "LanceRows",
        "._tables._parquet": "ParquetRows",
    },
)
