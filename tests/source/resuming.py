"""Every source, in a pipeline that is stopped in the middle and goes on in another process (``test_resuming.py``)."""

import itertools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.resume import load, save
from spdl.source import (
    DistributedDeterministicSampler,
    DistributedKeyedSampler,
    DistributedRandomSampler,
    HuggingFaceStream,
    ImageFolder,
    JsonLines,
    KeyedMix,
    KeyedPermutation,
    LanceRows,
    ParquetRows,
    ShardMix,
    ShardOrder,
    ShardStream,
    ShuffleBuffer,
    TarIndex,
)
from spdl.source.imagenet import ImageNet
from spdl.source.local_directory import LocalDirectory
from spdl.source.utils import MergeIterator, embed_shuffle, repeat_source
from tests.support.shards import write_shards

__all__ = ["LIBRARIES", "OURS", "Case", "print_rest", "read_some"]

COUNT = 24


@dataclass(frozen=True, slots=True)
class Case:
    """A source.

    Attributes:
        make: From the folder of its data: the source, and what reads an item.
        prepare: Writes the data.
        needs: Packages without which it is skipped.
        covers: Names of ``spdl.source`` that this is about.
        total: How many items are read, of a source without an end. ``None``: all.
        has_state: Whether it is indexed or has a state; else it is read from its start, with a warning.
        concurrency: How many calls read at a time.
    """

    make: Callable[[Path], tuple[Any, Callable[[Any], Any]]]
    prepare: Callable[[Path], object] = lambda _: None
    needs: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    total: int | None = None
    has_state: bool = True
    concurrency: int = 3


def _same(item: Any) -> Any:
    return item


def _alone(source: Any) -> tuple[Any, Callable[[Any], Any]]:
    return source, _same


def _sampled(rows: Any) -> tuple[Any, Callable[[Any], Any]]:
    return DistributedKeyedSampler(len(rows), seed=1), rows.__getitem__


def _by_shard(rows: Any) -> tuple[Any, Callable[[Any], Any]]:
    return ShardOrder(rows, seed=3, open_shards=2), getattr(rows, "read", rows.__getitem__)


def _mixed(*sources: Any) -> tuple[Any, Callable[[Any], Any]]:
    mixed = ShardMix(sources, [2, 1], at_end="repeat", length=COUNT, seed=3, open_shards=2)
    return mixed, mixed.read


# -- data


def _shards(folder: Path) -> None:
    write_shards(folder, [5, 0, 9, 3, COUNT - 17])


def _lines(folder: Path) -> None:
    for part in range(3):
        rows = range(part * 8, part * 8 + 8)
        (folder / f"{part}.jsonl").write_text("".join(json.dumps({"n": row}) + "\n" for row in rows))


def _shards_and_lines(folder: Path) -> None:
    _shards(folder)
    _lines(folder)


def _images(folder: Path) -> None:
    for number in range(COUNT):
        path = folder / "train" / ("n01440764", "n01443537", "n01484850")[number % 3] / f"{number:03}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)


def _parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"n": list(range(COUNT))}), folder / "a.parquet", row_group_size=5)


def _lance(folder: Path) -> None:
    import lance
    import pyarrow as pa

    lance.write_dataset(pa.table({"n": list(range(COUNT))}), str(folder / "a.lance"), max_rows_per_file=7)


def _array_record(folder: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(folder / "a.array_record"), "group_size:1")
    for number in range(COUNT):
        writer.write(b"%d" % number)
    writer.close()


def _mds(folder: Path) -> None:
    import streaming

    with streaming.MDSWriter(out=str(folder / "mds"), columns={"n": "int"}, size_limit=100) as writer:
        for number in range(COUNT):
            writer.write({"n": number})


def _litdata(folder: Path) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder / "lit"), chunk_size=5)
    for number in range(COUNT):
        writer[number] = {"n": number}
    writer.done()
    writer.merge()


# -- sources that need a package


def _hugging_face(count: int = COUNT) -> Any:
    import datasets

    return datasets.Dataset.from_dict({"n": list(range(count))})


def _hugging_face_stream() -> HuggingFaceStream:
    return HuggingFaceStream(_hugging_face(2 * COUNT).to_iterable_dataset(num_shards=4), world_size=2, rank=1)


