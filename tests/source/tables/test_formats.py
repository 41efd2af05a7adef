"""What is read of the formats of other libraries: each cell of the guide's table is written, read and compared here.

The libraries write; what was given to them is the judge.
"""

import bz2
import gzip
import lzma
import tarfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.source import CompressedShardError, LanceRows, ShardError, ShardStream, TarIndex
from tests.support.shards import tar_of

GUIDE = Path(__file__).parents[3] / "docs/guides/tables.md"
COUNT = 25

pytestmark = [
    pytest.mark.slow,
    pytest.mark.allow_leaks(reason="the libraries keep threads and files"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

Check = Callable[[Path], object]


@dataclass(frozen=True)
class Format:
    """A row of the table. Each check writes into a folder, reads, and compares."""

    reader: str
    tried: str  #: the library that wrote, and its version
    needs: tuple[str, ...]
    versions: dict[str, Check]
    compressions: dict[str, Check]
    types: dict[str, Check]
    refused: dict[str, Check] = field(default_factory=dict)

    def cells(self, name: str) -> str:
        parts = (self.versions, self.compressions, self.types, self.refused)
        lists = [", ".join(part) or "nothing that the library writes" for part in parts]
        return " | ".join([f"| {name}", self.reader, self.tried, *lists]) + " |"


# -- WebDataset

FILES = [
    (f"{number:03}.{kind}", b"%d" % number * size) for number in range(COUNT) for kind, size in (("a", 1), ("b", 99))
]


def tar(folder: Path, *, format: int = tarfile.PAX_FORMAT, compress: Callable[[bytes], bytes] = bytes) -> None:
    path = folder / "a.tar"
    path.write_bytes(compress(tar_of(FILES, format=format)))
    found: list[Any] = [ShardStream(path), TarIndex.build(path)] if compress is bytes else [ShardStream(path)]
    for samples in found:
        assert [(f"{each['__key__']}.{kind}", each[kind]) for each in samples for kind in ("a", "b")] == FILES


def fields_of_webdataset(folder: Path) -> None:
    """What it encodes is read as the bytes that it reads itself."""
    import webdataset

    path = str(folder / "a.tar")
    with webdataset.TarWriter(path) as writer:
        for number in range(COUNT):
            writer.write(
                {"__key__": f"{number:03}", "txt": f"é {number}", "json": {"n": number}, "cls": number,
                 "npy": np.arange(number), "bin": b"\0" * number}
            )  # fmt: skip
    raw = webdataset.WebDataset(path, shardshuffle=False, empty_check=False)
    expected = [{key: value for key, value in each.items() if key[0] != "_"} for each in raw]
    assert len(expected) == COUNT
    for samples in (TarIndex.build(path), ShardStream(path)):
        assert [{key: value for key, value in each.items() if key[0] != "_"} for each in samples] == expected


def refused_tar(folder: Path, magic: bytes, name: str) -> None:
    (folder / "a.tar").write_bytes(magic + bytes(600))
    for read in (lambda path: list(ShardStream(path)), TarIndex.build):
        with pytest.raises(CompressedShardError, match=name):
            read(folder / "a.tar")


# -- Lance


def lance_table(
    folder: Path, values: list[Any], kind: Any = None, *, version: str = "stable", metadata: Any = None
) -> None:
    import lance
    import pyarrow as pa

    array = pa.array(values, kind)
    schema = pa.schema([pa.field("v", array.type, metadata=metadata)])
    uri = str(folder / "a.lance")
    lance.write_dataset(pa.table([array], schema=schema), uri, data_storage_version=version)
    rows = LanceRows(uri)
    expected = [{"v": value} for value in values]
    assert [rows[number] for number in range(len(rows))] == rows[:] == list(rows) == expected


def lance_types(folder: Path, *kinds: tuple[list[Any], str | None]) -> None:
    import pyarrow as pa

    for number, (values, kind) in enumerate(kinds):
        own = folder / str(number)
        own.mkdir()
        lance_table(own, values, None if kind is None else eval(kind, {"pa": pa}))  # names of types, so import is late


def lance_blobs(folder: Path) -> None:
    for version in ("2.0", "2.1"):
        own = folder / version
        own.mkdir()
        lance_table(own, [b"a", None, b""], "large_binary", version=version, metadata={"lance-encoding:blob": "true"})


def refused_lance(folder: Path, kind: str, version: str, said: str) -> None:
    import lance
    import pyarrow as pa

    blob = pa.field("v", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    own = pa.field("l", pa.list_(blob)) if kind == "list" else blob
    values = [[b"x"]] if kind == "list" else [b"x"]
    uri = str(folder / "a.lance")
    table = pa.table([pa.array(values, own.type)], schema=pa.schema([own]))
    lance.write_dataset(table, uri, data_storage_version=version)
    with pytest.raises(ShardError, match=said):
        LanceRows(uri)


# -- ArrayRecord


def array_record(folder: Path, options: str = "group_size:1") -> None:
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    from array_record.python.array_record_module import ArrayRecordWriter

    path = str(folder / "a.array_record")
    writer = ArrayRecordWriter(path, options)
    values = [b"\0%d" % number * number for number in range(COUNT)]
    for value in values:
        writer.write(value)
    writer.close()
    source = ArrayRecordDataSource([path])
    assert [source[number] for number in range(len(source))] == values


def no_array_record(folder: Path) -> None:
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    (folder / "a.array_record").write_bytes(b"no ArrayRecord" * 9000)
    with pytest.raises(RuntimeError):
        ArrayRecordDataSource([str(folder / "a.array_record")])[0]


# -- LitData


def litdata(folder: Path, value: Any = 7, *, compression: str | None = None) -> None:
    import litdata
    from litdata.streaming.writer import BinaryWriter

    if compression is not None:
        pytest.importorskip("zstandard")
    writer = BinaryWriter(str(folder / "lit"), chunk_size=10, compression=compression)
    for number in range(COUNT):
        writer[number] = {"n": number, "v": value}
    writer.done()
    writer.merge()
    rows = litdata.StreamingDataset(str(folder / "lit"))
    for number in range(COUNT):
        row = rows[number]
        assert row["n"] == number
        found = bytes(row["v"]) if isinstance(row["v"], memoryview) else row["v"]
        assert type(found) is type(value)
        assert np.array_equal(found, value) if hasattr(value, "shape") else found == value


def litdata_of_torch(folder: Path) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        litdata(folder, torch.arange(5))


# -- MDS


def mds(folder: Path, kind: str = "int", value: Any = 7, *, compression: str | None = None) -> None:
    import streaming

    path = str(folder / "mds")
    with streaming.MDSWriter(
        out=path, columns={"n": "int", "v": kind}, compression=compression, size_limit=600
    ) as writer:
        for number in range(COUNT):
            writer.write({"n": number, "v": value})
    rows: Any
    if compression is None:
        rows = streaming.LocalDataset(path)
    else:
        with pytest.raises(FileNotFoundError):  # of the decompressed shard
            streaming.LocalDataset(path)[0]
        rows = streaming.StreamingDataset(local=path, remote=None, batch_size=1, shuffle=False)
    for number in range(COUNT):
        row = rows[number]
        assert row["n"] == number
        assert np.array_equal(row["v"], value) if hasattr(value, "shape") else row["v"] == value


NOW = datetime(2026, 1, 2, 3, 4, 5, 678)
DIRECT: dict[str, Any] = {
    "`int`": 7,
    "`float`": 0.5,
    "`bool`": True,
    "`str`": "é",
    "`bytes` (as `memoryview`)": b"\0a",
    "NumPy arrays": np.arange(6).reshape(2, 3),
}
NULLS, TEXTS = [1, None, 3], ["text" * 200] * COUNT
NUMBERS: list[tuple[list[Any], str | None]] = [
    ([1, 2, None], f"pa.{kind}()") for kind in ("int8", "uint64", "float32", "float64")
]
ZSTD, LZ4 = ({"lance-encoding:compression": name} for name in ("zstd", "lz4"))
NESTED, OLD = "the blobs of 'l.v' are in a list", "in version 0.1 of the format"

FORMATS = {
    "WebDataset": Format(
        "`TarIndex`, `ShardStream`",
        "webdataset 1.0.2",
        ("webdataset",),
        {
            "ustar": partial(tar, format=tarfile.USTAR_FORMAT),
            "GNU": partial(tar, format=tarfile.GNU_FORMAT),
            "PAX": partial(tar, format=tarfile.PAX_FORMAT),
        },
        {
            "none": tar,
            "`ShardStream`: gzip": partial(tar, compress=gzip.compress),
            "bzip2": partial(tar, compress=bz2.compress),
            "xz": partial(tar, compress=lzma.compress),
        },
        {"`bytes` of every file": fields_of_webdataset},
        {
            "Zstandard": partial(refused_tar, magic=b"\x28\xb5\x2f\xfd", name="Zstandard"),
            "LZ4": partial(refused_tar, magic=b"\x04\x22\x4d\x18", name="LZ4"),
        },
    ),
    "MDS": Format(
        "`streaming.LocalDataset`; compressed: `streaming.StreamingDataset(local=…)`",
        "mosaicml-streaming 0.13.0",
        ("streaming",),
        {"2": mds},
        {
            "none": mds,
            "gzip": partial(mds, compression="gz"),
            "bzip2": partial(mds, compression="bz2"),
            "Zstandard": partial(mds, compression="zstd:3"),
            "Brotli": partial(mds, compression="br"),
            "Snappy": partial(mds, compression="snappy"),
        },
        {
            "`int`": mds,
            "`float64`": partial(mds, kind="float64", value=0.5),
            "`int8`": partial(mds, kind="int8", value=np.int8(-3)),
            "`uint16`": partial(mds, kind="uint16", value=np.uint16(9)),
            "`str`": partial(mds, kind="str", value="é"),
            "`bytes`": partial(mds, kind="bytes", value=b"\0a"),
            "`json`": partial(mds, kind="json", value={"a": [1]}),
            "`ndarray`": partial(mds, kind="ndarray", value=np.arange(6).reshape(2, 3)),
            "`str_decimal`": partial(mds, kind="str_decimal", value=Decimal("0.1")),
        },
    ),
    "LitData": Format(
        "`litdata.StreamingDataset`",
        "litdata 0.2.76",
        ("litdata", "torch"),
        {"chunks of its `BinaryWriter`": litdata},
        {"none": litdata, "Zstandard": partial(litdata, compression="zstd")},
        {**{name: partial(litdata, value=value) for name, value in DIRECT.items()}, "tensors": litdata_of_torch},
    ),
    "ArrayRecord": Format(
        "`ArrayRecordDataSource`",
        "array-record 0.8.6",
        ("array_record.python.array_record_data_source",),
        {"`group_size:1`": array_record, "larger groups": partial(array_record, options="group_size:10")},
        {
            "none": partial(array_record, options="group_size:1,uncompressed"),
            "Zstandard": partial(array_record, options="group_size:1,zstd:3"),
            "Brotli": partial(array_record, options="group_size:1,brotli:5"),
            "Snappy": partial(array_record, options="group_size:1,snappy"),
        },
        {"`bytes`": array_record},
        {"other files": no_array_record},
    ),
    "Lance": Format(
        "`LanceRows`",
        "pylance 14.0.2",
        ("lance", "pyarrow"),
        {
            "0.1 (nulls in numbers become 0)": partial(lance_table, values=[1, 2], version="0.1"),
            "2.0": partial(lance_table, values=NULLS, version="2.0"),
            "2.1": partial(lance_table, values=NULLS, version="2.1"),
            "2.2": partial(lance_table, values=NULLS, version="2.2"),
        },
        {
            "none": partial(lance_table, values=[1, 2]),
            "Zstandard": partial(lance_table, values=TEXTS, version="2.1", metadata=ZSTD),
            "LZ4": partial(lance_table, values=TEXTS, version="2.1", metadata=LZ4),
        },
        {
            "numbers": lambda folder: lance_types(folder, *NUMBERS),
            "booleans": lambda folder: lance_types(folder, ([True, None, False], None)),
            "text": lambda folder: lance_types(folder, (["é", None, ""], None), (["a"], "pa.large_string()")),
            "binary": lambda folder: lance_types(folder, ([b"\0", None, b""], None)),
            "blobs": lance_blobs,
            "decimals": lambda folder: lance_types(folder, ([Decimal("1.50"), None], "pa.decimal128(9, 2)")),
            "dates and times": lambda folder: lance_types(
                folder,
                ([date(2026, 1, 2), None], None),
                ([NOW], "pa.timestamp('us')"),
                ([NOW.replace(tzinfo=UTC)], "pa.timestamp('us', 'UTC')"),
            ),
            "lists": lambda folder: lance_types(folder, ([[1, 2], None, []], None)),
            "vectors": lambda folder: lance_types(folder, ([[1.0, 2.0]], "pa.list_(pa.float32(), 2)")),
            "structs": lambda folder: lance_types(folder, ([{"a": 1, "b": {"c": "x"}}], None)),
        },
        {
            "blobs in lists": partial(refused_lance, kind="list", version="2.0", said=NESTED),
            "blobs of version 0.1": partial(refused_lance, kind="", version="legacy", said=OLD),
        },
    ),
}  # fmt: skip


def checks() -> Iterator[Any]:
    for name, each in FORMATS.items():
        for column in ("versions", "compressions", "types", "refused"):
            for label, check in getattr(each, column).items():
                yield pytest.param(each.needs, check, id=f"{name}-{column}-{label}")


@pytest.mark.parametrize(("needs", "check"), list(checks()))
def test_what_is_read(needs: tuple[str, ...], check: Check, tmp_path: Path) -> None:
    """Everything that a cell of the table names."""
    for package in needs:
        pytest.importorskip(package, exc_type=ImportError)
    check(tmp_path)


def test_the_table_is_made_of_what_is_tested() -> None:
    """Its rows are those of ``FORMATS``, word for word."""
    heading = "| format | read with | tried with | versions | compression | fields | refused |"
    _, _, after = GUIDE.read_text(encoding="utf-8").partition(heading + "\n")
    rows = after.split("\n\n")[0].splitlines()[1:]
    assert rows == [each.cells(name) for name, each in FORMATS.items()]
