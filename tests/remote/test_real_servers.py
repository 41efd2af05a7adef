"""Servers of others: S3's semantics as moto has them, ranges as nginx serves them. Skipped where they are missing."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spdl.remote import (
    DiskCache,
    Located,
    ObjectInfo,
    RemoteChangedError,
    RemoteNotFoundError,
    RemoteRangeError,
    RemoteStore,
)
from tests.support.object_server import etag_of

from .conftest import S3_OPTIONS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The URL of moto's server, with a bucket."""
    server_module = pytest.importorskip("moto.server", exc_type=ImportError)
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host.replace('0.0.0.0', '127.0.0.1')}:{port}"
        import urllib.request

        with urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")) as answer:
            assert answer.status == 200
        yield url
    finally:
        server.stop()


@pytest.mark.allow_leaks(reason="moto's server keeps a thread and a connection for each client")
@pytest.mark.filterwarnings("default")
def test_store_and_s3_agree(moto: str, tmp_path: Path) -> None:
    """Writing, listing, reading, ranges, versions and errors."""
    options = S3_OPTIONS | {"endpoint": moto}
    store = RemoteStore("s3://bucket/train", options=options, cache=DiskCache(tmp_path, "10MB", block_size=1000))
    contents = {f"{index:04}.bin": os.urandom(10 * index) for index in range(30)} | {"deep/b c+#%é": b"1"}
    for path, data in contents.items():
        assert store.put(path, data) == etag_of(data)
    found = store.list()
    assert found == [ObjectInfo(path, len(data), etag_of(data)) for path, data in sorted(contents.items())]
    assert [info.path for info in store.list("000[1-3].bin")] == ["0001.bin", "0002.bin", "0003.bin"]
    plain = RemoteStore("s3://bucket/train", options=options)
    for _ in range(2):
        assert {path: store.get(path) for path in contents} == {path: plain.get(path) for path in contents} == contents
    last = contents["0029.bin"]
    assert plain.get_ranges("0029.bin", [(280, 10), (0, 5)]) == [last[280:], last[:5]]
    with pytest.raises(RemoteRangeError):
        plain.get_range("0029.bin", 285, 10)
    with pytest.raises(RemoteRangeError):
        plain.get_range("0029.bin", 1000, 10)
    with pytest.raises(RemoteChangedError):
        plain.read(Located("0029.bin", 0, 1, etag_of(b"other")))
    with pytest.raises(RemoteNotFoundError):
        plain.get("none")
    with pytest.raises(RemoteNotFoundError):
        RemoteStore("s3://no-such-bucket/", options=options).list()


_NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; root {folder}/files; }}
}}
"""


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of an nginx, and the folder that it serves."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    folder.chmod(0o755)
    (folder / "files").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "conf").write_text(("user root;" if os.getuid() == 0 else "") + _NGINX.format(folder=folder, port=port))
    with subprocess.Popen(
        [program, "-c", str(folder / "conf"), "-p", str(folder)], stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}/", folder / "files"
        finally:
            process.terminate()


def _wait_for(port: int, process: Any) -> None:
    while process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
    pytest.skip("nginx does not start here")


def test_store_and_nginx_agree(nginx: tuple[str, Path], tmp_path: Path) -> None:
    """Whole files, ranges, versions, conditions; with a cache and without."""
    url, files = nginx
    data = os.urandom(3_000_000)
    (files / "deep").mkdir()
    (files / "deep" / "x y.bin").write_bytes(data)
    (files / "empty").write_bytes(b"")
    for store in (
        RemoteStore(url),
        RemoteStore(url, cache=DiskCache(tmp_path, "10MB", block_size=100_000)),
        RemoteStore(url, cache=DiskCache(tmp_path, "10MB", block_size=100_000)),
    ):
        assert store.get("deep/x y.bin") == data
        assert store.get("empty") == b""
        assert store.get_ranges("deep/x y.bin", [(0, 3), (2_999_990, 10)]) == [data[:3], data[-10:]]
        etag = store.head("deep/x y.bin").etag
        assert etag is not None
        assert store.get("deep/x y.bin", etag=etag) == data
        with pytest.raises(RemoteChangedError):
            store.get("deep/x y.bin", etag='"other"')
        with pytest.raises(RemoteRangeError):
            store.get_range("deep/x y.bin", 2_999_990, 11)
        with pytest.raises(RemoteNotFoundError):
            store.get("none")
