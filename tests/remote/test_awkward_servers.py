"""Servers as they are: without ranges, busy for a while, gone; with keys that no library can name; signed URLs."""

import io
import os
import pickle
import tarfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from spdl._cli import main
from spdl.io import load_image
from spdl.remote import (
    DiskCache,
    RemoteError,
    RemoteObject,
    RemoteOfflineError,
    RemoteRangeError,
    RemoteStore,
    RemoteThrottledError,
)
from spdl.remote._library import parse_retry_after
from spdl.remote._object import _store_at
from spdl.remote._requests import Attempts
from spdl.source import JsonLines, ParquetRows, ShardStream, TarIndex
from tests.support.object_server import ObjectServer

from .conftest import S3_OPTIONS

Make = Callable[..., RemoteStore]


class _Quiet(SimpleHTTPRequestHandler):
    """Python's own server, which ignores ranges."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        try:
            super().copyfile(source, outputfile)
        except OSError:  # the client has seen that it gets no range
            self.close_connection = True


@contextmanager
def _serving(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def _tar(contents: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def test_server_without_ranges_is_streamed_and_cached(tmp_path: Path) -> None:
    """Also after its size was asked for, and whatever the blocks of the cache."""
    samples = {f"{number}.bin": os.urandom(200_000) for number in range(8)}
    (tmp_path / "a b.tar").write_bytes(_tar(samples))
    data = os.urandom(300_000)
    (tmp_path / "x").write_bytes(data)
    with _serving(partial(_Quiet, directory=str(tmp_path))) as url:
        assert [sample["bin"] for sample in ShardStream(f"{url}a%20b.tar")] == list(samples.values())
        for block_size in (None, 100_000, "4MiB"):
            cache = DiskCache(tmp_path / f"cache{block_size}", "10MB", block_size=block_size)
            store = RemoteStore(url, cache=cache)
            assert store.size("x") == len(data)
            assert store.get("x") == data
            assert store.get_range("x", 1000, 10) == data[1000:1010]
        with pytest.raises(RemoteError, match="whole objects only"):
            RemoteStore(url).get_range("x", 1000, 10)


def test_shard_is_one_request(server: ObjectServer) -> None:
    """Without a question for its size."""
    server.objects["a.tar"] = _tar({"1.bin": bytes(100)})
    assert len(list(ShardStream(f"{server.url}a.tar"))) == 1
    assert [(request.method, request.headers.get("range")) for request in server.requests] == [("GET", None)]


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("as_date", [False, True])
def test_server_is_asked_again_when_it_says(status: int, as_date: bool) -> None:
    """By a number of seconds or a date; not before."""
    asked: list[str] = []
    pauses: list[float] = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.command)
            if len(asked) < 3:
                self.send_response(status)
                self.send_header("Retry-After", formatdate(time.time() + 60, usegmt=True) if as_date else "60")
                self.send_header("Content-Length", "0")
            else:
                self.send_response(200)
                self.send_header("Content-Length", "3")
                self.send_header("Last-Modified", formatdate(0, usegmt=True))
            self.end_headers()
            if len(asked) >= 3:
                self.wfile.write(b"abc")

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with _serving(Busy) as url:
        store = RemoteStore(url)
        store._requests.attempts = replace(store._requests.attempts, sleep=pauses.append)
        assert store.get("x") == b"abc"
    # The question how long to wait comes after a pause: obstore does not tell.
    assert asked == ["GET", "HEAD", "GET"]
    short, long = pauses
    assert short <= 0.1 < long <= 67
    assert long >= (50 if as_date else 60)


@pytest.mark.parametrize("text", ["120", "Thu, 01 Jan 1970 00:02:00 GMT"])
def test_times_to_wait_are_those_of_rfc_9110(text: str) -> None:
    """A number, or a date; nothing else."""
    assert parse_retry_after(text, 0.0) == 120.0
    assert parse_retry_after("soon", 0.0) is None
    assert parse_retry_after(None, 0.0) is None
    assert parse_retry_after("Thu, 01 Jan 1970 00:02:00 GMT", 1e6) == 0.0


def test_attempts_last_as_long_as_the_limit() -> None:
    """The error says which limit it was; a wait beyond it is not begun."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def refuse(_: float) -> None:
        raise RemoteThrottledError("busy")

    attempts = Attempts(seconds=120.0, clock=lambda: now[0], sleep=sleep)
    with pytest.raises(RemoteError, match=r"the limit was timeout=120") as caught:
        attempts.run(refuse)
    assert caught.value.num_attempts > 6
    now[0] = 0.0
    with pytest.raises(RemoteThrottledError, match=r"asks to wait 300 s; the limit was timeout=120"):
        attempts.run(refuse, retry_after=lambda _: 300.0)
    assert now[0] <= attempts.pause
    with pytest.raises(RemoteThrottledError, match=r"after 2 attempts\); the limit was attempts=2"):
        Attempts(most=2, clock=lambda: now[0], sleep=sleep).run(refuse)


