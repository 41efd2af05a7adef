"""Azure as azurite has it, Google's protocol, and TLS. S3 and web servers are in the other files of this folder.

No emulator of Google's storage speaks the protocol that obstore uses (its XML API), so a server of ours stands in.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from spdl.remote import (
    DiskCache,
    Located,
    ObjectInfo,
    RemoteChangedError,
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemoteRangeError,
    RemoteStore,
    RemoteUnavailableError,
)
from tests.support.object_server import Fault, ObjectServer, Request, etag_of, serve, serve_faults

# Of all emulators of Azure's storage.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def azurite(tmp_path: Path) -> Iterator[str]:
    """The endpoint of an azurite (npm install -g azurite) with the container ``box``."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed")
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with subprocess.Popen(
        [*command, "--disableTelemetry"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout is not None
            found = None
            while found is None:
                line = process.stdout.readline()
                if not line:
                    pytest.skip("azurite does not start here")
                found = re.search(r"listens on (http://\S+)", line)
            url = f"{found[1]}/{_ACCOUNT}"
            _make_container(url, "box")
            yield url
        finally:
            process.terminate()


def _make_container(url: str, name: str) -> None:
    """By a signed request: "Authorize with Shared Key", learn.microsoft.com/rest/api/storageservices."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    lines = ["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in headers.items())]
    text = "\n".join([*lines, f"/{_ACCOUNT}/{_ACCOUNT}/{name}", "restype:container"])
    digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}"
    headers |= {"Content-Length": "0", "Content-Type": ""}
    request = urllib.request.Request(f"{url}/{name}?restype=container", b"", headers, method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


@pytest.mark.slow
def test_store_and_azure_agree(azurite: str, tmp_path: Path) -> None:
    """Writing, listing, reading, ranges, versions and errors."""
    options = {"account_name": _ACCOUNT, "account_key": _KEY, "endpoint": azurite}
    store = RemoteStore("az://box/train", options=options)
    contents = {"a b/x#+%é": os.urandom(1000), "b": b"b", "c": b""}
    etags = {path: store.put(path, data) for path, data in contents.items()}
    assert store.list() == [ObjectInfo(path, len(data), etags[path]) for path, data in sorted(contents.items())]
    assert {path: store.get(path) for path in contents} == contents
    cached = RemoteStore("az://box/train", options=options, cache=DiskCache(tmp_path / "cache", "1MB"))
    for _ in range(2):
        assert {info.path: cached.get(info.path, etag=info.etag) for info in cached.list()} == contents
    data = contents["a b/x#+%é"]
    assert store.get_ranges("a b/x#+%é", [(990, 10), (3, 4)]) == [data[990:], data[3:7]]
    assert store.read(Located("b", 0, 1, etags["b"])) == b"b"
    with pytest.raises(RemoteRangeError, match="only 1000"):
        store.get_range("a b/x#+%é", 995, 10)
    with pytest.raises(RemoteChangedError):
        store.read(Located("b", 0, 1, '"other"'))
    with pytest.raises(
        RemoteNotFoundError, match=r"404 Not Found \(BlobNotFound: The specified blob does not exist\.\)"
    ):
        store.get("none")
    with pytest.raises(RemoteNotFoundError, match="ContainerNotFound"):
        RemoteStore("az://no-such/", options=options).list()
    with pytest.raises(RemoteDeniedError, match="credentials"):
        RemoteStore("az://box/", options=options | {"account_key": "AAAA"}).list()


def test_store_speaks_the_protocol_of_google() -> None:
    """Its endpoint is within the key of a service account."""
    with serve() as server:
        key = {"gcs_base_url": server.url.rstrip("/"), "disable_oauth": True}
        words = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        options = {"service_account_key": json.dumps(key | words)}
        store = RemoteStore("gs://bucket/train", options=options)
        data = os.urandom(1000)
        assert store.put("a b/x", data) == etag_of(data)
        assert list(server.objects) == ["bucket/train/a b/x"]
        assert store.list() == [ObjectInfo("a b/x", 1000, etag_of(data))]
        assert store.get("a b/x") == data
        assert store.get_range("a b/x", 10, 20) == data[10:30]
        with pytest.raises(RemoteChangedError):
            store.get("a b/x", etag='"other"')
        with pytest.raises(RemoteNotFoundError, match=r"gs://bucket/train/none: .*NoSuchKey"):
            store.get("none")


def _of_google(server: ObjectServer) -> RemoteStore:
    key = {"gcs_base_url": server.url.rstrip("/"), "disable_oauth": True}
    words = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return RemoteStore("gs://bucket/", options={"service_account_key": json.dumps(key | words)})


def _of_azure(server: ObjectServer, **options: str) -> RemoteStore:
    options = options or {"account_key": _KEY}
    return RemoteStore("az://bucket/", options={"account_name": _ACCOUNT, "endpoint": server.url, **options})


def _is_signed(request: Request) -> bool:
    """Whether Azure would accept it: "Authorize with Shared Key", learn.microsoft.com/rest/api/storageservices."""
    given = request.headers
    own = "".join(f"{name}:{given[name]}\n" for name in sorted(given) if name.startswith("x-ms-"))
    query = "".join(f"\n{name}:{value}" for name, value in sorted(parse_qsl(urlsplit(request.target).query)))
    lines = [request.method, *[""] * 5, given["date"], "", given.get("if-match", ""), "", "", given.get("range", "")]
    text = "\n".join([*lines, f"{own}/{_ACCOUNT}{urlsplit(request.target).path}{query}"])
    digest = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    return given["authorization"] == f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize("provider", [_of_google, _of_azure])
@pytest.mark.parametrize("unnamed", [["d//x"], ["t\tx", "train/"], ["d/../y", "./x", "/first", "train/", "a//"]])
def test_keys_that_cannot_be_named_are_counted(
    provider: Callable[[ObjectServer], RemoteStore], unnamed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the list is there, and everything in it can be read; each request is authorized."""
    names = ["a b", "a&<b>", "x[1]/y", "q?y", "h#1", "empty", "train/1.jpg", "{a,b}", "ü", "zz"]
    contents = {name: b"" if name == "empty" else name.encode() for name in names}
    with serve() as server:
        server.objects = {f"bucket/{name}": data for name, data in contents.items()}
        server.objects |= {f"bucket/{name}": b"" for name in unnamed}
        store = provider(server)
        listed = store.list()
        assert {info.path: store.get(info.path, etag=info.etag) for info in listed} == contents
        (record,) = caplog.records
        assert f"{len(unnamed)} objects below " in record.getMessage()
        assert [info.path for info in store.list("train")] == ["train/1.jpg"]
        if provider is _of_azure:
            assert [request for request in server.requests if not _is_signed(request)] == []


@pytest.mark.parametrize("options", [{"sas_token": "sv=1&sig=SECRET"}, {"bearer_token": "SECRET"}])
def test_other_credentials_are_passed_on(options: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """And not told in errors."""
    with serve() as server:
        server.objects = {"bucket/d//x": b"", "bucket/y": b"1"}
        store = _of_azure(server, **options)
        assert [info.path for info in store.list()] == ["y"]
        assert all("SECRET" in request.target + str(request.headers) for request in server.requests)
        with serve_faults(server, lambda _, number: Fault("refuse", 403) if number else None) as proxy:
            store = _of_azure(proxy, **options)  # type: ignore[arg-type]  # has a URL too
            with pytest.raises(RemoteDeniedError) as caught:
                store.list()
    assert proxy.faults == ["refuse"]
    assert "SECRET" not in str(caught.value) + caplog.text


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[ObjectServer]:
    """A server whose certificate nobody has signed but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = ["openssl", "req", "-x509", *curve, *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    with serve(context) as server:
        yield server


@pytest.mark.slow
def test_https_is_read_and_its_certificate_checked(tls_server: ObjectServer) -> None:
    """Unless one asks for less."""
    tls_server.objects["folder/x"] = b"0123"
    url = tls_server.url.replace("http:", "https:") + "folder"
    with pytest.raises(RemoteUnavailableError, match=f"{url}/x"):
        RemoteStore(url, attempts=1).get("x")
    trusting: dict[str, Any] = {"client_options": {"allow_invalid_certificates": True}}
    store = RemoteStore(url, options=trusting)
    assert store.get("x") == b"0123"
    assert store.get_range("x", 1, 2) == b"12"
    with pytest.raises(RemoteError, match="404"):
        store.get("y")
