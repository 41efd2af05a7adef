"""What ``RemoteStore`` gives, judged by what the server and the folder have."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdl.remote import (
    Located,
    ObjectInfo,
    RemoteChangedError,
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemotePackageError,
    RemoteRangeError,
    RemoteStore,
    RemoteThrottledError,
    RemoteUnavailableError,
)
from tests.support.object_server import ObjectServer, etag_of

Make = Callable[..., RemoteStore]


def test_whole_object_arrives_as_it_is(server: ObjectServer, s3: Make) -> None:
    """Paths may have any characters, and an object may be empty."""
    contents = {"a.bin": os.urandom(100_000), "folder/b c#+%é.jpg": b"1", "empty": b""}
    server.objects = {f"bucket/{path}": data for path, data in contents.items()}
    store = s3()
    assert {path: store.get(path) for path in contents} == contents


def test_store_may_be_a_folder_of_a_bucket(server: ObjectServer, s3: Make) -> None:
    """Paths are relative to it."""
    server.objects = {"bucket/train/x/a": b"a", "bucket/other/a": b"b"}
    store = s3("s3://bucket/train")
    assert store.get("x/a") == b"a"
    assert [info.path for info in store.list()] == ["x/a"]


def test_folder_on_disk_is_a_store(tmp_path: Path) -> None:
    """By its path, or as a URL."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "x.bin").write_bytes(b"0123456789")
    for url in (tmp_path, tmp_path.as_uri(), str(tmp_path.as_uri()) + "/"):
        store = RemoteStore(url)
        assert store.get("a b/x.bin") == b"0123456789"
        assert [info.path for info in store.list()] == ["a b/x.bin"]


def test_range_is_one_request_for_these_bytes(server: ObjectServer, s3: Make) -> None:
    """No size is asked for before."""
    data = server.objects["bucket/x"] = os.urandom(1000)
    assert s3().get_range("x", 10, 20) == data[10:30]
    assert [(r.method, r.headers["range"]) for r in server.requests] == [("GET", "bytes=10-29")]


def test_empty_range_needs_no_request(server: ObjectServer, s3: Make) -> None:
    """Servers refuse such ranges."""
    assert s3().get_range("x", 10, 0) == b""
    assert server.requests == []


def test_neighbours_are_read_by_one_request(server: ObjectServer, s3: Make) -> None:
    """Ranges may overlap, repeat and come in any order; distant ones have requests of their own."""
    data = server.objects["bucket/x"] = os.urandom(400_000)
    ranges = [(1000, 10), (0, 5), (1005, 100), (0, 5), (300_000, 7), (66_000, 3), (9, 0)]
    assert s3().get_ranges("x", ranges) == [data[offset : offset + length] for offset, length in ranges]
    assert [r.headers["range"] for r in server.requests] == ["bytes=0-66002", "bytes=300000-300006"]


def test_items_of_several_objects_come_in_the_order_given(server: ObjectServer, s3: Make) -> None:
    """With and without an end."""
    server.objects = {"bucket/x": b"0123456789", "bucket/y": b"abcdef"}
    items = [Located("y", 1, 2), Located("x", 8), Located("x", 0, 3), Located("y"), Located("x", 3, 1)]
    assert s3().read_many(items) == [b"bc", b"89", b"012", b"abcdef", b"3"]


def test_range_beyond_the_end_is_an_error(server: ObjectServer, s3: Make) -> None:
    """Rather than fewer bytes."""
    server.objects["bucket/x"] = bytes(100)
    for offset, length in ((90, 20), (100, 1), (1000, 1)):
        with pytest.raises(RemoteRangeError, match="bucket/x"):
            s3().get_range("x", offset, length)
    with pytest.raises(ValueError, match="only 100"):
        s3().read(Located("x", 101))


def test_listing_is_sorted_and_has_sizes_and_versions(server: ObjectServer, s3: Make) -> None:
    """A prefix names a folder, a pattern whole paths."""
    paths = ["b.tar", "a/2.tar", "a/1.tar", "a/x.json", "a/deep/3.tar", "ab/4.tar"]
    server.objects = {f"bucket/{path}": path.encode() for path in paths}
    store = s3()
    assert store.list("a") == [
        ObjectInfo(path, len(path), etag_of(path.encode()))
        for path in ("a/1.tar", "a/2.tar", "a/deep/3.tar", "a/x.json")
    ]
    for pattern, found in {
        "*.tar": ["b.tar"],
        "**/*.tar": ["a/1.tar", "a/2.tar", "a/deep/3.tar", "ab/4.tar", "b.tar"],
        "a/*.tar": ["a/1.tar", "a/2.tar"],
        "a/[!1].tar": ["a/2.tar"],
        "a?/*": ["ab/4.tar"],
        "nowhere/*": [],
    }.items():
        assert [info.path for info in store.list(pattern)] == found, pattern