def test_question_how_long_to_wait_comes_after_a_pause() -> None:
    """A server that refuses requests gets no other one at once, and the next one when it has said."""
    events: list[str] = []

    def request(_: float) -> int:
        events.append("request")
        if events.count("request") < 3:
            raise RemoteThrottledError("busy")
        return 1

    def ask(_: RemoteError) -> float | None:
        events.append("question")
        return 5.0 if events.count("question") == 1 else None

    def sleep(seconds: float) -> None:
        events.append("long pause" if seconds >= 5.0 else "pause")

    assert Attempts(clock=lambda: 0.0, sleep=sleep).run(request, retry_after=ask) == 1
    assert events == ["request", "pause", "question", "long pause", "request", "pause", "question", "request"]


_UNNAMED = ["train/", "d//x", "t\tx", "./x", "d/../y"]


def test_keys_that_cannot_be_named_are_counted(
    server: ObjectServer, s3: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the list is there, and everything in it can be read."""
    names = ["a b", "a%20b", "x[1]/y", "q?y", "h#1", "empty", "train/1.jpg", "{a,b}"]
    contents = {name: b"" if name == "empty" else name.encode() for name in names}
    server.objects = {f"bucket/{name}": data for name, data in contents.items()}
    server.objects |= {f"bucket/{name}": b"" for name in _UNNAMED}
    store = s3()
    assert {info.path: store.get(info.path) for info in store.list()} == contents
    (record,) = caplog.records
    assert f"{len(_UNNAMED)} objects below s3://bucket/" in record.getMessage()
    for name in _UNNAMED[:2]:
        with pytest.raises(RemoteError, match="empty"):
            store.get(name)
    assert [info.path for info in s3("s3://bucket/train").list()] == ["1.jpg"]


def test_every_name_of_a_file_is_listed(tmp_path: Path) -> None:
    """Also those that obstore reserves for itself."""
    names = ["a#1", "t\tx", "new\nline", "b\\c", "e\udcff", "deep/x#22", "%41"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    store = RemoteStore(tmp_path)
    assert [info.path for info in store.list()] == sorted(names)
    for name in names:
        assert store.get(name) == name.encode("utf-8", "surrogateescape")
        assert RemoteObject.of(store.url_of(name)).read() == store.get(name)


@pytest.mark.parametrize(
    "option",
    [
        {"allow_http": "true"},
        {"allow_http": True},
        {"aws_allow_http": "true"},
        {"connect_timeout": 5},
        {"timeout": "20s"},
        {"pool_max_idle_per_host": 3},
        {"user_agent": "me"},
        {"allow_invalid_certificates": "true"},
    ],
)
def test_options_of_the_client_need_no_place_of_their_own(server: ObjectServer, option: dict[str, Any]) -> None:
    """obstore would end with a panic, which is no ``Exception``."""
    server.objects["bucket/x"] = b"abc"
    store = RemoteStore("s3://bucket/", options={"endpoint": server.url, **S3_OPTIONS, **option})
    assert store.get("x") == b"abc"
    assert store.head("x").size == 3
    assert len(store.list()) == 1


@pytest.mark.parametrize(
    "option",
    [
        {"allow_http": "maybe"},
        {"endpoint": "::"},
        {"proxy_url": "::"},
        {"client_options": 5},
        {"client_options": {"x": 1}},
    ],
)
def test_wrong_options_are_ordinary_errors(option: dict[str, Any]) -> None:
    """Of whatever call comes first."""
    with pytest.raises((RemoteError, ValueError, TypeError)):
        RemoteStore("s3://bucket/", options=S3_OPTIONS | option, attempts=1).list()


def test_range_beyond_the_end_is_an_error_through_fsspec() -> None:
    """Wherever it begins."""
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/beyond/x", b"0123456789")
    store = RemoteStore("memory://beyond/")
    for offset, length in ((5, 6), (10, 1), (100, 5)):
        with pytest.raises(RemoteRangeError):
            store.get_range("x", offset, length)


def test_second_run_needs_no_network(server: ObjectServer, s3: Make, tmp_path: Path) -> None:
    """Listings and indices included; what was not read before is a typed error."""
    server.objects["bucket/t/a.tar"] = _tar({f"{number}.txt": b"%d" % number for number in range(5)})
    server.objects["bucket/t/l.jsonl"] = b'{"a": 1}\n{"a": 2}\n'
    server.objects["bucket/unread"] = b"1"
    first = s3(cache=DiskCache(tmp_path, "10MB"))
    samples, rows = list(TarIndex.of(first, "t/*.tar")), list(JsonLines("t/l.jsonl", store=first))
    listed = first.list()
    server.requests.clear()
    store = s3(cache=DiskCache(tmp_path, "10MB"), offline=True)
    for again in (store, pickle.loads(pickle.dumps(store))):
        assert list(TarIndex.of(again, "t/*.tar")) == samples
        assert list(JsonLines("t/l.jsonl", store=again)) == rows
        assert again.list() == listed
        assert again.head("t/a.tar").size == len(server.objects["bucket/t/a.tar"])
        for read in (again.get, again.open, again.size):
            with pytest.raises(RemoteOfflineError, match="none"):
                read("none")
        with pytest.raises(RemoteOfflineError, match="not in the cache"):
            again.get("unread")
        with pytest.raises(RemoteOfflineError):
            again.put("x", b"")
    assert server.requests == []
    with pytest.raises(ValueError, match="cache"):
        s3(offline=True)


_SIGNED = "X-Amz-Credential=a%2Fb&X-Amz-Signature=SECRET%2B1"


@pytest.mark.filterwarnings("ignore:cannot save")
def test_signed_urls_are_read_as_they_are(server: ObjectServer) -> None:
    """Several of one host, too."""
    for number in range(2):
        server.objects[f"d/a b{number}.tar"] = _tar({"k.txt": b"%d" % number})
        server.objects[f"d/{number}.jsonl"] = b"%d\n" % number
    urls = [f"{server.url}d/a%20b{number}.tar?{_SIGNED}{number}" for number in range(2)]
    assert RemoteObject.of(urls[0]).read() == server.objects["d/a b0.tar"]
    assert [sample["txt"] for sample in ShardStream(urls)] == [b"0", b"1"]
    assert [sample["txt"] for sample in TarIndex.build(urls)] == [b"0", b"1"]
    lines = [f"{server.url}d/{number}.jsonl?{_SIGNED}" for number in range(2)]
    assert list(JsonLines(lines, save_index=False)) == [0, 1]
    asked = [request.target for request in server.requests if request.method == "GET"]
    assert all("X-Amz-Signature=SECRET%2B1" in target for target in asked)


@pytest.mark.filterwarnings("ignore:cannot save")
@pytest.mark.parametrize(
    "read",
    [
        lambda url: RemoteObject.of(url).read(),
        lambda url: list(ShardStream(url)),
        TarIndex.build,
        JsonLines,
        ParquetRows,
        RemoteStore,
        load_image,
    ],
)
@pytest.mark.parametrize("name", ["missing", "wrong"])
def test_signatures_are_not_told(
    read: Callable[[str], Any], name: str, server: ObjectServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in errors and what they are made from, nor in records."""
    server.objects["wrong"] = b"nothing that can be read"
    try:
        found = repr(read(f"{server.url}{name}?{_SIGNED}"))
    except Exception as error:  # of any kind
        lines = "".join(traceback.format_exception(error)).splitlines()
        found = "\n".join(line for line in lines if not line.startswith("  ")) + repr(vars(error))
    assert "SECRET" not in found + caplog.text


@pytest.mark.parametrize("options", [[], ["--json"], ["--strict"]])
@pytest.mark.parametrize(
    "name", ["good.ppm", "missing.png", "wrong.JPG", "folder/", "l.txt", "", "s3://bucket/a.png", "file:///none.png"]
)
def test_command_loads_signed_urls_and_does_not_print_them(
    name: str,
    options: list[str],
    server: ObjectServer,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever becomes of them, in any form: a suffix is printed in lower case."""
    monkeypatch.setenv("AWS_ENDPOINT", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "value")
    server.objects = {"good.ppm": b"P6\n1 1\n255\nabc", "wrong.JPG": b"nothing", "l.txt": b""}
    url = f"{name if '://' in name else server.url + name}?{_SIGNED}"
    try:
        code = main(["load", "--size", "8", "--threads", "1", *options, url])
    except SystemExit as end:
        code = int(end.code or 0)
    assert (code == 0) == (name == "good.ppm")
    found = "".join(capfd.readouterr())
    assert "secret" not in found.lower()


@pytest.mark.parametrize("read", [lambda url: list(ShardStream(url)), TarIndex.build, JsonLines, ParquetRows])
def test_signatures_behind_names_of_objects_are_not_told(
    read: Callable[[str], Any], server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they sign nothing, because what follows the bucket is a name."""
    for name, value in {"ENDPOINT": server.url, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "value"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    _store_at.cache_clear()
    with pytest.raises((RemoteError, OSError)) as caught:
        read(f"s3://bucket/d/a.tar?{_SIGNED}")
    _store_at.cache_clear()
    assert "SECRET" not in "".join(traceback.format_exception_only(caught.value))
