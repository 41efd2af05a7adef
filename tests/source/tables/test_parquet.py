"""``ParquetRows``: rows by position, judged by pyarrow; row groups as shards; what is refused."""

import io
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


class Counted:
    """Opens files, and counts openings and the bytes that are read from each."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.reads: list[tuple[str, int, int]] = []

    def __call__(self, name: str) -> Any:
        self.opened.append(name)
        counted, raw = self, open(name, "rb", buffering=0)  # noqa: SIM115 - the reader closes it

        class File(io.RawIOBase):
            def readable(self) -> bool:
                return True

            def seekable(self) -> bool:
                return True

            def seek(self, offset: int, whence: int = 0, /) -> int:
                return raw.seek(offset, whence)

            def tell(self) -> int:
                return raw.tell()

            def readinto(self, buffer: Any, /) -> int:
                start = raw.tell()
                number = raw.readinto(buffer) or 0
                counted.reads.append((name, start, number))
                return number

            def close(self) -> None:
                raw.close()
                super().close()

        return File()


def test_row_groups_are_shards(files: list[Path]) -> None:
    """An order of few of them reads each once an epoch, from several threads."""
    counted = Counted()
    rows = ParquetRows(files, open_groups=4, open_file=counted)
    counted.reads.clear()
    order = ShardOrder(rows, open_shards=2)
    builder = PipelineBuilder().add_source(order).pipe(rows.__getitem__, concurrency=3).add_sink(3)
    pipeline = builder.build(num_threads=3)
    with pipeline.auto_stop():
        assert sorted(row["n"] for row in pipeline) == list(range(25))
    spans = sorted((name, start) for name, start, number in counted.reads if number)
    assert len(spans) == len(set(spans))  # nothing was read twice
    assert sum(number for *_, number in counted.reads) < sum(path.stat().st_size for path in files)


def test_a_file_is_opened_and_its_footer_read_once(tmp_path: Path) -> None:
    """However many row groups it has, and however little is in them."""
    path = tmp_path / "many.parquet"
    pq.write_table(pa.table({"n": list(range(300)), "text": ["x" * 50] * 300}), path, row_group_size=1)
    counted = Counted()
    rows = ParquetRows(path, open_file=counted, open_groups=2)
    assert [row["n"] for row in rows] == list(range(300))
    assert [rows[number]["n"] for number in range(299, -1, -1)] == list(range(299, -1, -1))
    assert counted.opened == [str(path)]
    assert sum(number for *_, number in counted.reads) < 2.2 * path.stat().st_size


def test_many_threads_decode_a_group_once(files: list[Path]) -> None:
    """Others who want it wait for it."""
    counted = Counted()
    rows = ParquetRows(files, open_file=counted)
    rows.read_group(1)
    counted.reads.clear()
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
    spans = [(start, number) for _, start, number in counted.reads if number]
    assert (found, len(spans)) == ([5] * 4, len(set(spans)))


def test_any_file_object_is_read(files: list[Path]) -> None:
    """Such as those of a store; each is opened once, and closed with the rows."""
    opened: list[Any] = []

    def open_file(name: str) -> Any:
        opened.append(files[int(name)].open("rb"))
        return opened[-1]

    rows = ParquetRows(["0", "1"], open_file=open_file)
    assert list(rows) == expected(files)
    assert len(opened) == 2
    del rows
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


# -- columns


def test_names_with_dots_are_names_first(tmp_path: Path) -> None:
    """A column brings no other one; the path of a nested field gives the column with this field, as in
    ``ParquetFile.read``."""
    nested = [{"b": n, "c": {"d": -n, "e": "x"}} for n in range(4)]
    table = pa.table({"a": nested, "a.b": [10, 11, 12, 13], "q": [1, 2, 3, 4], "q.r": ["w", "x", "y", "z"]})
    path = tmp_path / "dots.parquet"
    pq.write_table(table, path, row_group_size=3)
    assert list(ParquetRows(path)) == table.to_pylist()
    for columns in (["q"], ["a.b"], ["q.r", "q"], ["a"], ["a.b", "a"]):
        right = [{name: row[name] for name in columns} for row in table.to_pylist()]
        assert list(ParquetRows(path, columns=columns)) == right, columns
        rows = ParquetRows(path, columns=columns)
        assert [rows[number] for number in range(4)] == right, columns
    plain = tmp_path / "plain.parquet"
    pq.write_table(table.select(["a", "q"]), plain)
    for columns in (["a.b"], ["a.c.e", "q"], ["a.c"]):
        assert list(ParquetRows(plain, columns=columns)) == pq.ParquetFile(plain).read(columns).to_pylist(), columns
    with pytest.raises(ShardError, match=r"has no columns \['a\.x'\]"):
        ParquetRows(plain, columns=["a.x"])


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """A row could have only one of them; other columns can be read."""
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "b"]), path)
    for columns in (None, ["a"], ["b", "a"]):
        with pytest.raises(ShardError, match="several columns named 'a'"):
            ParquetRows(path, columns=columns)
    assert list(ParquetRows(path, columns=["b"])) == [{"b": 3}]


def _differing(folder: Path, *tables: Any) -> list[Path]:
    paths = [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path)
    return paths


def test_files_of_different_schemas_are_refused_or_promoted(tmp_path: Path) -> None:
    """As pyarrow unifies them; another order of the columns is no difference."""
    one = pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]})
    other = pa.table({"b": ["z"], "a": pa.array([3], pa.int64()), "c": [0.5]})
    paths = _differing(tmp_path, one, other)
    with pytest.raises(ShardError, match=r"column 'a' is int32 and int64 in .*0\.parquet' and .*1\.parquet"):
        ParquetRows(paths)
    assert list(ParquetRows(paths, columns=["b"])) == [{"b": "x"}, {"b": "y"}, {"b": "z"}]
    promoted = pa.concat_tables([one, other], promote_options="permissive")
    rows = ParquetRows(paths, schema="promote")
    assert list(rows) == [rows[n] for n in range(3)] == promoted.to_pylist()
    assert rows.read_group(0).schema == promoted.schema
    given = pa.schema([("a", pa.float64()), ("d", pa.string())])
    assert list(ParquetRows(paths, schema=given)) == [{"a": float(n), "d": None} for n in (1, 2, 3)]
    same = _differing(tmp_path, one, one.select(["b", "a"]))
    assert list(ParquetRows(same)) == one.to_pylist() * 2
    bad = _differing(tmp_path, one, pa.table({"a": [["list"]], "b": ["z"]}))
    with pytest.raises(ShardError, match="cannot promote the types"):
        ParquetRows(bad, schema="promote")
    with pytest.raises(TypeError, match=r"schema must be a pyarrow\.Schema, 'promote' or None, got 'any'"):
        ParquetRows(paths, schema="any")


def test_hive_partitions_are_columns(tmp_path: Path) -> None:
    """With the names and values that pyarrow gives, for a folder and for patterns."""
    import pyarrow.dataset as ds

    table = pa.table(
        {"n": list(range(6)), "y": [2020, 2020, 2021, 2021, 2021, 2022], "k": ["a/b", "c", "01", None, "é", "1"]}
    )
    root = tmp_path / "run=7" / "table"
    ds.write_dataset(table, root, format="parquet", partitioning=["y", "k"], partitioning_flavor="hive")
    right = sorted(ds.dataset(root, partitioning="hive").to_table().to_pylist(), key=lambda row: row["n"])
    assert {row["k"] for row in right} == set(table["k"].to_pylist())
    for where in (root, f"{root}/**/*.parquet", f"{root}/y=*/k=*/*.parquet"):
        rows = ParquetRows(where)
        assert sorted(rows, key=lambda row: row["n"]) == right
        assert sorted((rows[n] for n in range(len(rows))), key=lambda row: row["n"]) == right
    some = ParquetRows(root, columns=["k", "n"])
    assert sorted(some, key=lambda row: row["n"]) == [{"n": row["n"], "k": row["k"]} for row in right]
    assert all(set(row) == {"n"} for row in ParquetRows(root, partitioning=None))
    (file,) = root.glob("y=2022/*/*.parquet")
    assert list(ParquetRows(file)) == [{"n": 5}] == pq.read_table(file, partitioning=None).to_pylist()
    pq.write_table(pa.table({"y": [1]}), file)
    with pytest.raises(ShardError, match="has the column 'y', which is also the name of a folder"):
        ParquetRows(root, columns=["y"])


def test_groups_that_arrow_reads_in_batches_only(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As for nested columns of more than 2 GiB: the rows are the same."""

    def refuse(*_: object, **__: object) -> None:
        raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")

    right = expected(files)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", refuse)
    rows = ParquetRows(files)
    assert [rows[number] for number in range(len(rows))] == right


