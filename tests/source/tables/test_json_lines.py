"""``JsonLines``: rows by position, judged by reading the file; its index; what is refused."""

import contextlib
import csv
import gzip
import json
import os
import pickle
import tracemalloc
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder
from spdl.source import CompressedShardError, JsonLines, ShardError, ShardOrder, _json_lines
from spdl.source._index_file import as_column, decode_index, encode_index
from tests.strategies.profiles import cases
from tests.support.shards import MemoryStore

ROWS = [{"text": f"é {number}", "n": number} for number in range(7)]


def write(path: Path, rows: list[Any], end: str = "\n") -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + end for row in rows), encoding="utf-8", newline="")
    return path


@cases(100)
@given(
    lines=st.lists(st.sampled_from(["", "  ", "1", '"a\\nb"', '{"é": [1, 2]}', "[]\r"]), max_size=12),
    ends=st.booleans(),
    block=st.integers(1, 40),
)
def test_rows_are_the_lines_of_the_file(
    lines: list[str], ends: bool, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Empty lines are ignored, the last line may lack its end, and blocks may divide lines anywhere."""
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text("\n".join(lines) + ("\n" if ends else ""), encoding="utf-8", newline="")
    expected = [json.loads(line) for line in lines if line.strip()]
    before, _json_lines._BLOCK = _json_lines._BLOCK, block  # type: ignore[misc]  # to try small ones
    try:
        rows = JsonLines(path)
    finally:
        _json_lines._BLOCK = before  # type: ignore[misc]
    assert list(rows) == [rows[number] for number in range(len(rows))] == rows[:] == expected
    assert list(JsonLines(path)) == expected


def test_files_are_shards(tmp_path: Path) -> None:
    """Several files in order, one of them empty; ``ShardOrder`` takes one at a time."""
    for number, own in enumerate([ROWS[:3], [], ROWS[3:]]):
        write(tmp_path / f"part-{number}.jsonl", own)
    rows = JsonLines(f"{tmp_path}/part-{{0..2}}.jsonl")
    assert list(rows) == list(JsonLines(f"{tmp_path}/*.jsonl")) == ROWS
    assert rows.shard_sizes == [3, 0, 4]
    assert rows.files == [str(tmp_path / f"part-{number}.jsonl") for number in range(3)]
    order = ShardOrder(rows, open_shards=1)
    pipeline = PipelineBuilder().add_source(order).pipe(rows.__getitem__).add_sink(2).build(num_threads=1)
    with pipeline.auto_stop():
        found = [row["n"] for row in pipeline]
    assert sorted(found) == list(range(7))
    assert {n < 3 for n in found[:3]} != {True, False}
    assert (rows[-1], repr(rows)) == (ROWS[6], "JsonLines(7 rows in 3 files)")
    assert list(pickle.loads(pickle.dumps(rows))) == ROWS


def test_the_index_is_saved_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used while the file is the same, and made again when it is not."""
    path = write(tmp_path / "a.jsonl", ROWS)
    first = JsonLines(path)
    assert [each.name for each in tmp_path.iterdir() if each != path] == [".a.jsonl.spdl-lines"]
    monkeypatch.setattr(_json_lines, "_scan", lambda *_: pytest.fail("the lines are looked up again"))
    again = JsonLines(path)
    assert (list(again), again.fingerprint) == (ROWS, first.fingerprint)
    monkeypatch.undo()
    write(path, ROWS[:2])
    assert list(JsonLines(path)) == ROWS[:2]
    (tmp_path / ".a.jsonl.spdl-lines").write_bytes(b"damaged")
    assert list(JsonLines(path)) == ROWS[:2]


def test_an_index_that_cannot_be_saved_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning says why; ``save_index=False`` saves none."""

    def fail(*_: Any) -> None:
        raise PermissionError("read-only")

    path = write(tmp_path / "a.jsonl", ROWS)
    monkeypatch.setattr("spdl.source._stores.write_whole", fail)
    with pytest.warns(UserWarning, match=r"cannot save where the lines of .*a\.jsonl.*read-only.*save_index=False"):
        assert list(JsonLines(path)) == ROWS
    assert list(JsonLines(path, save_index=False)) == ROWS
    assert os.listdir(tmp_path) == ["a.jsonl"]


def test_a_store_is_read_by_ranges(tmp_path: Path) -> None:
    """One read for a row, of its bytes; the index is put beside the object."""
    data = write(tmp_path / "a.jsonl", ROWS).read_bytes()
    store = MemoryStore({"data/a.jsonl": data})
    assert list(JsonLines("data/*.jsonl", store=store)) == ROWS
    assert set(store.objects) == {"data/a.jsonl", "data/.a.jsonl.spdl-lines"}
    store.reads.clear()
    rows = JsonLines("data/a.jsonl", store=store)
    assert [path for path, _, _ in store.reads] == ["data/.a.jsonl.spdl-lines"]
    store.reads.clear()
    assert rows[3] == ROWS[3]
    assert store.reads == [("data/a.jsonl", data.index(b'{"text": "\xc3\xa9 3"'), len(data.splitlines(True)[3]))]


def test_a_line_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    """It names the file and the byte, when the row is read; other rows can be read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n3\n')
    rows = JsonLines(path)
    assert (len(rows), rows[0], rows[2]) == (3, {"a": 1}, 3)
    with pytest.raises(ShardError, match=r"cannot parse row 1 of .*a\.jsonl', at byte 9: Expecting value") as caught:
        rows[1]
    assert (caught.value.shard, caught.value.offset) == (str(path), 9)
    assert JsonLines(path, parse=bytes)[1] == b'{"a": '


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    """Half a line is no row."""
    path = write(tmp_path / "a.jsonl", ROWS)
    rows = JsonLines(path)
    os.truncate(path, 30)
    with pytest.raises(ShardError, match="The file is shorter than when it was indexed"):
        rows[6]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Compressed files, missing files, rows out of range."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"1\n"))
    with pytest.raises(CompressedShardError, match=r"a\.jsonl\.gz.*Decompress it first"):
        JsonLines(tmp_path / "a.jsonl.gz")
    for missing in (tmp_path / "missing", f"{tmp_path}/*.jsonl"):
        with pytest.raises(FileNotFoundError, match="no such shard or file"):
            JsonLines(missing)
    with pytest.raises(ValueError, match="one file or more"):
        JsonLines([])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    rows = JsonLines(tmp_path / "empty.jsonl")
    assert len(rows) == 0
    with pytest.raises(IndexError, match="row 0 is out of range for 0 rows"):
        rows[0]


#: What a line may have at its ends, and what may end it.
PIECES = st.sampled_from(
    [b"", b" ", b"\t", b"\t\t", b"    ", b"a", b"\xc3\xa9", b"\r", b"x\ty", b"\xef\xbb\xbf", b"\x0c"]
)
LINES = st.lists(
    st.tuples(st.lists(PIECES, max_size=4).map(b"".join), st.sampled_from([b"\n", b"\r\n", b"\n", b"\r\n\n"])),
    max_size=9,
)


def split(data: bytes) -> list[bytes]:
    """The lines that are not empty, by the definition."""
    found = [line.removesuffix(b"\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    if data.endswith(b"\r") and found:  # no line end
        found[-1] += b"\r"
    return [line for line in found if line]


@cases(200)
@given(lines=LINES, rest=st.lists(PIECES, max_size=3).map(b"".join), mark=st.booleans(), block=st.integers(1, 30))
def test_a_line_is_what_stands_before_its_end(
    lines: list[tuple[bytes, bytes]], rest: bytes, mark: bool, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With its blanks and tabs, for any parser; a byte-order mark belongs to no line; the saved index says the same."""
    data = b"\xef\xbb\xbf" * mark + b"".join(line + end for line, end in lines) + rest
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(data)
    expected = split(data)
    before, _json_lines._BLOCK = _json_lines._BLOCK, block  # type: ignore[misc]  # to try small ones
    try:
        rows = JsonLines(path, parse=bytes)
    finally:
        _json_lines._BLOCK = before  # type: ignore[misc]
    assert list(rows) == [rows[number] for number in range(len(rows))] == expected
    assert list(JsonLines(path, parse=bytes)) == expected
    assert JsonLines(path, save_index=False).shard_sizes == [sum(bool(line.strip()) for line in expected)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tables_and_code_keep_their_blanks(end: str, tmp_path: Path) -> None:
    """The csv module reads the same fields of a TSV file; the indentation of code stays."""
    rows = [["a", "", ""], ["", "b", " c "], ["", "", ""], ["", "\xe9", ""]]
    path = tmp_path / "a.tsv"
    path.write_text("".join("\t".join(row) + end for row in rows), encoding="utf-8-sig", newline="")
    with path.open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file, delimiter="\t")) == rows
    assert list(JsonLines(path, parse=lambda line: line.decode().split("\t"))) == rows
    code = ["def f():", "    return 1", "\tx = ' '  ", "    "]
    path.write_text(end.join(code), newline="")
    assert list(JsonLines(path, parse=bytes.decode)) == code


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_json(encoding: str, tmp_path: Path) -> None:
    """Nor is it text of the first row, with a parser that does not know it; each file may have one."""
    for number in range(2):
        (tmp_path / f"{number}.jsonl").write_text('{"a": "é"}\n \t\n[1]\n', encoding=encoding)
    names = f"{tmp_path}/{{0..1}}.jsonl"
    assert list(JsonLines(names)) == [{"a": "é"}, [1]] * 2
    assert list(JsonLines(names, parse=bytes.decode)) == ['{"a": "é"}', " \t", "[1]"] * 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_other_encodings_are_named(encoding: str, tmp_path: Path) -> None:
    """Their lines cannot be found by bytes."""
    path = tmp_path / "a.jsonl"
    path.write_text("\ufeff" * encoding.endswith("be") + '{"a": 1}\n', encoding=encoding)
    with pytest.raises(ShardError, match=r"UTF-16 or UTF-32\. Convert it to UTF-8 first"):
        JsonLines(path)


def test_lines_of_any_length_take_linear_time(tmp_path: Path) -> None:
    """What was read of a long line is not kept: the memory that indexing takes does not grow with the line."""
    size = 1 << 20
    path = tmp_path / "a.txt"
    path.write_bytes(b"y" * size + b"\n" + b" " * size + b"\nend\n")
    store = MemoryStore({"a.txt": path.read_bytes()})
    before, _json_lines._BLOCK = _json_lines._BLOCK, 1 << 12  # type: ignore[misc]  # many blocks for a line
    tracemalloc.start()
    try:
        rows = JsonLines("a.txt", store=store, parse=bytes, save_index=False)
        assert tracemalloc.get_traced_memory()[1] < size // 8
    finally:
        tracemalloc.stop()
        _json_lines._BLOCK = before  # type: ignore[misc]
    assert [len(row) for row in rows] == [size, size, 3]


def test_an_index_of_an_earlier_release_is_made_again(tmp_path: Path) -> None:
    """It lacks lines of white space."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n \nb\n")
    facts = {"size": 6, "etag": f"{path.stat().st_mtime_ns}"}
    old = encode_index("lines", facts, {"starts": as_column([0, 4, 6], 6)})
    (tmp_path / ".a.txt.spdl-lines").write_bytes(old)
    assert list(JsonLines(path, parse=bytes)) == [b"a", b" ", b"b"]


def test_a_store_is_asked_rarely(tmp_path: Path) -> None:
    """While the lines are looked up: each byte once; later: the index alone."""
    data = b"".join(b'{"n": %d}\n' % number for number in range(1000))
    store = MemoryStore({"a.jsonl": data})
    JsonLines("a.jsonl", store=store)
    own = [(start, length) for path, start, length in store.reads if path == "a.jsonl"]
    assert own == [(0, len(data))]
    listings = len(store.listings)
    store.reads.clear()
    assert len(JsonLines("a.jsonl", store=store)) == 1000
    assert [path for path, _, _ in store.reads] == [".a.jsonl.spdl-lines"]
    assert len(store.listings) == 2 * listings == 4


def _odd_indexes(data: bytes, size: int) -> Iterator[tuple[str, bytes]]:
    """Indexes of the lines with a right checksum and odd content."""
    description, columns, _ = decode_index(_json_lines._KIND, memoryview(data), "")
    arrays = {name: array(column.format, column) for name, column in columns.items()}
    odds: list[Any] = [None, True, -1, 0, 10**30, 1.5, "x", [], {}]
    for odd in odds:
        for key in ("size", "etag"):
            yield f"{key} = {odd!r}", encode_index(_json_lines._KIND, {**description, key: odd}, arrays)
    starts = arrays["starts"]
    for blank in ([size], [0], [1], [-1], [3, 3], [2**62]):
        changed = {**arrays, "blank": array("q", blank)}
        if blank != [0]:  # the first line could be blank
            yield f"blank = {blank}", encode_index(_json_lines._KIND, description, changed)
    for place in range(len(starts)):
        for start in (-5, -1, 0, 1, size - 1, size, size + 1, 2**62):
            wide = array("q", starts)
            wide[place] = start
            yield f"starts[{place}] = {start}", encode_index(_json_lines._KIND, description, {**arrays, "starts": wide})
    for column in (starts[:0], starts[:1], starts[::-1], starts + starts[-1:], starts[:2] + starts[3:]):
        yield f"starts = {column}", encode_index(_json_lines._KIND, description, {**arrays, "starts": column})


def test_an_odd_index_gives_no_other_rows(tmp_path: Path) -> None:
    """Though its checksum is right: the lines are looked up again, or a row that is not one is an error."""
    path = write(tmp_path / "a.jsonl", ROWS)
    JsonLines(path)
    saved = tmp_path / ".a.jsonl.spdl-lines"
    data = saved.read_bytes()
    for what, mutant in _odd_indexes(data, path.stat().st_size):
        saved.write_bytes(mutant)
        rows = JsonLines(path)
        if len(rows) == len(ROWS) and list(_readable(rows)) == ROWS:
            continue
        found = list(_readable(rows))
        assert all(row in ROWS for row in found), what
        assert len(found) < len(rows), what


def _readable(rows: Any) -> Iterator[Any]:
    for number in range(len(rows)):
        with contextlib.suppress(ShardError):
            yield rows[number]
