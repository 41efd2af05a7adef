"""``TarIndex`` as a file: saved, opened, out of date, damaged, and built again where shards changed."""

import os
import pickle
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import ShardError, StaleIndexError, TarIndex
from spdl.source._index_file import decode_index, encode_index
from spdl.source._tar_build import KIND
from tests.strategies.profiles import cases
from tests.support.shards import MemoryStore, tar_of, write_shards


def test_the_index_is_saved_beside_the_shards(tmp_path: Path) -> None:
    """And opened the next time; nothing is left over, and a moved folder keeps its index."""
    write_shards(tmp_path, [3, 0, 2])
    first = TarIndex.of(tmp_path)
    assert first.path is not None
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted([Path(first.path).name, *(f"shard-{shard:06}.tar" for shard in range(3))])
    again = TarIndex.of(tmp_path, "*.tar")
    assert (again.path, list(again), again.fingerprint) == (first.path, list(first), first.fingerprint)
    assert len(TarIndex.build(tmp_path)) == len(first) == 5
    assert first.shard_sizes == [3, 0, 2]
    assert first.extensions == ["cls", "txt"]
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    opened = TarIndex.open(moved / Path(first.path).name)
    assert [sample["txt"] for sample in opened] == [b"0 0", b"0 1", b"0 2", b"2 0", b"2 1"]
    assert opened[0]["__url__"] == str(moved / "shard-000000.tar")
    assert opened.fingerprint == first.fingerprint


@pytest.mark.parametrize("change", ["size", "time", "gone", "more"])
def test_a_stale_index_is_noticed(change: str, tmp_path: Path) -> None:
    """``open`` refuses it and names the shard; ``of`` builds it again."""
    paths = write_shards(tmp_path, [3, 2])
    saved = TarIndex.of(tmp_path).path
    assert saved is not None
    if change == "size":
        paths[1].write_bytes(tar_of([("k.txt", b"new")] * 1))
    elif change == "time":
        os.utime(paths[1], ns=(1, 1))
    elif change == "gone":
        paths[1].unlink()
    else:
        write_shards(tmp_path, [1], prefix="zz")
    if change != "more":  # it says nothing of shards that came later
        with pytest.raises(StaleIndexError, match=r"shard-000001\.tar.*Build it again"):
            TarIndex.open(saved)
    index = TarIndex.of(tmp_path)
    assert index.path == saved
    assert len(index) == {"size": 4, "time": 5, "gone": 3, "more": 6}[change]
    assert len(TarIndex.open(saved)) == len(index)


@pytest.mark.parametrize("change", ["byte", "cut", "version", "other"])
def test_a_damaged_index_is_an_error(change: str, tmp_path: Path) -> None:
    """Its checksum is that of every byte."""
    write_shards(tmp_path, [3])
    saved = Path(str(TarIndex.of(tmp_path).path))
    data = bytearray(saved.read_bytes())
    if change == "byte":
        data[-9] ^= 1
    elif change == "version":
        data[8] = 99
    saved.write_bytes(b"no index" if change == "other" else data[: -8 if change == "cut" else None])
    with pytest.raises(ShardError, match=r"tarindex") as caught:
        TarIndex.open(saved)
    assert caught.value.shard == str(saved)
    assert len(TarIndex.of(tmp_path)) == 3


_ODD: list[Any] = [None, True, -1, 0, 7, 10**30, 1.5, "", "x", [], [0], [[]], {}, {"x": -1}]


