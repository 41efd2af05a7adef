"""``LanceRows``: rows by position, judged by what was written; fragments as shards; versions; what is refused."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.source import LanceRows, ShardError, ShardOrder

lance = pytest.importorskip("lance", reason="what it reads with")
pa = pytest.importorskip("pyarrow")

# Its threads are native and stay; it is large to import.
pytestmark = [pytest.mark.slow, pytest.mark.allow_leaks(reason="Lance keeps its threads and their descriptors")]

ROWS = [{"n": n, "text": f"é {n}"} for n in range(25)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """25 rows in three fragments."""
    path = str(tmp_path / "rows.lance")
    lance.write_dataset(pa.Table.from_pylist(ROWS), path, max_rows_per_file=10, max_rows_per_group=10)
    return path


def test_rows_are_those_written(uri: str) -> None:
    """By position, by slice, several at once, and in order; some columns."""
    rows = LanceRows(uri)
    assert [rows[number] for number in range(len(rows))] == list(rows) == rows[:] == ROWS
    assert (rows[-1], rows.take([7, 3]), rows.shard_sizes) == (ROWS[-1], [ROWS[7], ROWS[3]], [10, 10, 5])
    assert LanceRows(uri, columns=["n"])[4] == {"n": 4}
    assert [rows.fragment_of(number) for number in (0, 9, 10, 24)] == [0, 0, 1, 2]
    assert repr(rows) == f"LanceRows({uri!r}: 25 rows in 3 fragments)"


def test_a_pipeline_reads_them_in_any_order(uri: str) -> None:
    """From several threads, by fragment."""
    rows = LanceRows(uri)
    order = ShardOrder(rows, open_shards=1)
    builder = PipelineBuilder().add_source(order).pipe(rows.__getitem__, concurrency=4)
    pipeline = builder.add_sink(2).build(num_threads=4)
    with pipeline.auto_stop():
        assert sorted(row["n"] for row in pipeline) == list(range(25))


def test_the_version_stays(uri: str) -> None:
    """Rows that are added later belong to another one, for copies too."""
    rows = LanceRows(uri)
    sent = pickle.dumps(rows)
    lance.write_dataset(pa.Table.from_pylist([{"n": 99, "text": ""}]), uri, mode="append")
    copied: Any = pickle.loads(sent)
    assert (copied.version, list(copied), copied.fingerprint) == (1, ROWS, rows.fingerprint)
    assert (len(LanceRows(uri)), len(LanceRows(uri, version=1))) == (26, 25)


def test_what_cannot_be_read_is_refused(uri: str, tmp_path: Path) -> None:
    """Missing datasets and columns, rows out of range."""
    with pytest.raises(ShardError, match=r"cannot open the Lance dataset .*missing"):
        LanceRows(str(tmp_path / "missing.lance"))
    with pytest.raises(ShardError, match=r"has no columns \['m'\]; it has \['n', 'text'\]"):
        LanceRows(uri, columns=["n", "m"])
    with pytest.raises(IndexError, match="row 25 is out of range for 25 rows"):
        LanceRows(uri)[25]


BLOBS: list[Any] = [b"first", None, b"", b"x" * 100_000, b"last", b"\0"]
VERSIONS = ["2.0", "2.1", "2.2"]


def write_blobs(path: Path, version: str, **options: Any) -> str:
    """Blobs in a column and in a field of a struct, in fragments of four rows; pylance writes them."""
    marked = {"lance-encoding:blob": "true"}
    if version == "2.2":
        blob = lance.blob_field("b")
        array = lance.blob_array(BLOBS)
    else:
        blob = pa.field("b", pa.large_binary(), metadata=marked)
        array = pa.array(BLOBS, pa.large_binary())
    numbers = pa.array(range(len(BLOBS)))
    inner = pa.StructArray.from_arrays([numbers, array], fields=[pa.field("k", pa.int64()), blob])
    schema = pa.schema([pa.field("n", pa.int64()), blob, pa.field("s", inner.type)])
    lance.write_dataset(
        pa.table([numbers, array, inner], schema=schema), str(path), data_storage_version=version, max_rows_per_file=4
    )
    return str(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs_are_bytes(version: str, tmp_path: Path) -> None:
    """In each version of the format that has them; nulls are ``None``; pylance's scan says the same."""
    uri = write_blobs(tmp_path / "blobs.lance", version)
    expected = [{"n": n, "b": blob, "s": {"k": n, "b": blob}} for n, blob in enumerate(BLOBS)]
    assert lance.dataset(uri).scanner(blob_handling="all_binary").to_table().to_pylist() == expected
    rows = LanceRows(uri)
    assert [rows[number] for number in range(len(rows))] == list(rows) == rows[:] == expected
    assert rows.take([5, 0, 5]) == [expected[5], expected[0], expected[5]]
    assert rows.take([]) == rows[3:3] == []
    assert LanceRows(uri, columns=["b"]).take([3, 1]) == [{"b": BLOBS[3]}, {"b": None}]
    assert list(LanceRows(uri, columns=["n"])) == [{"n": n} for n in range(len(BLOBS))]
    assert pickle.loads(pickle.dumps(rows))[0] == expected[0]
    lance.dataset(uri).delete("n = 1")
    assert list(LanceRows(uri)) == LanceRows(uri)[:] == expected[:1] + expected[2:]


def test_blobs_that_cannot_be_read_by_row_are_named(tmp_path: Path) -> None:
    """In lists, and in the first version of the format; the other columns are read."""
    blob = pa.field("item", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table({"n": [1], "l": pa.array([[b"x"]], pa.list_(blob))})
    lance.write_dataset(table, str(tmp_path / "l.lance"), data_storage_version="2.0")
    with pytest.raises(ShardError, match=r"the blobs of 'l\.item' are in a list.*Leave this column out"):
        LanceRows(str(tmp_path / "l.lance"))
    assert list(LanceRows(str(tmp_path / "l.lance"), columns=["n"])) == [{"n": 1}]
    table = pa.table([[1], [b"x"]], schema=pa.schema([("n", pa.int64()), blob.with_name("b")]))
    lance.write_dataset(table, str(tmp_path / "old.lance"), data_storage_version="legacy")
    with pytest.raises(ShardError, match=r"the blobs of 'b' are in version 0\.1 of the format"):
        LanceRows(str(tmp_path / "old.lance"))
    assert LanceRows(str(tmp_path / "old.lance"), columns=["n"])[0] == {"n": 1}