def test_listed_version_is_that_of_the_object(server: ObjectServer, s3: Make) -> None:
    """Although some stores list it without its quotes."""
    server.quotes_listed_etags = False
    server.objects["bucket/x"] = b"abc"
    store = s3()
    (info,) = store.list()
    assert info == store.head("x")
    assert store.get("x", etag=info.etag) == b"abc"


@pytest.mark.parametrize(
    ("status", "kind"), [(404, RemoteNotFoundError), (403, RemoteDeniedError), (503, RemoteThrottledError)]
)
def test_bucket_that_cannot_be_listed_is_an_error(
    status: int, kind: type[RemoteError], server: ObjectServer, s3: Make
) -> None:
    """Missing, forbidden or busy."""
    server.refuse["bucket"] = status
    with pytest.raises(kind, match=f"cannot list s3://bucket/: .*{status}"):
        s3(attempts=1).list()


def test_head_tells_size_and_version(server: ObjectServer, s3: Make) -> None:
    """Without the bytes."""
    server.objects["bucket/x"] = b"abc"
    assert s3().head("x") == ObjectInfo("x", 3, etag_of(b"abc"))
    assert s3().size("x") == 3
    assert server.asked("GET") == []


def test_written_object_can_be_read(server: ObjectServer, s3: Make) -> None:
    """From any buffer."""
    store = s3()
    for data in (b"bytes", bytearray(b"array"), memoryview(b"view"), b""):
        assert store.put("new/x", data) == etag_of(bytes(data))
        assert server.objects["bucket/new/x"] == store.get("new/x") == bytes(data)


def test_file_reads_and_seeks_as_files_do(server: ObjectServer, s3: Make) -> None:
    """For code that needs one."""
    data = server.objects["bucket/x"] = os.urandom(10_000)
    with s3().open("x") as file:
        assert (file.seekable(), file.readable(), file.writable()) == (True, True, False)
        assert file.read(10) == data[:10]
        assert file.seek(-4, os.SEEK_END) == 9996
        assert (file.read(), file.read()) == (data[-4:], b"")
        assert file.seek(20_000) == 20_000
        assert file.read(1) == b""
        file.seek(0)
        assert file.read() == data


def test_file_of_a_replaced_object_is_an_error(server: ObjectServer, s3: Make) -> None:
    """Two versions are never mixed."""
    server.objects["bucket/x"] = bytes(3_000_000)
    with s3().open("x") as file:
        file.read(10)
        server.objects["bucket/x"] = b"1" * 3_000_000
        file.seek(2_000_000)
        with pytest.raises(RemoteChangedError):
            file.read(10)


def test_another_version_is_an_error(server: ObjectServer, s3: Make) -> None:
    """If one was asked for; the message names both, where the server does."""
    server.objects["bucket/x"] = b"abc"
    etag = etag_of(b"abc")
    assert s3().get("x", etag=etag) == b"abc"
    assert s3().read(Located("x", 1, 1, etag)) == b"b"
    server.objects["bucket/x"] = b"xyz"
    with pytest.raises(RemoteChangedError, match=etag):
        s3().get("x", etag=etag)
    with pytest.raises(RemoteChangedError, match=etag):
        s3().read(Located("x", 1, 1, etag))


@pytest.mark.parametrize(
    ("status", "kind", "builtin"),
    [
        (404, RemoteNotFoundError, FileNotFoundError),
        (403, RemoteDeniedError, PermissionError),
        (401, RemoteDeniedError, PermissionError),
        (429, RemoteThrottledError, RuntimeError),
        (503, RemoteThrottledError, RuntimeError),
        (500, RemoteUnavailableError, ConnectionError),
        (400, RemoteError, RuntimeError),
    ],
)
def test_status_decides_the_class(
    status: int, kind: type[Exception], builtin: type[Exception], server: ObjectServer, s3: Make
) -> None:
    """The message has the URL and the status, survives pickling, and says what to do."""
    server.refuse["bucket/a/x"] = status
    with pytest.raises(kind) as caught:
        s3(attempts=1).get("a/x")
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, builtin)
    assert isinstance(error, RemoteError)
    assert (error.url, error.action, error.num_attempts) == ("s3://bucket/a/x", "read", 1)
    assert str(error).startswith("cannot read s3://bucket/a/x: ")
    assert str(status) in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (kind, str(error), error.__dict__)
    if isinstance(error, OSError):
        assert (again.errno, again.filename) == (error.errno, "s3://bucket/a/x")


