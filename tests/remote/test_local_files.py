"""Folders with links, loops, FIFOs, sockets and devices: what a store lists is what ``find -L -type f`` finds."""

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from spdl.remote import RemoteError, RemoteNotFoundError, RemoteStore
from tests.support.soak import amount

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")

SCHEMES = ["file", "local"]


def store_of(root: Path, scheme: str) -> RemoteStore:
    pytest.importorskip("obstore" if scheme == "file" else "fsspec")
    return RemoteStore(f"{scheme}://{root}")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder with files, links and everything that is no file."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "sub", outside):
        folder.mkdir(parents=True)
    (root / "a.txt").write_bytes(b"a file")
    (root / "sub/b.txt").write_bytes(b"another")
    (outside / "o.txt").write_bytes(b"outside")
    (root / "link.txt").symlink_to("a.txt")
    (root / "folder").symlink_to("sub")
    (root / "out").symlink_to("../outside")
    (root / "out.txt").symlink_to("../outside/o.txt")
    (root / "broken").symlink_to("nowhere")
    (root / "self").symlink_to("self")
    (root / "zero").symlink_to("/dev/zero")
    os.mkfifo(root / "fifo")
    (root / "sub/fifo").symlink_to("../fifo")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as sock:
        os.chdir(root)  # a socket's path is short
        try:
            sock.bind("sock")
        finally:
            os.chdir(here)
        yield root


def found_by_find(root: Path, folder: str = ".") -> list[str]:
    """What another program finds; it refuses loops too."""
    if shutil.which("find") is None:
        pytest.skip("there is no find")
    done = subprocess.run(
        ["find", "-L", folder, "-type", "f"], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    return sorted(os.path.normpath(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_links_are_followed(root: Path, scheme: str) -> None:
    """To files and to folders, inside and outside; what is no file is not listed."""
    store = store_of(root, scheme)
    listed = [info.path for info in store.list("**")]
    assert listed == found_by_find(root)
    assert listed == ["a.txt", "folder/b.txt", "link.txt", "out.txt", "out/o.txt", "sub/b.txt"]
    for info in store.list("**"):
        assert store.get(info.path) == (root / info.path).read_bytes()
        assert info.size == len(store.get(info.path))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_loops_are_listed_once(root: Path, scheme: str) -> None:
    """A link to its own folder, and two folders that contain each other."""
    (root / "loop").symlink_to(".")
    (root / "sub/up").symlink_to("..")
    store = store_of(root, scheme)
    assert sorted(info.path for info in store.list("**")) == found_by_find(root)
    assert sorted(info.path for info in store.list("sub/**")) == found_by_find(root, "sub")
    assert store.get("loop/loop/sub/up/a.txt") == b"a file"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", ["fifo", "sub/fifo", "sock", "zero"])
def test_what_is_no_file_is_refused(root: Path, scheme: str, path: str) -> None:
    """At once, by each way to read: a FIFO would wait for its writer, and a device has no end."""
    store = store_of(root, scheme)
    refused = partial(pytest.raises, RemoteError, match="it is not a regular file|No such device")
    with refused():
        store.get(path)
    with refused():
        store.get_range(path, 0, 2)
    with refused():
        store.open(path)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_links_to_nothing(root: Path, scheme: str) -> None:
    """They are not there, and a link to itself leads nowhere."""
    store = store_of(root, scheme)
    with pytest.raises(RemoteNotFoundError):
        store.get("broken")
    with pytest.raises(RemoteError):
        store.get("self")


@pytest.mark.soak
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(4))
def test_any_tree_of_links(tmp_path: Path, scheme: str, seed: int) -> None:
    """Folders with files and links to any of them, as many as there are."""
    made = random.Random(seed)
    for number in range(amount(3, 20)):
        root = tmp_path / str(number)
        root.mkdir()
        folders = [root]
        for each in range(6):
            folder = made.choice(folders) / f"d{each}"
            folder.mkdir()
            folders.append(folder)
        for each in range(8):
            (made.choice(folders) / f"f{each}").write_bytes(b"x" * each)
        targets = [*folders, *(path for path in root.rglob("*") if path.is_file()), root / "none"]
        for each in range(4):
            link = made.choice(folders) / f"l{each}"
            target = made.choice(targets)
            link.symlink_to(os.path.relpath(target, link.parent) if made.random() < 0.5 else target)
        store = store_of(root, scheme)
        assert sorted(info.path for info in store.list("**")) == found_by_find(root)
