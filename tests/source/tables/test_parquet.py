"""``ParquetRows``: rows by position, judged by pyarrow; row groups as shards; what is refused."""

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.source import ParquetRows, ShardError, ShardOrder

pa = pytest.importorskip("pyarrow", reason="what it reads with")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of three and one row groups: 25 rows."""
    paths = []
    for number, (start, stop) in enumerate([(0, 18), (18, 25)]):
        table = pa.table({
            "n": list(range(start, stop)),
            "text": [f"é {n}" for n in range(start, stop)],
            "list": [[n, None] for n in range(start, stop)],
        })  # fmt: skip
        path = tmp_path / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=7)
        paths.append(path)
    return paths


def expected(files: list[Path]) -> list[dict[str, Any]]:
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def test_rows_are_those_of_pyarrow(files: list[Path], tmp_path: Path) -> None:
    """By position, by slice, and in order; wildcards and braces; some columns."""
    rows = ParquetRows(f"{tmp_path}/*.parquet", open_groups=1)
    whole = expected(files)
    assert [rows[number] for number in range(len(rows))] == list(rows) == rows[:] == whole
    assert (rows[-1], rows[3:5], rows.shard_sizes) == (whole[-1], whole[3:5], [7, 7, 4, 7])
    some = ParquetRows(f"{tmp_path}/part-{{0..1}}.parquet", columns=["text"])
    assert list(some) == [{"text": row["text"]} for row in whole]
    assert some.read_group(2).column_names == ["text"]
    assert repr(rows) == "ParquetRows(25 rows in 4 groups of 2 files)"
    assert (rows.files, rows.fingerprint) == ([str(path) for path in files], some.fingerprint)
    copied = pickle.loads(pickle.dumps(rows))
    assert list(copied) == whole


def test_row_groups_are_shards(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """An order of few of them reads each once an epoch, from several threads."""
    rows = ParquetRows(files, open_groups=4)
    read: list[int] = []
    opened = ParquetRows._opened

    def count(self: ParquetRows, path: str) -> Any:
        read.append(1)
        return opened(self, path)

    monkeypatch.setattr(ParquetRows, "_opened", count)
    order = ShardOrder(rows, open_shards=2)
    builder = PipelineBuilder().add_source(order).pipe(rows.__getitem__, concurrency=3).add_sink(3)
    pipeline = builder.build(num_threads=3)
    with pipeline.auto_stop():
        assert sorted(row["n"] for row in pipeline) == list(range(25))
    assert len(read) == 4


def test_many_threads_decode_a_group_once(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Others who want it wait for it."""
    rows = ParquetRows(files)
    read: list[int] = []
    opened = ParquetRows._opened

    def count(self: ParquetRows, path: str) -> Any:
        read.append(1)
        return opened(self, path)

    monkeypatch.setattr(ParquetRows, "_opened", count)
    barrier = threading.Barrier(4)
    found: list[Any] = []

    def get() -> None:
        barrier.wait()
        found.append(rows[5]["n"])

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(read)) == ([5] * 4, 1)


def test_any_file_object_is_read(files: list[Path]) -> None:
    """Such as those of a store; they are closed."""
    opened: list[Any] = []

    def open_file(name: str) -> Any:
        opened.append(files[int(name)].open("rb"))
        return opened[-1]

    rows = ParquetRows(["0", "1"], open_file=open_file)
    assert list(rows) == expected(files)
    assert all(file.closed for file in opened)


def test_what_cannot_be_read_is_refused(files: list[Path], tmp_path: Path) -> None:
    """Damage, missing columns, missing files, rows out of range."""
    (tmp_path / "no.txt").write_bytes(b"PAR1 but not really")
    with pytest.raises(ShardError, match=r"cannot read the Parquet file .*no\.txt") as caught:
        ParquetRows(tmp_path / "no.txt")
    assert caught.value.shard == str(tmp_path / "no.txt")
    with pytest.raises(ShardError, match=r"has no columns \['m'\]; it has \['n', 'text', 'list'\]"):
        ParquetRows(files, columns=["n", "m"])
    with pytest.raises(FileNotFoundError, match="missing"):
        ParquetRows(tmp_path / "missing.parquet")
    with pytest.raises(ValueError, match="one file or more"):
        ParquetRows([])
    with pytest.raises(ValueError, match="open_groups must be >= 1, got 0"):
        ParquetRows(files, open_groups=0)
    rows = ParquetRows(files)
    with pytest.raises(IndexError, match="row 25 is out of range for 25 rows"):
        rows[25]
    data = bytearray(files[0].read_bytes())
    data[4:40] = bytes(36)
    files[0].write_bytes(data)
    with pytest.raises(ShardError, match="cannot read the Parquet file"):
        rows[0]