def _mutants(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Indexes with a right checksum and odd content: of the description, and of each column of numbers."""
    description, columns, _ = decode_index(KIND, memoryview(data), "")
    arrays = {name: array(column.format, column) for name, column in columns.items()}

    def encoded(of: Any, **changed: Any) -> bytes:
        given = {**arrays, **changed}
        return encode_index(KIND, of, {name: each for name, each in given.items() if each is not None})

    for key in ("shards", "extensions"):
        for odd in _ODD:
            yield f"{key} = {odd!r}", encoded({**description, key: odd})
        yield f"no {key}", encoded({name: each for name, each in description.items() if name != key})
    for place in range(5):
        for odd in _ODD:
            rows = [list(row) for row in description["shards"]]
            rows[0][place] = odd
            yield f"shards[0][{place}] = {odd!r}", encoded({**description, "shards": rows})
    for name, column in arrays.items():
        yield f"no {name}", encoded(description, **{name: None})
        yield f"{name} is empty", encoded(description, **{name: array(column.typecode)})
        yield f"{name} is longer", encoded(description, **{name: column + column[-1:]})
        yield f"{name} is backwards", encoded(description, **{name: column[::-1]})
        for place in range(len(column)):
            for odd in (0, 1, 255, 2**63 - 1, 2**64 - 1):
                wide = array("Q", column)
                wide[place] = odd
                yield f"{name}[{place}] = {odd}", encoded(description, **{name: wide})


def test_an_index_with_odd_content_is_built_again(tmp_path: Path) -> None:
    """Though its checksum is right: it is refused or read, but raises nothing else; ``of`` builds what was refused."""
    write_shards(tmp_path, [2, 1])
    saved = Path(str(TarIndex.of(tmp_path).path))
    data = saved.read_bytes()
    right = list(TarIndex.of(tmp_path))
    num_refused = 0
    for what, mutant in _mutants(data):
        saved.write_bytes(mutant)
        try:
            index = TarIndex.open(saved)
        except ShardError:
            num_refused += 1
            assert list(TarIndex.of(tmp_path)) == right, what
            continue
        for number in range(-len(index), len(index)):
            try:
                sample = index[number]
            except ShardError:
                continue
            assert set(sample) <= {*right[0], *index.extensions}, what
    assert num_refused > 200


def test_an_index_that_cannot_be_saved_is_used_all_the_same(tmp_path: Path) -> None:
    """A warning says why, and what to do."""
    write_shards(tmp_path, [3])
    with pytest.warns(UserWarning, match="cannot save the index of 1 shards.*saved_as="):
        assert len(TarIndex.of(tmp_path, saved_as=tmp_path / "missing/index")) == 3


def test_an_index_pickles(tmp_path: Path) -> None:
    """A saved one as its path, another one with its columns; one that was built again meanwhile is not taken for it."""
    paths = write_shards(tmp_path, [3, 2])
    built, saved = TarIndex.build(tmp_path), TarIndex.of(tmp_path)
    assert list(pickle.loads(pickle.dumps(built))) == list(built)
    sent = pickle.dumps(saved)
    assert list(pickle.loads(sent)) == list(built)
    assert str(saved.path).encode() in sent
    paths[1].unlink()
    TarIndex.of(tmp_path)
    with pytest.raises(StaleIndexError, match="built again since"):
        pickle.loads(sent)


def test_only_shards_that_changed_are_read_again(tmp_path: Path) -> None:
    """What is known of the others is taken from the old index, whatever else came or went before them."""
    files = {path.name: path.read_bytes() for path in write_shards(tmp_path, [3, 0, 2, 4])}
    odd = [("README", b"?"), ("x.png", b"1"), ("x.Json", b"2"), ("y.png", b"")]
    store = MemoryStore({**files, "shard-000009.tar": tar_of(odd)})
    TarIndex.of(store)
    del store.objects["shard-000000.tar"]
    store.put("shard-000002.tar", tar_of([("new.txt", b"new")]))
    store.put("another.tar", tar_of([("first.txt", b"first")]))
    store.reads.clear()
    index = TarIndex.of(store)
    assert {path for path, _, _ in store.reads} == {str(index.path), "shard-000002.tar", "another.tar"}
    built = TarIndex.build(store)
    assert (list(index), index.shards, index.fingerprint) == (list(built), built.shards, built.fingerprint)


def test_several_may_build_at_once(tmp_path: Path) -> None:
    """All get the same, one file is left, and it is whole."""
    write_shards(tmp_path, [3, 2])
    barrier = threading.Barrier(4)
    found: list[TarIndex] = []

    def build() -> None:
        barrier.wait()
        found.append(TarIndex.of(tmp_path))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({index.fingerprint for index in found}) == 1
    assert len(list(tmp_path.iterdir())) == 3
    assert list(TarIndex.open(str(found[0].path))) == list(found[0])


def test_large_indexes_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same samples; the file may be replaced meanwhile."""
    write_shards(tmp_path, [3, 2])
    saved = str(TarIndex.of(tmp_path).path)
    monkeypatch.setattr("spdl.source._index_file._MAX_READ", 0)
    index = TarIndex.open(saved)
    whole = list(index)
    write_shards(tmp_path, [1])
    assert len(TarIndex.of(tmp_path)) == 3
    assert [index.key(number) for number in range(5)] == [sample["__key__"] for sample in whole]


def test_other_byte_orders_read_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are little-endian in the file: what is swapped on writing is swapped on reading."""
    write_shards(tmp_path, [3, 2])
    expected = list(TarIndex.build(tmp_path))
    monkeypatch.setattr("sys.byteorder", "big")
    assert list(TarIndex.of(tmp_path)) == list(TarIndex.of(tmp_path)) == expected


@cases(60)
@given(data=st.data())
def test_a_damaged_file_is_never_read_as_an_index(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bytes changed, cut off or added: a ``ShardError`` that names the file."""
    folder = tmp_path_factory.mktemp("damaged")
    write_shards(folder, [2])
    saved = Path(str(TarIndex.of(folder).path))
    whole = bytearray(saved.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "add"]))
    if kind == "change":
        whole[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del whole[place:]
    else:
        whole[place:place] = b"\0"
    saved.write_bytes(whole)
    with pytest.raises(ShardError) as caught:
        TarIndex.open(saved)
    assert caught.value.shard == str(saved)


def test_a_shard_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    """Reading gives whole files, or an error that names the sample."""
    (path,) = write_shards(tmp_path, [3])
    index = TarIndex.build(tmp_path)
    assert index[1]["cls"] == b"1"
    os.truncate(path, 1026)
    with pytest.raises(ShardError, match=r"sample '000/00001'.*shorter than when it was indexed"):
        index[1]


def test_a_shard_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    """When it is opened, also by a copy in another process: its bytes would be those of other samples."""
    (path,) = write_shards(tmp_path, [3])
    index = TarIndex.of(tmp_path)
    sent = pickle.dumps(index)
    path.write_bytes(tar_of([("other.txt", b"x" * 5000)]))
    os.utime(path, ns=(1, 1))
    for each in (index, pickle.loads(sent)):
        with pytest.raises(StaleIndexError, match=r"shard-000000\.tar' has changed since it was indexed"):
            each[0]
