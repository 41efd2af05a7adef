"""Datasets of other libraries that can be indexed: sources as they are, in any order, resumed exactly."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedKeyedSampler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="the libraries keep threads and files"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

COUNT = 200


def read_all(dataset: Any, number_of: Callable[[Any], int], *, concurrency: int) -> list[int]:
    """The numbers in all samples, in random order, over two pipelines, of which the second goes on."""

    def build() -> Any:
        sampler = DistributedKeyedSampler(len(dataset), seed=1)
        builder = PipelineBuilder().add_source(sampler).pipe(dataset.__getitem__, concurrency=concurrency)
        return builder.pipe(number_of).add_sink(2).build(num_threads=4, resumable=True)

    first = build()
    with first.auto_stop():
        found = list(itertools.islice(first, 10))
        state = first.state_dict()
    second = build()
    second.load_state_dict(state)
    with second.auto_stop():
        return found + list(second)


def test_array_record_is_a_source_as_it_is(tmp_path: Path) -> None:
    """``ArrayRecordDataSource``, from several threads."""
    writing = pytest.importorskip("array_record.python.array_record_module")
    reading = pytest.importorskip("array_record.python.array_record_data_source")
    path = str(tmp_path / "a.array_record")
    writer = writing.ArrayRecordWriter(path, "group_size:1")
    for number in range(COUNT):
        writer.write(b"%d" % number)
    writer.close()
    found = read_all(reading.ArrayRecordDataSource([path]), int, concurrency=4)
    assert sorted(found) == list(range(COUNT))


def test_mds_is_a_source_as_it_is(tmp_path: Path) -> None:
    """``streaming.LocalDataset``, from several threads."""
    streaming = pytest.importorskip("streaming")
    with streaming.MDSWriter(out=str(tmp_path / "mds"), columns={"n": "int"}, size_limit=1000) as writer:
        for number in range(COUNT):
            writer.write({"n": number})
    found = read_all(streaming.LocalDataset(str(tmp_path / "mds")), lambda row: int(row["n"]), concurrency=4)
    assert sorted(found) == list(range(COUNT))


def test_litdata_is_a_source_as_it_is(tmp_path: Path) -> None:
    """``litdata.StreamingDataset``, which one thread at a time may read."""
    litdata = pytest.importorskip("litdata")
    writing = pytest.importorskip("litdata.streaming.writer")
    writer = writing.BinaryWriter(str(tmp_path / "lit"), chunk_size=50)
    for number in range(COUNT):
        writer[number] = {"n": number}
    writer.done()
    writer.merge()
    found = read_all(litdata.StreamingDataset(str(tmp_path / "lit")), lambda row: int(row["n"]), concurrency=1)
    assert sorted(found) == list(range(COUNT))
