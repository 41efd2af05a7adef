"""Datasets made of others: torch's, and Hugging Face's. Importable by worker processes."""

import importlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from torch.utils.data import ChainDataset, ConcatDataset, IterableDataset, Subset

from .stateful import SIZE, Items, Plain

__all__ = ["COMPOSED_MAPS", "COMPOSED_STREAMS"]


class More(Items):
    """Other items than those of the first."""

    def __getitem__(self, index: int) -> Any:
        return 100 + index


class MorePlain(Plain):
    def __iter__(self) -> Iterator[Any]:
        return (100 + each for each in super().__iter__())


def _chain() -> IterableDataset[Any]:
    return ChainDataset([Plain(), MorePlain()])


def _numbers(shards: list[int]) -> Iterator[Any]:
    for shard in shards:
        for number in range(5):
            yield {"number": 10 * shard + number}


def _stream_of_hugging_face() -> Any:
    stream: Any = importlib.import_module("datasets").IterableDataset
    return stream.from_generator(_numbers, gen_kwargs={"shards": [0, 1, 2, 3]})


def _mapped_stream_of_hugging_face() -> Any:
    return _hugging_face().to_iterable_dataset(num_shards=2).map(_doubled)


def _doubled(sample: Any) -> Any:
    return {"number": 2 * sample["number"]}


def _hugging_face() -> Any:
    dataset: Any = importlib.import_module("datasets").Dataset
    return dataset.from_dict({"number": list(range(SIZE))})


_HAS_HUGGING_FACE = find_spec("datasets") is not None
#: Iterable datasets.
COMPOSED_STREAMS: dict[str, Callable[[], Any]] = {"ChainDataset": _chain}
#: Map-style datasets of at least ``SIZE`` items.
COMPOSED_MAPS: dict[str, Callable[[], Any]] = {
    "ConcatDataset": lambda: ConcatDataset([Items(), More()]),  # type: ignore[list-item] # they have what it needs
    "Subset": lambda: Subset(More(), range(SIZE - 1, -1, -1)),  # type: ignore[arg-type]
}
if _HAS_HUGGING_FACE:
    COMPOSED_STREAMS |= {
        "Hugging Face": _stream_of_hugging_face,
        "Hugging Face, mapped": _mapped_stream_of_hugging_face,
    }
    COMPOSED_MAPS["Hugging Face"] = _hugging_face
