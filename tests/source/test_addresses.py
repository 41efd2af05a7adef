"""Names, addresses and servers through every door: whatever one accepts, all accept, and they read the same bytes.

The names are those of real buckets. What an address means is judged by others: web servers decode paths with
``urllib``, folders are filled through ``pathlib``, and fsspec's store is filled by fsspec.
"""

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from spdl.io import load_image, load_image_batch, to_numpy
from spdl.remote import RemoteObject, RemoteStore
from spdl.source import JsonLines, ParquetRows, ShardOrder, ShardStream, TarIndex
from tests.support.object_server import ObjectServer, serve, warm_up

pytest.importorskip("obstore")

NAMES = [
    *("plain", "a b", "a%20b", "100%", "x[1]", "x[!a]", "{a,b}", "{0..2}", "h#1", "p+p", "a&b=c", "ü", "日本"),
    *("q?y", "s*r", "tilde~", "quote'", 'double"', "a;b", "a,b", "(x)", "a\\b", "-dash", ".hidden.d", "a@b:c", "$HOME"),
    *("ends.", "100%25"),
]
FOLDERS = ["data", "d[1]", "d{a,b}", "d%20e", "d e", "d#2"]

Place = tuple[str, Callable[[str, bytes], None], Callable[[str], list[Any]]]


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    """A server of objects, which the environment names."""
    from spdl.remote._object import _store_at

    with serve() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT": running.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        _store_at.cache_clear()
        yield running
        _store_at.cache_clear()


def _tar(text: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("key.txt")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return file.getvalue()


def _ppm(text: bytes) -> bytes:
    return b"P6\n%d 1\n255\n" % len(text) + bytes(value for value in text for _ in range(3))


def _parquet(text: bytes) -> bytes:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": [text]}), file)
    return file.getvalue()


def _raw(address: Any) -> bytes:
    return RemoteObject.of(address).read()


def _image(address: Any) -> bytes:
    return bytes(to_numpy(load_image(address))[0, :, 0])


def _image_of_batch(address: Any) -> bytes:
    array = to_numpy(load_image_batch([address], width=2, height=1))
    return bytes(array[0, 0, :, 0])


def _of_index(address: Any) -> bytes:
    index = TarIndex.build(address)
    order = ShardOrder(index, shuffle=False)
    sample = index.read(order[0])
    assert len(index) == 1
    data: bytes = sample["txt"]
    return data


def _of_stream(address: Any) -> bytes:
    (sample,) = ShardStream(address)
    data: bytes = sample["txt"]
    return data


def _of_lines(address: Any) -> bytes:
    (row,) = JsonLines(address, parse=bytes, save_index=False)
    assert isinstance(row, bytes)
    return row


def _of_table(address: Any) -> bytes:
    (row,) = ParquetRows(address, partitioning=None)
    data: bytes = row["text"]
    return data


#: By door: the suffix of its files, how they are made, and what it reads.
DOORS: dict[str, tuple[str, Callable[[bytes], bytes], Callable[[Any], bytes]]] = {
    "RemoteObject": (".bin", bytes, _raw),
    "load_image": (".ppm", _ppm, _image),
    "load_image_batch": (".ppm", _ppm, _image_of_batch),
    "TarIndex": (".tar", _tar, _of_index),
    "ShardStream": (".tar", _tar, _of_stream),
    "JsonLines": (".jsonl", lambda text: text + b"\n", _of_lines),
    "ParquetRows": (".parquet", _parquet, _of_table),
}


def _quoted(path: str) -> str:
    return quote(path, safe="/")


def _addresses(place: str, path: str, folder: Path, url: str) -> list[Any]:
    """All ways to name a file, as users do."""
    if place == "local":
        whole = f"{folder}/{path}"
        return [whole, Path(whole), f"file://{_quoted(whole)}", Path(whole).as_uri(), RemoteStore(folder).url_of(path)]
    if place == "web":
        found = [f"{url}{_quoted(path)}", RemoteStore(url).url_of(path)]
        # A question mark begins the query of a URL, and what looks encoded is.
        return found if "?" in path or "%" in path else [*found, f"{url}{path}"]
    if place == "s3":
        return [f"s3://bucket/{path}", RemoteStore("s3://bucket/").url_of(path)]
    return [f"memory://bucket/{path}", RemoteStore("memory://bucket/").url_of(path)]


@pytest.mark.filterwarnings("ignore:cannot save")
@pytest.mark.parametrize("place", ["local", "web", "s3", "fsspec"])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_every_name(door: str, place: str, server: ObjectServer, tmp_path: Path) -> None:
    """Under each of its addresses; the bytes tell which file was read."""
    suffix, make, read = DOORS[door]
    fsspec = pytest.importorskip("fsspec") if place == "fsspec" else None
    if place == "fsspec" and door == "load_image_batch":
        pytest.skip("as load_image")
    paths = [f"{FOLDERS[number % len(FOLDERS)]}/{name}{suffix}" for number, name in enumerate(NAMES)]
    for number, path in enumerate(paths):
        data = make(b"%02d" % number)
        if place == "local":
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(data)
        elif place == "fsspec":
            assert fsspec is not None
            fsspec.filesystem("memory").pipe_file(f"/bucket/{path}", data)
        else:
            server.objects[f"bucket/{path}"] = data
    wrong = []
    for number, path in enumerate(paths):
        for address in _addresses(place, path, tmp_path, f"{server.url}bucket/"):
            try:
                found: object = read(address)
            except Exception as error:  # all are reported
                found = error
            if found != b"%02d" % number:
                wrong.append((address, found))
    assert wrong == []
