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
