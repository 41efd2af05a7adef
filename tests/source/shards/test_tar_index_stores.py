"""``TarIndex`` of shards in a store: what is asked of it, and where the index is kept."""

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spdl.source import StaleIndexError, TarIndex
from tests.support.shards import MemoryStore, tar_of, write_shards


def test_a_store_is_read_by_ranges(tmp_path: Path) -> None:
    """One read for a sample, of its bytes alone; the version goes along; the index is put beside the shards."""
    paths = write_shards(tmp_path, [3, 2])
    store = MemoryStore({f"train/{path.name}": path.read_bytes() for path in paths})
    index = TarIndex.of(store, "train/*.tar")
    assert [sample["txt"] for sample in index] == [b"0 0", b"0 1", b"0 2", b"1 0", b"1 1"]
    store.reads.clear()
    sample = index.locate(4)
    assert sample.etag == "v1"
    assert index[sample] == index[4] == sample.split(store.read(sample))
    assert store.reads == [(sample.path, sample.offset, sample.length)] * 3
    store.reads.clear()
    again = TarIndex.of(store, "train/*.tar")
    assert store.reads == [(str(index.path), 0, len(store.objects[str(index.path)]))]
    assert list(again) == list(index) == list(pickle.loads(pickle.dumps(index)))
    store.put("train/shard-000000.tar", tar_of([("new.txt", b"new")]))
    assert len(TarIndex.of(store, "train/shard-{000000..000001}.tar")) == 3


def test_a_store_that_cannot_be_listed_is_asked_for_each_shard(tmp_path: Path) -> None:
    """Such as a web server: names are given, and patterns are an error."""
    (path,) = write_shards(tmp_path, [3])

    class Unlisted(MemoryStore):
        def list(self, pattern: str, /) -> list[Any]:
            raise RuntimeError("cannot be listed")

        def head(self, name: str) -> Any:
            found = super().list(name)
            if not found:
                raise FileNotFoundError(name)
            return found[0]

    store = Unlisted({path.name: path.read_bytes()})
    assert list(TarIndex.of(store, path.name)) == list(TarIndex.of(store, path.name))
    assert len(store.objects) == 2
    with pytest.raises(FileNotFoundError, match="missing"):
        TarIndex.of(store, "missing.tar")
    with pytest.raises(RuntimeError, match="cannot be listed"):
        TarIndex.of(store, "*.tar")


def test_an_index_of_a_store_can_be_a_local_file(tmp_path: Path) -> None:
    """Where the store may only be read; it is opened by name too."""
    (path,) = write_shards(tmp_path, [3])
    store = MemoryStore({path.name: path.read_bytes()})
    index = TarIndex.of(store, saved_as=tmp_path / "own.index")
    assert (list(store.objects), index.path) == ([path.name], str(tmp_path / "own.index"))
    store.reads.clear()
    again = TarIndex.of(store, saved_as=tmp_path / "own.index")
    assert store.reads == []
    opened = TarIndex.open(tmp_path / "own.index", store=store)
    assert list(again) == list(opened) == list(index) == list(pickle.loads(pickle.dumps(opened)))
    store.put(path.name, tar_of([("new.txt", b"new")]))
    with pytest.raises(StaleIndexError, match="shard-000000"):
        TarIndex.open(tmp_path / "own.index", store=store)
    store.put = None  # type: ignore[assignment,method-assign]
    with pytest.warns(UserWarning, match=r"cannot save the index .* has no method put.*saved_as= names another place"):
        assert len(TarIndex.of(store)) == 1


def test_large_files_of_a_store_are_not_read(tmp_path: Path) -> None:
    """Building reads windows; what is larger is passed over."""
    large = bytes(9 << 20)
    store = MemoryStore({"a.tar": tar_of([("a.bin", large), ("a.txt", b"end")])})
    index = TarIndex.build(store)
    assert index[0]["txt"] == b"end"
    assert sum(length for _, _, length in store.reads[:2]) < 5 << 20


def test_requests_are_few(tmp_path: Path) -> None:
    """For a hundred shards: two listings, one read of each; the next time, two listings and one read of the index."""
    paths = write_shards(tmp_path, [2] * 100)
    store = MemoryStore({f"train/{path.name}": path.read_bytes() for path in paths})
    names = "train/shard-{000000..000099}.tar"
    index = TarIndex.of(store, names)
    assert len(store.listings) == 2
    assert sorted(path for path, _, _ in store.reads) == sorted(store.objects.keys() - {index.path})
    assert sum(length for _, _, length in store.reads) == sum(path.stat().st_size for path in paths)
    store.reads.clear()
    store.listings.clear()
    again = TarIndex.of(store, names)
    assert (len(store.listings), len(store.reads)) == (2, 1)
    store.reads.clear()
    assert len(list(again)) == 200
    assert len(store.reads) == 200
    assert sum(length for _, _, length in store.reads) == sum(again.locate(number).length for number in range(200))


def test_an_archive_is_read_once_while_it_is_indexed() -> None:
    """No byte twice, however the headers lie in the windows; what is larger than a window is passed over."""
    files = [(f"{number:05}.bin", bytes(number * 997)) for number in range(150)]
    data = tar_of([*files, ("large.bin", bytes(5 << 20)), ("last.bin", b"x")])
    store = MemoryStore({"a.tar": data})
    assert len(TarIndex.build(store)) == 152
    places = sorted((start, start + length) for _, start, length in store.reads)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(places))
    assert len(places) <= 5