def _store(folder: Path) -> Any:
    from spdl.remote import RemoteStore

    return RemoteStore(folder)


def _objects(folder: Path) -> tuple[Any, Callable[[Any], Any]]:
    store = _store(folder)
    return [info.path for info in store.list("**/*.JPEG")], store.get


def _objects_shuffled(folder: Path) -> tuple[Any, Callable[[Any], Any]]:
    store = _store(folder)
    names = [info.path for info in store.list("**/*.JPEG")]
    return DistributedKeyedSampler(len(names), seed=4), lambda number: store.get(names[number])


def _opened(folder: Path) -> ShardStream:
    names = sorted(path.name for path in folder.glob("*.tar"))
    return ShardStream(names, seed=2, open_shard=_store(folder).open)


def _array_record_source(folder: Path) -> Any:
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    return ArrayRecordDataSource([str(folder / "a.array_record")])


def _mds_source(folder: Path) -> Any:
    import streaming

    return streaming.LocalDataset(str(folder / "mds"))


def _litdata_source(folder: Path) -> Any:
    import litdata

    return litdata.StreamingDataset(str(folder / "lit"))


_STORE = ("obstore",)

OURS: dict[str, Case] = {
    "a list": Case(lambda _: _alone(list(range(COUNT)))),
    "deterministic sampler": Case(
        lambda _: _alone(DistributedDeterministicSampler(2 * COUNT, rank=1, world_size=2)),
        covers=("DistributedDeterministicSampler",),
    ),
    "random sampler": Case(
        lambda _: _alone(DistributedRandomSampler(2 * COUNT, rank=1, world_size=2)),
        covers=("DistributedRandomSampler",),
    ),
    "keyed sampler": Case(
        lambda _: _alone(DistributedKeyedSampler(2 * COUNT, rank=1, world_size=2, seed=5)),
        covers=("DistributedKeyedSampler",),
    ),
    "keyed permutation": Case(lambda _: _alone(KeyedPermutation(COUNT, 7)), covers=("KeyedPermutation",)),
    "keyed mix": Case(
        lambda _: _alone(KeyedMix([range(16), range(100, 108)], [2, 1], at_end="stop", seed=5)), covers=("KeyedMix",)
    ),
    "embed_shuffle": Case(lambda _: _alone(embed_shuffle(DistributedKeyedSampler(COUNT)))),
    "repeat_source": Case(lambda _: _alone(repeat_source(DistributedKeyedSampler(5))), total=COUNT),
    "merged": Case(lambda _: _alone(MergeIterator([range(16), range(100, 108)], stop_after=COUNT))),
    "tar index": Case(lambda folder: _alone(TarIndex.of(folder)), _shards, covers=("TarIndex", "TarSample")),
    "tar index, keyed": Case(lambda folder: _sampled(TarIndex.of(folder)), _shards),
    "order of shards": Case(lambda folder: _by_shard(TarIndex.of(folder)), _shards, covers=("ShardOrder",)),
    "mix of shards": Case(
        lambda folder: _mixed(TarIndex.of(folder), JsonLines(f"{folder}/*.jsonl")),
        _shards_and_lines,
        covers=("ShardMix",),
    ),
    "stream of shards": Case(
        lambda folder: _alone(ShardStream(f"{folder}/shard-{{000000..000004}}.tar", seed=2)),
        _shards,
        covers=("ShardStream",),
    ),
    "buffer over a stream": Case(
        lambda folder: _alone(ShuffleBuffer(ShardStream(f"{folder}/shard-{{000000..000004}}.tar"), 6, seed=1)),
        _shards,
        covers=("ShuffleBuffer",),
    ),
    "buffer over a list": Case(lambda _: _alone(ShuffleBuffer(list(range(COUNT)), 6, seed=1))),
    "buffer over a generator": Case(lambda _: _alone(ShuffleBuffer((n for n in range(COUNT)), 6, seed=1))),
    "lines of JSON": Case(lambda folder: _alone(JsonLines(f"{folder}/*.jsonl")), _lines, covers=("JsonLines",)),
    "lines of JSON by file": Case(lambda folder: _by_shard(JsonLines(f"{folder}/*.jsonl")), _lines),
    "image folder": Case(lambda folder: _alone(ImageFolder(folder / "train")), _images, covers=("ImageFolder",)),
    "image folder, keyed": Case(lambda folder: _sampled(ImageFolder(folder / "train")), _images),
    "local directory": Case(lambda folder: _alone(LocalDirectory(folder, "**/*.JPEG")), _images, has_state=False),
    "ImageNet": Case(lambda folder: _alone(ImageNet(folder, "train")), _images, has_state=False),
    "objects of a store": Case(_objects, _images, _STORE),
    "objects of a store, keyed": Case(_objects_shuffled, _images, _STORE),
    "image folder in a store": Case(
        lambda folder: _sampled(ImageFolder("train", store=_store(folder), load=_store(folder).get)), _images, _STORE
    ),
    "shards of a store": Case(lambda folder: _by_shard(TarIndex.of(_store(folder), "*.tar")), _shards, _STORE),
    "stream of a store": Case(lambda folder: _alone(ShuffleBuffer(_opened(folder), 4)), _shards, _STORE),
    "lines in a store": Case(lambda folder: _sampled(JsonLines("*.jsonl", store=_store(folder))), _lines, _STORE),
}

