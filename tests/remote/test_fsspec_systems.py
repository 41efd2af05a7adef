"""File systems of fsspec that answer in ways of their own: without ranges, short, or of another version."""

from collections.abc import Callable
from typing import Any

import pytest

from spdl.remote import (
    RemoteChangedError,
    RemoteError,
    RemoteNotFoundError,
    RemotePackageError,
    RemoteRangeError,
    RemoteUnavailableError,
)
from spdl.remote._client import NotModified
from spdl.remote._fsspec import FsspecClient

DATA = bytes(range(100))


class System:
    """As much of a file system as is asked."""

    protocol = "odd"

    def __init__(self, data: bytes = DATA, *, given: bytes | None = None, version: str | None = "1") -> None:
        self.data = data
        self.given = given  # whatever is asked for
        self.version = version

    def _strip_protocol(self, path: str) -> str:
        return path

    def info(self, path: str) -> dict[str, Any]:
        if path != "x":
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.data), "type": "file", "ETag": self.version}

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        if path != "x":
            raise FileNotFoundError(path)
        return self.data[start:end] if self.given is None else self.given

    def find(self, path: str, detail: bool = False) -> dict[str, Any]:
        raise PermissionError("no listing")

    def pipe_file(self, path: str, data: bytes) -> None:
        raise PermissionError("no writing")


def fetch(client: FsspecClient, span: tuple[int, int] | None = None, **options: Any) -> Any:
    return client.fetch("x", span, **{"etag": None, "unless": None, "most": 1000, "seconds": 1.0, **options})


def test_parts_and_wholes() -> None:
    """With the size and the version where they were looked up."""
    client = FsspecClient.of(System())
    assert fetch(client, (10, 20)).data == DATA[10:20]
    whole = fetch(client)
    assert (whole.data, whole.size, whole.etag) == (DATA, 100, "1")
    assert fetch(client, most=50).data is None
    assert client.fetch_start("x", 30, etag=None, unless=None, seconds=1.0).data == DATA[:30]
    assert client.fetch_start("x", 300, etag="1", unless=None, seconds=1.0).data == DATA


def test_versions_are_compared() -> None:
    """Of another version than asked for, or of the one that is there already."""
    client = FsspecClient.of(System(version="2"))
    with pytest.raises(RemoteChangedError, match="it is version 2, not 1"):
        fetch(client, etag="1")
    with pytest.raises(NotModified):
        fetch(client, unless="2")
    assert fetch(client, (0, 5), etag="2").data == DATA[:5]


def test_the_version_of_a_start_is_the_one_that_was_compared() -> None:
    """Of a file that changes meanwhile; otherwise a cache would keep its bytes as those of another version."""

    class Changing(System):
        def info(self, path: str) -> dict[str, Any]:
            found = super().info(path)
            self.version = str(int(self.version or 0) + 1)
            return found

    with pytest.raises(NotModified):
        FsspecClient.of(Changing()).fetch_start("x", 30, etag=None, unless="1", seconds=1.0)
    client = FsspecClient.of(Changing())
    assert client.fetch_start("x", 30, etag="1", unless=None, seconds=1.0).etag == "1"
    with pytest.raises(RemoteChangedError, match="it is version 2, not 1"):
        client.fetch_start("x", 30, etag="1", unless=None, seconds=1.0)


@pytest.mark.parametrize("etag", [None, "1"])
def test_ranges_beyond_the_end(etag: str | None) -> None:
    """Whether the size was asked for before or not."""
    with pytest.raises(RemoteRangeError, match="bytes 90 to 110 of x"):
        fetch(FsspecClient.of(System()), (90, 110), etag=etag)


@pytest.mark.parametrize(
    ("given", "kind"), [(DATA, RemoteError), (b"123", RemoteUnavailableError)], ids=["more", "fewer"]
)
def test_other_numbers_of_bytes(given: bytes, kind: type[RemoteError]) -> None:
    """The whole file, from servers without ranges; less, from a broken connection."""
    with pytest.raises(kind, match=f"{len(given)} bytes came instead of 10") as caught:
        fetch(FsspecClient.of(System(given=given)), (10, 20))
    assert type(caught.value) is kind


def test_errors_of_the_system_are_translated() -> None:
    """Whatever was attempted."""
    client = FsspecClient.of(System())
    attempts: list[Callable[[], object]] = [
        lambda: client.head("y", seconds=1.0),
        lambda: client.fetch_whole("y", most=10, seconds=1.0),
        lambda: client.fetch_range("y", (0, 3), seconds=1.0),
    ]
    for attempt in attempts:
        with pytest.raises(RemoteNotFoundError):
            attempt()
    with pytest.raises(RemoteError, match="no listing"):
        list(client.list("", seconds=1.0))
    with pytest.raises(RemoteError, match="no writing"):
        client.put("x", b"1", seconds=1.0)


def test_systems_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Because a package is missing, or because of their own checks."""
    fsspec = pytest.importorskip("fsspec")
    for error, kind in [(ImportError("install s3fs"), RemotePackageError), (ValueError("bad option"), RemoteError)]:

        def refuse(*_: Any, error: Exception = error, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
        with pytest.raises(kind, match=f"cannot open 'odd://x': {error}"):
            FsspecClient("odd://x", {})