@pytest.mark.slow
@pytest.mark.soak(only=True)
def test_nested_groups_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """A list of texts, the texts of a group more than 2 GiB."""
    path = tmp_path / "large.parquet"
    text = "x" * (1 << 20)
    writer = pq.ParquetWriter(path, pa.schema([("t", pa.list_(pa.string()))]), compression="zstd")
    with writer:
        large = pa.chunked_array([pa.array([[text] * 100] * 11)] * 2)
        writer.write_table(pa.table({"t": large}), row_group_size=22)
    rows = ParquetRows(path)
    assert rows.shard_sizes == [22]
    assert all(len(rows[number]["t"]) == 100 for number in (0, 21))


@pytest.mark.parametrize("columns", [None, ["n"], ["n", "text"], ["last", "n"], ["s.b", "s.a"], ["last"]])
def test_a_row_group_is_read_at_once(columns: list[str] | None, tmp_path: Path) -> None:
    """With one read if its columns are side by side, and nothing in between if they are far apart."""
    size = 300
    table = pa.table(
        {
            "n": list(range(size)),
            "text": [f"é {number}" for number in range(size)],
            "s": [{"a": number, "b": f"{number}", "c": [number] * 3} for number in range(size)],
            "far": [bytes([number % 251]) * 400 for number in range(size)],
            "last": [number / 2 for number in range(size)],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=["n", "last"])
    counted = Counted()
    rows = ParquetRows(path, columns=columns, open_file=counted, open_groups=1)
    counted.reads.clear()
    with pq.ParquetFile(path) as reference:
        assert list(rows) == reference.read(columns=columns).to_pylist()
    reads = [number for *_, number in counted.reads if number]
    assert len(reads) == 3 * (2 if columns == ["last", "n"] else 1)
    if columns is not None:
        assert sum(reads) < 3 * 100 * 400
