"""Names, addresses and servers through every door: whatever one accepts, all accept, and they read the same bytes.

The names are those of real buckets. What an address means is judged by others: web servers decode paths with
``urllib``, folders are filled through ``pathlib``, and fsspec's store is filled by fsspec.
"""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from spdl._cli import main
from spdl.io import load_image, load_image_batch, to_numpy
from spdl.remote import RemoteObject, RemoteStore
from spdl.source import ImageFolder, JsonLines, ParquetRows, ShardOrder, ShardStream, TarIndex
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


def _fill(place: str, paths: list[str], data: bytes, folder: Path, server: ObjectServer) -> None:
    for path in paths:
        if place == "local":
            (folder / path).parent.mkdir(exist_ok=True, parents=True)
            (folder / path).write_bytes(data)
        else:
            server.objects[f"bucket/{path}"] = data


@pytest.mark.parametrize("place", ["local", "s3"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_of_images_have_any_name(
    folder: str, place: str, server: ObjectServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For ``ImageFolder`` and the command line, whose paths are addresses again."""
    paths = [f"{folder}/c[1]/1.ppm", f"{folder}/c{{a,b}}/2 %20#1.ppm"]
    _fill(place, [*paths, f"{folder.replace('[1]', '1')}x/c/3.ppm"], _ppm(b"ab"), tmp_path, server)
    roots = [f"s3://bucket/{folder}", f"s3://bucket/{folder}/"]
    if place == "local":
        roots = [f"{tmp_path}/{folder}", (tmp_path / folder).as_uri(), tmp_path / folder]  # type: ignore[list-item]
    for root in roots:
        found = ImageFolder(root)
        assert found.classes == ["c[1]", "c{a,b}"]
        assert [_image(path) for path, _ in found] == [b"ab", b"ab"]
        assert main(["load", "--json", "--quiet", "--size", "8", "--threads", "1", str(root)]) == 0
        assert json.loads(capsys.readouterr().out)["num_images"] == 2


@pytest.mark.filterwarnings("ignore:cannot save")
@pytest.mark.parametrize("place", ["local", "s3"])
def test_literal_names_come_before_patterns(place: str, server: ObjectServer, tmp_path: Path) -> None:
    """As far as they exist; a path object is never a pattern."""
    root = f"{tmp_path}/" if place == "local" else "s3://bucket/"
    _fill(place, ["d[1]/a.tar", "d[1]/b{1,2}.tar"], _tar(b"literal"), tmp_path, server)
    _fill(place, ["d1/a.tar", "d[1]/b1.tar", "d[1]/b2.tar", "e2/a.tar", "e3/a.tar"], _tar(b"other"), tmp_path, server)
    _fill(place, ["f{a,b}/1.tar", "f{a,b}/2.tar"], _tar(b"braces"), tmp_path, server)
    for pattern, count in {
        "d[1]/a.tar": 1,
        "d[1]/*.tar": 4,
        "d[1]/b{1,2}.tar": 1,
        "d[1]/b{1..2}.tar": 2,
        "e[23]/a.tar": 2,
        "e[23]/*.tar": 2,
        "e{2,3}/*.tar": 2,
        "d[1]/": 4,
        "f{a,b}/*.tar": 2,
        "f{a,b}/{1..2}.tar": 2,
    }.items():
        samples = list(ShardStream(root + pattern))
        assert [sample["txt"] for sample in TarIndex.build(root + pattern)] == [sample["txt"] for sample in samples]
        assert len(samples) == count, pattern
        if pattern in ("d[1]/a.tar", "d[1]/b{1,2}.tar"):
            assert samples[0]["txt"] == b"literal"
    if place == "local":
        for pattern in ("e[23]/a.tar", "e{2,3}/a.tar", "e?/a.tar"):
            with pytest.raises(FileNotFoundError):
                TarIndex.build(tmp_path / pattern)
            with pytest.raises(FileNotFoundError):
                list(ShardStream(tmp_path / pattern))
