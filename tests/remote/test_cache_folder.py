"""The folder of a ``DiskCache``: what is not the cache's own is never read, counted, written or removed."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from spdl.remote import DiskCache, RemoteStore
from tests.support.object_server import ObjectServer

Make = Callable[..., RemoteStore]


def _fill(server: ObjectServer, store: RemoteStore, number: int = 12) -> None:
    server.objects = {f"bucket/{index}": os.urandom(100_000) for index in range(number)}
    for index in range(number):
        assert store.get(str(index)) == server.objects[f"bucket/{index}"]


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FOREIGN = ["photo.jpg", "tmp/notes.txt", "ab/photo.jpg", "account", "ab/" + "0" * 37, "zz/" + "0" * 38, ".hidden"]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_with_other_files_is_refused_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    """Nothing is created, changed or removed, and the error names what is there."""
    file = tmp_path / "data" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"precious!")
    before = _content(tmp_path)
    with pytest.raises(ValueError, match=f"path must be .*{name.split('/')[0]}"):
        DiskCache(tmp_path / "data", "1MB")
    assert _content(tmp_path) == before


def test_a_folder_that_got_other_files_before_the_first_use_is_not_written(
    server: ObjectServer, s3: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a process that got the cache by pickle: reading continues without it, with one warning."""
    store = s3(cache=DiskCache(tmp_path, "400kB"))
    (tmp_path / "photo.jpg").write_bytes(b"precious")
    _fill(server, store)
    assert _content(tmp_path) == {"photo.jpg": b"precious"}
    (record,) = caplog.records
    assert "photo.jpg" in record.getMessage()


def test_files_put_into_a_cache_later_stay(server: ObjectServer, s3: Make, tmp_path: Path) -> None:
    """Whatever their names and however old; neither counted nor evicted."""
    cache = DiskCache(tmp_path, "400kB")
    store = s3(cache=cache)
    _fill(server, store, 1)
    own = cache.num_bytes()
    others = {name: os.urandom(50_000) for name in FOREIGN}
    for name, content in others.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (0, 0))
    os.symlink(tmp_path / "photo.jpg", tmp_path / "ab" / ("1" * 38))
    assert cache.num_bytes() == own
    _fill(server, s3(cache=DiskCache(tmp_path, "400kB")))
    assert {name: (tmp_path / name).read_bytes() for name in others} == others
    assert (tmp_path / "ab" / ("1" * 38)).is_symlink()
    assert cache.num_bytes() <= cache.size


def test_a_cache_of_before_is_adopted(server: ObjectServer, s3: Make, tmp_path: Path) -> None:
    """Its files have the names of a cache; they count, and are evicted first."""
    (tmp_path / "account").write_bytes((300_000).to_bytes(8, "little"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / ("a" * 24)).write_bytes(bytes(10_000))
    for number in range(3):
        old = tmp_path / f"{number:02x}" / ("b" * 38)
        old.parent.mkdir()
        old.write_bytes(b"SPDLC001" + bytes(100_000))
        os.utime(old, (1000, 1000))
    cache = DiskCache(tmp_path, "500kB")
    _fill(server, s3(cache=cache))
    assert not (tmp_path / "account").exists()
    assert not list(tmp_path.rglob("b" * 38))
    assert cache.num_bytes() <= cache.size


def test_the_folder_of_a_cache_is_used_again(server: ObjectServer, s3: Make, tmp_path: Path) -> None:
    """By another object and process, empty or full."""
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        _fill(server, s3(cache=DiskCache(tmp_path / name, "2MB")), 3)
        server.requests.clear()
        store = s3(cache=DiskCache(tmp_path / name, "2MB"))
        assert [store.get(str(index)) for index in range(3)] == [server.objects[f"bucket/{i}"] for i in range(3)]
        assert len(server.asked("GET")) == 3
        assert all("if-none-match" in request.headers for request in server.requests)


@pytest.mark.parametrize("block_size", ["4MiB", 1000, None])
@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_never_served(
    seed: int, block_size: object, server: ObjectServer, s3: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anywhere in a file, for whole objects and ranges; the object is read again and replaced, with a warning."""
    chosen = random.Random(seed)
    data = server.objects["bucket/x"] = chosen.randbytes(5000)
    store = s3(cache=DiskCache(tmp_path, "1MB", block_size=block_size))  # type: ignore[arg-type]
    for _ in range(5):
        assert store.get("x") == data
        file = chosen.choice([path for path in tmp_path.rglob("*") if path.is_file() and len(path.name) == 38])
        content = bytearray(file.read_bytes())
        content[chosen.randrange(len(content) // 2, len(content))] ^= 1 << chosen.randrange(8)
        file.write_bytes(content)
        start = chosen.randrange(5000)
        assert store.get_range("x", start, 5000 - start) == data[start:]
        assert store.get_range("x", 0, 5000) == data
    assert "is damaged" in caplog.text
