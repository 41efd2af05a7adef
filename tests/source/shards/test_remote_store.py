"""Shards, tables and folders in a ``RemoteStore``: the methods that are asked of a store are those that it has."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from spdl.source import ImageFolder, JsonLines, ShardOrder, ShardStream, StaleIndexError, TarIndex
from tests.support.shards import tar_of, write_shards

pytest.importorskip("obstore", reason="stores need it")
remote = pytest.importorskip("spdl.remote")

pytestmark = pytest.mark.allow_leaks(reason="obstore keeps its threads and their descriptors")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A folder as a store."""
    write_shards(tmp_path, [4, 0, 6])
    return remote.RemoteStore(f"file://{tmp_path}/")


def test_an_index_reads_from_it(store: Any, tmp_path: Path) -> None:
    """By pattern and by name; saved beside the shards; read in another order; sent elsewhere; checked."""
    local = list(TarIndex.build(tmp_path))
    index = TarIndex.of(store, "*.tar")
    assert [sample["txt"] for sample in index] == [sample["txt"] for sample in local]
    assert (tmp_path / str(index.path)).is_file()
    named = TarIndex.of(store, "shard-{000000..000002}.tar")
    assert sorted(map(str, map(named.read, ShardOrder(named)))) == sorted(map(str, index))
    location = index.locate(7)
    assert location.split(store.read(location)) == pickle.loads(pickle.dumps(index))[7]
    index.save(tmp_path / "own.index")
    (tmp_path / "shard-000000.tar").write_bytes(tar_of([("k.txt", b"new")]))
    with pytest.raises(StaleIndexError, match="shard-000000"):
        TarIndex.open(tmp_path / "own.index", store=store)


def test_a_stream_reads_from_it(store: Any, tmp_path: Path) -> None:
    """By its files."""
    names = [f"shard-{number:06}.tar" for number in range(3)]
    found = [sample["txt"] for sample in ShardStream(names, open_shard=store.open)]
    assert found == [sample["txt"] for sample in TarIndex.build(tmp_path)]


def test_tables_and_folders_are_read_from_it(store: Any, tmp_path: Path) -> None:
    """Lines by ranges, folders by listing."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(5)))
    assert [row["n"] for row in JsonLines("*.jsonl", store=store)] == list(range(5))
    for name in ("train/cat/x/1.jpg", "train/dog/2.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(name.encode())
    dataset = ImageFolder("train", store=store, load=store.get)
    assert (dataset.classes, dataset[:]) == (["cat", "dog"], [(b"train/cat/x/1.jpg", 0), (b"train/dog/2.jpg", 1)])
