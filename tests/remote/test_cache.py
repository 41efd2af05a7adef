"""``DiskCache``: what is read twice is requested once, for all processes, within its size."""

import errno
import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from spdl.remote import DiskCache, Located, RemoteChangedError, RemoteNotFoundError, RemoteStore
from tests.support.object_server import ObjectServer, etag_of

Make = Callable[..., RemoteStore]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != ".spdl-cache"]


def _gets(server: ObjectServer) -> int:
    return len(server.asked("GET"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_second_read_makes_no_request(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Of whole objects, however large, and of parts of them."""
    contents = {"small": b"abc", "empty": b"", "large": os.urandom(1_000_000)}
    server.objects = {f"bucket/{path}": data for path, data in contents.items()}
    store = s3(cache=DiskCache(folder, "10MB", block_size=300_000))
    assert {path: store.get(path) for path in contents} == contents
    count = len(server.requests)
    assert {path: store.get(path) for path in contents} == contents
    assert store.get_range("large", 299_990, 20) == contents["large"][299_990:300_010]
    assert store.get_range("large", 999_990, 10) == contents["large"][-10:]
    assert len(server.requests) == count


def test_new_process_validates_each_object_by_one_request_without_bytes(
    server: ObjectServer, s3: Make, folder: Path
) -> None:
    """The versions that a store has seen are not pickled, as in a new process."""
    data = server.objects["bucket/x"] = os.urandom(10_000)
    store = s3(cache=DiskCache(folder, "10MB"))
    store.get("x")
    server.requests.clear()
    again = pickle.loads(pickle.dumps(store))
    assert (again.get("x"), again.get("x")) == (data, data)
    assert [request.headers["if-none-match"] for request in server.requests] == [etag_of(data)]


def test_listing_validates_all_objects_by_one_request(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Reading makes none then."""
    contents = {str(index): str(index).encode() for index in range(20)}
    server.objects = {f"bucket/{path}": data for path, data in contents.items()}
    store = s3(cache=DiskCache(folder, "10MB"))
    for path in contents:
        store.get(path)
    again = pickle.loads(pickle.dumps(store))
    server.requests.clear()
    assert {info.path: again.get(info.path) for info in again.list()} == contents
    assert len(server.requests) == 1


def test_range_costs_the_blocks_that_it_touches(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Missing neighbours come by one request."""
    data = server.objects["bucket/x"] = os.urandom(10_500)
    store = s3(cache=DiskCache(folder, "10MB", block_size=1000))
    assert store.get_range("x", 2500, 10) == data[2500:2510]
    assert store.get_range("x", 500, 5000) == data[500:5500]
    assert store.get_range("x", 10_400, 100) == data[10_400:]
    ranges = [request.headers["range"] for request in server.requests if request.method == "GET"]
    assert ranges == ["bytes=2000-2999", "bytes=0-1999", "bytes=3000-5999", "bytes=10000-10499"]
    assert store.get("x") == data


def test_cache_of_whole_objects_fetches_the_object_of_a_range(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Once, for all ranges of it."""
    data = server.objects["bucket/x"] = os.urandom(10_500)
    store = s3(cache=DiskCache(folder, "10MB", block_size=None))
    assert [store.get_range("x", offset, 10) for offset in (5000, 0)] == [data[5000:5010], data[:10]]
    assert _gets(server) == 1
    assert len(_files(folder)) == 1


def test_replaced_object_is_read_again(server: ObjectServer, s3: Make, folder: Path) -> None:
    """By a new process, after ``refresh``, and as soon as any request shows it."""
    server.objects["bucket/x"] = bytes(3000)
    store = s3(cache=DiskCache(folder, "10MB", block_size=1000))
    store.get("x")
    server.objects["bucket/x"] = b"1" * 2500
    assert store.get("x") == bytes(3000)  # it has not looked
    assert pickle.loads(pickle.dumps(store)).get("x") == b"1" * 2500
    store.refresh()
    assert store.get("x") == b"1" * 2500
    server.objects["bucket/y"] = bytes(3000)
    store.get_range("y", 0, 10)
    server.objects["bucket/y"] = b"2" * 3000
    assert store.get_range("y", 900, 200) == b"2" * 200  # a missing block shows that the other one is outdated


def test_index_of_another_version_is_an_error(server: ObjectServer, s3: Make, folder: Path) -> None:
    """As without a cache; the new version is found although the store knew the old one."""
    server.objects["bucket/x"] = b"abc"
    store = s3(cache=DiskCache(folder, "10MB"))
    assert store.read(Located("x", 0, 1, etag_of(b"abc"))) == b"a"
    server.objects["bucket/x"] = b"xyz"
    assert store.read(Located("x", 0, 1, etag_of(b"xyz"))) == b"x"
    assert store.get("x", etag=etag_of(b"xyz")) == b"xyz"
    with pytest.raises(RemoteChangedError):
        store.read(Located("x", 0, 1, etag_of(b"abc")))
    with pytest.raises(RemoteChangedError):
        store.get("x", etag=etag_of(b"abc"))


def test_removed_object_is_not_found(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Though the cache still has it, once it is validated."""
    server.objects["bucket/x"] = b"abc"
    store = s3(cache=DiskCache(folder, "10MB"))
    store.get("x")
    del server.objects["bucket/x"]
    store.refresh()
    with pytest.raises(RemoteNotFoundError):
        store.get("x")


def test_written_object_replaces_what_was_cached(server: ObjectServer, s3: Make, folder: Path) -> None:
    """By the same store."""
    store = s3(cache=DiskCache(folder, "10MB"))
    store.put("x", b"abc")
    assert store.get("x") == b"abc"
    store.put("x", b"defg")
    assert store.get("x") == b"defg"


def test_stores_do_not_share_objects_of_the_same_path(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Other bucket or other server: another object, even if the versions were equal."""
    server.objects = {"bucket/x": b"abc", "other/x": b"xyz"}
    cache = DiskCache(folder, "10MB")
    assert [s3(url, cache=cache).get("x") for url in ("s3://bucket", "s3://other") * 2] == [b"abc", b"xyz"] * 2


def test_what_was_not_used_longest_goes_first(server: ObjectServer, s3: Make, folder: Path) -> None:
    """And never more stays than the size."""
    contents = {str(index): os.urandom(89_000) for index in range(10)}
    server.objects = {f"bucket/{path}": data for path, data in contents.items()}
    cache = DiskCache(folder, 10 * 90_112)
    store = s3(cache=cache)
    for path in contents:
        store.get(path)
        for file in _files(folder):  # an hour passes
            status = file.stat()
            os.utime(file, (status.st_atime, status.st_mtime - 3600))
    assert cache.num_bytes() == cache.size
    store.get("0")  # is used now
    server.objects["bucket/new"] = os.urandom(89_000)
    store.get("new")
    assert cache.num_bytes() <= cache.size
    server.requests.clear()
    assert store.get("0") == contents["0"]
    assert server.requests == []
    assert store.get("1") == contents["1"]
    assert len(server.requests) == 1


def test_object_larger_than_the_cache_is_read_and_not_kept(server: ObjectServer, s3: Make, folder: Path) -> None:
    """Nothing is thrown out for it."""
    server.objects = {"bucket/small": b"abc", "bucket/large": bytes(100_000)}
    cache = DiskCache(folder, 50_000)
    store = s3(cache=cache)
    store.get("small")
    assert store.get("large") == bytes(100_000)
    assert store.get("large") == bytes(100_000)
    assert _gets(server) == 3
    assert store.get("small") == b"abc"
    assert _gets(server) == 3


@pytest.mark.parametrize("damage", ["shorter", "longer", "garbage", "empty", "other"])
def test_damaged_file_is_read_again(damage: str, server: ObjectServer, s3: Make, folder: Path) -> None:
    """Whatever happened to it; and it is replaced."""
    data = server.objects["bucket/x"] = os.urandom(5000)
    server.objects["bucket/y"] = os.urandom(5000)
    store = s3(cache=DiskCache(folder, "1MB"))
    store.get("x")
    (file,) = _files(folder)
    content = file.read_bytes()
    if damage == "other":
        file.unlink()
        store.get("y")
        (other,) = _files(folder)
        content = other.read_bytes()
    file.write_bytes(
        {"shorter": content[:-1], "longer": content + b"x", "garbage": bytes(100), "empty": b"", "other": content}[
            damage
        ]
    )
    count = _gets(server)
    assert (store.get("x"), store.get("x")) == (data, data)
    assert _gets(server) == count + 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_cache_that_cannot_be_written_is_reported_once_and_passed_over(
    number: int,
    server: ObjectServer,
    s3: Make,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Training goes on; nothing half written is left; what is there can still be read."""
    contents = {str(index): os.urandom(1000) for index in range(5)}
    server.objects = {f"bucket/{path}": data for path, data in contents.items()}
    store = s3(cache=DiskCache(folder, "1MB"))
    store.get("0")

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", refuse)
    with caplog.at_level(logging.WARNING, "spdl.remote"):
        assert {path: store.get(path) for path in contents} == contents
    (record,) = caplog.records
    assert str(folder) in record.getMessage()
    assert len(_files(folder)) == 1


def test_folder_that_cannot_be_made_is_reported_and_passed_over(
    server: ObjectServer, s3: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Here a file is in its place."""
    (tmp_path / "file").touch()
    server.objects["bucket/x"] = b"abc"
    store = s3(cache=DiskCache(tmp_path / "file" / "cache", "1MB"))
    assert (store.get("x"), store.get("x")) == (b"abc", b"abc")
    assert len(caplog.records) == 1


def test_object_without_a_version_is_not_kept(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached one could never be told from a newer one."""
    pytest.importorskip("fsspec")
    (tmp_path / "x").write_bytes(b"abc")
    store = RemoteStore(f"local://{tmp_path}", cache=DiskCache(folder, "1MB"))
    assert (store.get("x"), store.get_range("x", 1, 2)) == (b"abc", b"bc")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("200GiB", 200 * 2**30),
        ("1.5 MB", 1_500_000),
        ("10", 10),
        ("4kib", 4096),
        ("7B", 7),
        (123, 123),
        ("2 TB", 2 * 10**12),
    ],
)
def test_sizes_have_units(text: str | int, number: int, folder: Path) -> None:
    """Those of SI and of IEC."""
    assert DiskCache(folder, text).size == number


@pytest.mark.parametrize("size", ["", "GB", "1 parsec", "-1MB", 0, -5, "0", "1e3"])
def test_wrong_sizes_are_refused(size: str | int, folder: Path) -> None:
    """With what was given."""
    with pytest.raises(ValueError, match="size must be"):
        DiskCache(folder, size)


@pytest.mark.parametrize("size", [1.5, None, True])
def test_sizes_of_other_types_are_refused(size: object, folder: Path) -> None:
    """As types."""
    with pytest.raises(TypeError, match="size must be"):
        DiskCache(folder, size)  # type: ignore[arg-type]  # on purpose
