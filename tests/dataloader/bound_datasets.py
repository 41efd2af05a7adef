"""Map-style datasets that keep something open: opened at once or on first use, by themselves or by a part of them.

Sample ``index`` is ``expected(index)`` for all of them.
"""

import io
import os
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch.utils.data import ConcatDataset, Subset

LENGTH: Final = 48
SIZE: Final = 8


def expected(index: int) -> int:
    return index * index + 7


def record(index: int) -> bytes:
    return f"{expected(index):0{SIZE}}".encode()


def write_all(folder: Path) -> None:
    """Write the same records in every format whose library is there."""
    records = [record(index) for index in range(LENGTH)]
    (folder / "plain").write_bytes(b"".join(records))
    np.save(folder / "array.npy", np.array([expected(index) for index in range(LENGTH)]))
    with zipfile.ZipFile(folder / "records.zip", "w") as archive:
        for index, each in enumerate(records):
            archive.writestr(str(index), each)
    with tarfile.open(folder / "records.tar", "w") as tar:
        for index, each in enumerate(records):
            info = tarfile.TarInfo(str(index))
            info.size = len(each)
            tar.addfile(info, io.BytesIO(each))
    connection = sqlite3.connect(folder / "records.db")
    with connection:
        connection.execute("create table records (id integer primary key, value integer)")
        rows = [(index, expected(index)) for index in range(LENGTH)]
        connection.executemany("insert into records values (?, ?)", rows)
    connection.close()
    for kind, write in _WRITERS.items():
        try:
            write(folder, records)
        except ImportError:
            OPENERS.pop(kind, None)


def _write_lmdb(folder: Path, records: list[bytes]) -> None:
    import lmdb

    with lmdb.open(str(folder / "lmdb")) as environment, environment.begin(write=True) as transaction:
        for index, each in enumerate(records):
            transaction.put(str(index).encode(), each)


def _write_h5py(folder: Path, records: list[bytes]) -> None:
    import h5py

    with h5py.File(folder / "records.h5", "w") as file:
        file["values"] = [int(each) for each in records]


def _write_parquet(folder: Path, records: list[bytes]) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"value": [int(each) for each in records]})
    parquet.write_table(table, folder / "records.parquet", row_group_size=1)


_WRITERS: Final[dict[str, Callable[[Path, list[bytes]], None]]] = {
    "lmdb": _write_lmdb,
    "h5py": _write_h5py,
    "parquet": _write_parquet,
    "arrow": _write_parquet,
}


def _open_lmdb(folder: Path) -> Any:
    import lmdb

    return lmdb.open(str(folder / "lmdb"), readonly=True, lock=False).begin()


def _open_h5py(folder: Path) -> Any:
    import h5py

    return h5py.File(folder / "records.h5")


def _open_parquet(folder: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(folder / "records.parquet")


def _open_arrow(folder: Path) -> Any:
    import pyarrow

    return pyarrow.OSFile(str(folder / "plain"))


def _seek(file: Any, index: int) -> int:
    file.seek(index * SIZE)
    return int(file.read(SIZE))


def _read_tar(tar: Any, index: int) -> int:
    member = tar.extractfile(str(index))
    return int(member.read())


def _read_row(connection: Any, index: int) -> int:
    return int(connection.execute("select value from records where id = ?", (index,)).fetchone()[0])


#: How each kind is opened, and how a sample is read from it.
OPENERS: Final[dict[str, tuple[Callable[[Path], Any], Callable[[Any, int], int]]]] = {
    "file": (lambda folder: (folder / "plain").open("rb"), _seek),
    "text": (lambda folder: (folder / "plain").open(encoding="ascii"), _seek),
    "raw": (lambda folder: (folder / "plain").open("rb", buffering=0), _seek),
    "memory": (lambda folder: io.BytesIO((folder / "plain").read_bytes()), _seek),
    "zip": (lambda folder: zipfile.ZipFile(folder / "records.zip"), lambda zip, index: int(zip.read(str(index)))),
    "tar": (lambda folder: tarfile.TarFile(folder / "records.tar"), _read_tar),
    "sqlite": (lambda folder: sqlite3.connect(folder / "records.db"), _read_row),
    "lmdb": (_open_lmdb, lambda transaction, index: int(transaction.get(str(index).encode()))),
    "h5py": (_open_h5py, lambda file, index: int(file["values"][index])),
    "parquet": (_open_parquet, lambda file, index: int(file.read_row_group(index)["value"][0].as_py())),
    "arrow": (_open_arrow, _seek),
}


class Reader:
    """Reads samples of one kind."""

    def __init__(self, kind: str, folder: Path, at_once: bool) -> None:
        self.kind = kind
        self.folder = folder
        self.source = OPENERS[kind][0](folder) if at_once else None

    def __call__(self, index: int) -> int:
        if self.source is None:
            self.source = OPENERS[self.kind][0](self.folder)
        return OPENERS[self.kind][1](self.source, index)

    def close(self) -> None:
        close = getattr(self.source, "close", None) or getattr(self.source, "abort", None)
        if callable(close):
            close()


class Own(Reader):
    """A dataset that has the open object."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        return self(index)


class Nested:
    """A dataset with a part that has it: as an attribute, or among transforms."""

    def __init__(self, reader: Any) -> None:
        self.transforms = {"read": [reader]}

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        value: int = self.transforms["read"][0](index)
        return value


class Mapped:
    """An array in a mapped file: threads share it."""

    def __init__(self, folder: Path) -> None:
        self.array = np.load(folder / "array.npy", mmap_mode="r")

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])


class PerCall:
    """Opens the file for each sample."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plain"

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        with self.path.open("rb") as file:
            return _seek(file, index)


class Descriptor:
    """A descriptor of the system, with a position."""

    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder / "plain", os.O_RDONLY)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        os.lseek(self.fd, index * SIZE, os.SEEK_SET)
        return int(os.read(self.fd, SIZE))


#: Where the object is.
HOLDERS: Final[dict[str, Callable[[Reader], Any]]] = {
    "own": lambda reader: Own(reader.kind, reader.folder, False) if reader.source is None else _owning(reader),
    "nested": Nested,
    "subset": lambda reader: Subset(_nested(reader), range(LENGTH)),
    "joined": lambda reader: ConcatDataset(
        [Subset(_nested(reader), range(9)), Subset(_nested(reader), range(9, LENGTH))]
    ),
}


def _nested(reader: Reader) -> Any:
    return Nested(reader)


def _owning(reader: Reader) -> Own:
    own = Own(reader.kind, reader.folder, False)
    own.source = reader.source
    return own