def test_unreachable_server_is_an_error_of_its_own() -> None:
    """With the number of attempts."""
    store = RemoteStore("http://127.0.0.1:9/", attempts=2)
    with pytest.raises(RemoteUnavailableError, match="after 2 attempts") as caught:
        store.get("x")
    assert caught.value.num_attempts == 2


def test_web_server_is_a_store(server: ObjectServer) -> None:
    """Without a list of its files."""
    server.objects["folder/x"] = b"0123"
    store = RemoteStore(f"{server.url}folder")
    assert store.get("x") == b"0123"
    assert store.get_range("x", 1, 2) == b"12"
    with pytest.raises(RemoteError, match="WebDAV"):
        store.list()


def test_unknown_scheme_needs_fsspec() -> None:
    """And the package for it."""
    with pytest.raises(RemoteError, match="foo"):
        RemoteStore("foo://x/").get("y")


def test_fsspec_reads_other_schemes(tmp_path: Path) -> None:
    """With the same results and errors."""
    pytest.importorskip("fsspec")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "x").write_bytes(b"0123456789")
    store = RemoteStore(f"local://{tmp_path}")
    assert store.get("f/x") == b"0123456789"
    assert store.get_ranges("f/x", [(0, 2), (5, 3)]) == [b"01", b"567"]
    assert store.list("**/*") == [ObjectInfo("f/x", 10)]
    store.put("f/y", b"y")
    assert (tmp_path / "f" / "y").read_bytes() == b"y"
    with pytest.raises(RemoteNotFoundError):
        store.get("f/z")
    with pytest.raises(RemoteRangeError):
        store.get_range("f/x", 5, 10)


def test_fsspec_reads_no_more_than_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request for each."""
    system = pytest.importorskip("fsspec").get_filesystem_class("local")
    (tmp_path / "x").write_bytes(b"0123456789")
    asked: list[int] = []
    cat_file = system.cat_file

    def counted(self: Any, *arguments: Any, **more: Any) -> Any:
        data = cat_file(self, *arguments, **more)
        asked.append(len(data))
        return data

    monkeypatch.setattr(system, "cat_file", counted)
    assert RemoteStore(f"local://{tmp_path}").get_range("x", 2, 3) == b"234"
    assert asked == [3]


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an ``ImportError``."""
    monkeypatch.setattr("spdl.remote._library._LOADED", {})
    monkeypatch.setitem(__import__("sys").modules, "obstore._obstore", None)
    with pytest.raises(RemotePackageError, match=r"spdl-native\[remote\]") as caught:
        RemoteStore("s3://bucket/")
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": "bucket/x"}, "scheme"),
        ({"url": "s3://b/x?y=1"}, "no query"),
        ({"url": "s3://b/", "timeout": 0}, "timeout"),
        ({"url": "s3://b/", "timeout": float("nan")}, "timeout"),
        ({"url": "s3://b/", "attempts": 0}, "attempts"),
    ],
)
def test_wrong_values_are_refused_at_once(arguments: dict[str, object], message: str) -> None:
    """Before any request."""
    with pytest.raises(ValueError, match=message):
        RemoteStore(**arguments)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": True}, "timeout must be a number, got"),
        ({"timeout": "1"}, "timeout must be a number, got"),
        ({"attempts": True}, "attempts must be an int, got"),
        ({"attempts": 1.5}, "attempts must be an int, got"),
        ({"options": ["region"]}, "options must be a dict"),
    ],
)
def test_wrong_types_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    """Before any request."""
    with pytest.raises(TypeError, match=message):
        RemoteStore("s3://b/", **options)


def test_paths_must_name_objects(tmp_path: Path) -> None:
    """A number or a slash does not."""
    store = RemoteStore(tmp_path)
    with pytest.raises(TypeError, match="path must be str, got int"):
        store.get(1)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(RemoteError, match="path must name an object, got '/'"):
        store.get("/")


def test_wrong_option_is_named() -> None:
    """At the first request: making a store loads nothing."""
    store = RemoteStore("s3://bucket/", options={"nonsense": "1"})
    with pytest.raises(RemoteError, match="nonsense"):
        store.get("x")


def test_repr_and_pickle_hide_and_keep_options(server: ObjectServer, s3: Make) -> None:
    """Credentials are not printed."""
    server.objects["bucket/x"] = b"abc"
    store = s3()
    assert "secret" not in repr(store)
    assert store.get("x") == b"abc"
    assert pickle.loads(pickle.dumps(store)).get("x") == b"abc"


def test_located_refuses_negative_numbers() -> None:
    """An index with such numbers is damaged."""
    with pytest.raises(ValueError, match="offset"):
        Located("x", -1)
    with pytest.raises(ValueError, match="length"):
        Located("x", 0, -1)
