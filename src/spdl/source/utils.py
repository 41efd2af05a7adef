"""Sources made from other sources: merged, repeated, or shuffled in each epoch."""

from ._embed_shuffle import embed_shuffle as embed_shuffle
from ._merge import MergeIterator as MergeIterator
from ._repeat import repeat_source as repeat_source

__all__ = ["MergeIterator", "embed_shuffle", "repeat_source"]