_READERS = ("pyarrow",)

LIBRARIES: dict[str, Case] = {
    "Parquet": Case(
        lambda folder: _alone(ParquetRows(folder / "a.parquet")), _parquet, _READERS, covers=("ParquetRows",)
    ),
    "Parquet by row group": Case(lambda folder: _by_shard(ParquetRows(folder / "a.parquet")), _parquet, _READERS),
    "Lance": Case(
        lambda folder: _alone(LanceRows(str(folder / "a.lance"))), _lance, ("lance", "pyarrow"), covers=("LanceRows",)
    ),
    "Lance by fragment": Case(
        lambda folder: _by_shard(LanceRows(str(folder / "a.lance"))), _lance, ("lance", "pyarrow")
    ),
    "Hugging Face": Case(lambda _: _alone(_hugging_face()), needs=("datasets",)),
    "Hugging Face, keyed": Case(lambda _: _sampled(_hugging_face()), needs=("datasets",)),
    "Hugging Face stream": Case(
        lambda _: _alone(_hugging_face_stream()), needs=("datasets",), covers=("HuggingFaceStream",)
    ),
    "buffer over a Hugging Face stream": Case(
        lambda _: _alone(ShuffleBuffer(_hugging_face_stream(), 5)), needs=("datasets",)
    ),
    "ArrayRecord": Case(
        lambda folder: _sampled(_array_record_source(folder)),
        _array_record,
        ("array_record.python.array_record_data_source",),
        concurrency=4,
    ),
    "MDS": Case(lambda folder: _sampled(_mds_source(folder)), _mds, ("streaming",)),
    "LitData": Case(lambda folder: _sampled(_litdata_source(folder)), _litdata, ("litdata",), concurrency=1),
}


def build(case: Case, folder: Path) -> Pipeline[str]:
    """A pipeline over the source, of which the items are texts, in order."""
    source, read = case.make(folder)
    builder = PipelineBuilder().add_source(source).pipe(read, concurrency=case.concurrency, output_order="input")
    return builder.pipe(repr, output_order="input").add_sink(2).build(num_threads=4, resumable=True)


def read_some(case: Case, folder: Path, count: int, state_file: Path | None = None) -> list[str]:
    """The first items of a new pipeline, which is stopped then. The state is saved in the file."""
    pipeline = build(case, folder)
    with pipeline.auto_stop():
        found = list(itertools.islice(pipeline, count))
        if state_file is not None:
            save(state_file, pipeline.state_dict())
    return found


def print_rest(name: str, folder: str, state_file: str, count: int) -> None:
    """What a new pipeline gives that goes on from the state in the file, as JSON. For the main module of a process."""
    case = {**OURS, **LIBRARIES}[name]
    pipeline = build(case, Path(folder))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline.load_state_dict(load(state_file))
        with pipeline.auto_stop():
            rest = list(itertools.islice(pipeline, count))
    said = [str(each.message) for each in caught if each.category is UserWarning]
    print(json.dumps({"rest": rest, "warnings": said}))
