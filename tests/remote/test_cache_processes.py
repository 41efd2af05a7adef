"""A cache whose processes are killed at any moment: every read is right, and nothing is left over its size."""

import fcntl
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spdl.remote import DiskCache, RemoteStore
from tests.support.child import environment
from tests.support.object_server import ObjectServer

_SIZE = 40 * 40_000

_WRITER = """
import random, sys
from spdl.remote import DiskCache, RemoteStore
folder, endpoint = sys.argv[1:]
options = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1", "endpoint": endpoint}
print("ready", flush=True)
while True:
    store = RemoteStore("s3://bucket/", cache=DiskCache(folder, SIZE, block_size=16_384), options=options)
    for _ in range(50):
        index = random.randrange(100)
        data = store.get(str(index))
        assert data == bytes([index]) * len(data) and len(data) == 300 * index, index
    print("read", flush=True)
"""


def _bytes_in(folder: Path) -> int:
    """As the file system counts them, without folders."""
    return sum(
        -(-path.stat().st_size // 4096) * 4096
        for path in folder.rglob("*")
        if path.name != ".spdl-cache" and path.is_file()
    )


def _start(folder: Path, endpoint: str) -> "subprocess.Popen[str]":
    script = _WRITER.replace("SIZE", str(_SIZE))
    words = [sys.executable, "-c", script, str(folder), endpoint]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())


@pytest.mark.slow
def test_processes_killed_while_they_write_leave_a_cache_that_is_right(
    server: ObjectServer, s3: Callable[..., RemoteStore], tmp_path: Path
) -> None:
    """Two at a time, killed at random moments, a few times over."""
    server.objects = {f"bucket/{index}": bytes([index]) * (300 * index) for index in range(100)}
    folder = tmp_path / "cache"
    choice = random.Random(5)
    for _ in range(3):
        writers = [_start(folder, server.url) for _ in range(2)]
        for writer in writers:
            with writer:
                assert writer.stdout is not None
                for _ in range(choice.randrange(2, 6)):  # in the middle of any batch of reads
                    assert writer.stdout.readline(), "it failed"
                writer.send_signal(signal.SIGKILL)
        assert _bytes_in(folder) <= _SIZE
    cache = DiskCache(folder, _SIZE, block_size=16_384)
    store = s3(cache=cache)
    for index in range(100):
        assert store.get(str(index)) == bytes([index]) * (300 * index)
    assert _bytes_in(folder) == cache.num_bytes() <= _SIZE


def test_temporary_file_of_a_killed_process_is_removed_when_room_is_needed(
    server: ObjectServer, s3: Callable[..., RemoteStore], tmp_path: Path
) -> None:
    """And not that of a living one, which is locked."""
    folder = tmp_path / "cache"
    server.objects = {f"bucket/{index}": os.urandom(100_000) for index in range(10)}
    cache = DiskCache(folder, 500_000)
    abandoned = cache._space.reserve(50_000)
    written = cache._space.reserve(50_000)
    assert abandoned is not None
    assert written is not None
    os.close(abandoned.descriptor)  # as the end of its process does
    store = s3(cache=cache)
    for index in range(10):
        store.get(str(index))
    assert not Path(abandoned.path).exists()
    assert Path(written.path).exists()
    assert _bytes_in(folder) <= 500_000
    written.close()


def test_cache_that_another_process_keeps_locked_is_passed_over(
    server: ObjectServer,
    s3: Callable[..., RemoteStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Reading goes on; what is there is used."""
    folder = tmp_path / "cache"
    server.objects = {"bucket/1": bytes(1000), "bucket/2": bytes(1000)}
    store = s3(cache=DiskCache(folder, 20_000))
    store.get("1")
    monkeypatch.setattr("spdl.remote._space._PATIENCE", 0.0)
    with open(folder / ".spdl-cache", "rb") as account:
        fcntl.flock(account, fcntl.LOCK_EX)
        assert store.get("2") == bytes(1000)
    assert "locked" in caplog.text
    server.requests.clear()
    assert store.get("1") == bytes(1000)
    assert server.requests == []


def test_account_that_is_too_high_is_corrected(
    server: ObjectServer, s3: Callable[..., RemoteStore], tmp_path: Path
) -> None:
    """A process that is killed after it reserved room never uses it."""
    folder = tmp_path / "cache"
    server.objects = {"bucket/1": bytes(1000), "bucket/2": bytes(1000)}
    store = s3(cache=DiskCache(folder, 20_000))
    store.get("1")
    (folder / ".spdl-cache").write_bytes(b"SPDL disk cache\n" + (20_000).to_bytes(8, "little"))
    store.get("2")
    server.requests.clear()
    assert (store.get("1"), store.get("2")) == (bytes(1000), bytes(1000))
    assert server.requests == []
