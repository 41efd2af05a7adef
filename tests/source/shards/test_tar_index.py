"""``TarIndex``: what is in it, judged by ``tarfile`` and WebDataset, and what is refused."""

import gzip
import io
import pickle
import random
import tarfile
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import CompressedShardError, ShardError, TarIndex
from tests.strategies.profiles import cases
from tests.support.shards import tar_of, write_shards

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
# Long names need extensions; those of ustar have 100 bytes, or 255 if they divide at a slash.
NAMES = st.text("ab_é", min_size=1, max_size=6) | st.integers(90, 300).map("x".__mul__)


def expected(path: Path) -> list[dict[str, Any]]:
    """The samples of a tar, as ``tarfile`` reads it: files with the same name up to the first dot."""
    found: list[dict[str, Any]] = []
    with tarfile.open(path) as archive:
        for member in archive:
            folder, slash, name = member.name.rpartition("/")
            key, dot, extension = name.partition(".")
            file = archive.extractfile(member) if member.isreg() else None
            if file is None or not dot or not key:
                continue
            if not found or found[-1]["__key__"] != folder + slash + key:
                found.append({"__key__": folder + slash + key, "__url__": str(path)})
            found[-1][extension.lower()] = file.read()
    return found


@cases(60)
@given(
    names=st.lists(NAMES, max_size=8, unique=True),
    extensions=st.lists(st.sampled_from(["jpg", "cls", "seg.PNG", "json"]), min_size=1, max_size=3, unique=True),
    format=st.sampled_from(FORMATS),
    seed=st.integers(0, 100),
)
def test_samples_are_those_of_tarfile(
    names: list[str], extensions: list[str], format: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Long names, names that are not ASCII, empty files and several dots, in each format."""
    noise = random.Random(seed)
    if format == tarfile.USTAR_FORMAT:
        names = [name for name in names if len(name) < 40]
    files = [
        (f"träin/{name}.{extension}", noise.randbytes(noise.choice([0, 1, 511, 512, 513, 20000])))
        for name in names
        for extension in extensions
    ]
    path = tmp_path_factory.mktemp("shards") / "a.tar"
    path.write_bytes(tar_of(files, format=format))
    index = TarIndex.build(path)
    assert list(index) == expected(path)
    assert [index[number] for number in range(len(index))] == list(index)
    assert [index.key(number) for number in range(len(index))] == [sample["__key__"] for sample in index]
    assert index.num_files == len(files)
    assert index.skipped == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.allow_leaks(reason="WebDataset leaves its files open")
def test_samples_are_those_of_webdataset(tmp_path: Path) -> None:
    """Shards written by its writer and by hand: upper case, no extension, metadata, several dots, folders."""
    webdataset = pytest.importorskip("webdataset", reason="the oracle of this test")
    with webdataset.TarWriter(str(tmp_path / "part-000000.tar")) as writer:
        for number in range(20):
            writer.write({"__key__": f"{number:04}", "jpg": b"j" * number, "json": {"n": number}, "cls": number})
    odd = [
        ("a/b.c/x.jpg", b"1"), ("a/b.c/x.JSON", b"{}"), ("README", b"?"), ("__meta__/x.txt", b"?"),
        ("y.seg.png", b"2"), ("y.png", b"3"), ("z/.hidden", b"4"), ("x.jpg", b"5"), ("README", b"?"), ("x.cls", b"6"),
        ("w.", b"7"), ("__all__", b"?"), ("__a__.b", b"8"),
    ]  # fmt: skip
    (tmp_path / "part-000001.tar").write_bytes(tar_of(odd))
    pattern = str(tmp_path / "part-{000000..000001}.tar")
    theirs = list(webdataset.WebDataset(pattern, shardshuffle=False))
    for sample in theirs:
        sample.pop("__local_path__", None)
    index = TarIndex.build(pattern)
    assert list(index) == theirs
    assert index.skipped == {"without sample": 4}


def test_what_is_no_file_is_counted(tmp_path: Path) -> None:
    """Folders, links and pipes are passed over."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for kind, name in [
            (tarfile.DIRTYPE, "d.x"), (tarfile.SYMTYPE, "s.x"), (tarfile.LNKTYPE, "h.x"), (tarfile.FIFOTYPE, "p.x"),
        ]:  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "a.txt"
            archive.addfile(info)
        info = tarfile.TarInfo("a.txt")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    index = TarIndex.build(path)
    assert [sample["txt"] for sample in index] == [b"abc"]
    assert index.skipped == {"directory": 1, "hard link": 1, "pipe": 1, "symbolic link": 1}
    assert index.shards[0].skipped == index.skipped


@pytest.mark.parametrize("layout", ["gnu", "posix"])
def test_sparse_files_are_counted(layout: str, tmp_path: Path) -> None:
    """Their data in the archive is not that of the file, so they are no samples; those behind them are."""
    files = [("a.txt", b"abc"), ("hole.bin", b"x" * 700), ("b.txt", b"def")]
    data = bytearray(tar_of(files, format=tarfile.GNU_FORMAT))
    if layout == "gnu":
        at = data.index(b"hole.bin")
        data[at + 156 : at + 157] = b"S"
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    else:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in files:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                info.pax_headers = {"GNU.sparse.major": "1"} if name == "hole.bin" else {}
                archive.addfile(info, io.BytesIO(content))
        data = bytearray(made.getvalue())
    path = tmp_path / "a.tar"
    path.write_bytes(data)
    index = TarIndex.build(path)
    assert [sample["txt"] for sample in index] == [b"abc", b"def"]
    assert index.skipped == {"sparse file": 1}


@pytest.mark.parametrize("stop", [0, 100, 512, 600, 1024, 1100, 1500, 2048, 2060])
def test_a_cut_off_archive_is_refused(stop: int, tmp_path: Path) -> None:
    """The error names the archive and the byte. Cut where a header could be, it could also be whole: a warning."""
    path = tmp_path / "cut.tar"
    path.write_bytes(tar_of([("a.txt", b"x" * 100), ("b.txt", b"y" * 600)])[:stop])
    if stop == 1024:
        with pytest.warns(UserWarning, match="ends at byte 1024 without the zeros"):
            assert len(TarIndex.build(path)) == 1
        return
    with pytest.raises(ShardError, match=r"cut\.tar.*ends early") as caught:
        TarIndex.build(path)
    assert caught.value.shard == str(path)
    assert caught.value.offset in (0, 512, 1024, 1536)
    assert pickle.loads(pickle.dumps(caught.value)).offset == caught.value.offset


@cases(100)
@given(data=st.data())
def test_damage_is_an_error_or_changes_nothing_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any byte of a header changed: a ``ShardError`` that names the archive, or an index."""
    name = "long" * 40 + ".txt"
    whole = bytearray(tar_of([("a.txt", b"x" * 10), (name, b"y" * 600)], format=tarfile.PAX_FORMAT))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "a.tar"
    path.write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            index = TarIndex.build(path)
        except ShardError as error:
            named, index = error.shard, None
    assert named == str(path) if index is None else all(set(sample) >= {"__key__", "__url__"} for sample in index)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(tar_of([("a.txt", b"abc")])), "compressed as a whole .gzip.*ShardStream"),
        (b"BZh91AY" + bytes(600), "compressed as a whole .bzip2"),
        (b"PK\x03\x04" + bytes(600), "not a tar archive"),
    ],
    ids=["gzip", "bzip2", "zip"],
)
def test_what_has_no_ranges_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    """A compressed archive names the mode that reads it."""
    path = tmp_path / "a.tar"
    path.write_bytes(data + bytes(-len(data) % 512))
    with pytest.raises(ShardError, match=said) as caught:
        TarIndex.build(path)
    assert isinstance(caught.value, CompressedShardError) == ("compressed" in said)


def test_two_files_of_the_same_extension_are_an_error(tmp_path: Path) -> None:
    """As in WebDataset: one of them would be lost."""
    (tmp_path / "a.tar").write_bytes(tar_of([("k.jpg", b"1"), ("k.JPG", b"2")]))
    with pytest.raises(ShardError, match="'k' has two files with the extension 'jpg', the second at byte 1536"):
        TarIndex.build(tmp_path)


def test_many_threads_may_read(tmp_path: Path) -> None:
    """More shards than are kept open, from several threads at once."""
    write_shards(tmp_path, [2] * 70)
    index = TarIndex.build(tmp_path)
    barrier = threading.Barrier(4)
    found: list[list[bytes]] = []

    def read(seed: int) -> None:
        order = random.Random(seed).sample(range(len(index)), len(index))
        barrier.wait()
        samples = {number: index[number]["txt"] for number in order}
        found.append([samples[number] for number in range(len(index))])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[f"{shard} {number}".encode() for shard in range(70) for number in range(2)]] * 4


def test_an_empty_archive_has_no_samples(tmp_path: Path) -> None:
    """And nothing can be asked of it."""
    write_shards(tmp_path, [0])
    index = TarIndex.of(tmp_path)
    assert (len(index), list(index), index.num_files) == (0, [], 0)
    for number in (0, -1):
        with pytest.raises(IndexError, match="out of range for 0 samples"):
            index[number]


def test_numbers_are_those_of_a_sequence(tmp_path: Path) -> None:
    """From the end, by slices, and through ``in`` and ``reversed``."""
    write_shards(tmp_path, [3, 2])
    index = TarIndex.build(tmp_path)
    whole = list(index)
    assert (index[-1], index[1:4], list(reversed(index))) == (whole[-1], whole[1:4], whole[::-1])
    assert repr(index) == "TarIndex(5 samples in 2 shards)"


@pytest.mark.parametrize(
    ("where", "options", "error", "said"),
    [
        ("missing.tar", {}, FileNotFoundError, "no such shard.*missing.tar"),
        ("m-{0..1}.tar", {}, FileNotFoundError, "no such shard.*m-0.tar"),
        ("*.tar", {}, FileNotFoundError, "no such shard"),
        ([], {}, ValueError, "one shard or more"),
        (5, {}, TypeError, "list.pattern. and read.located.*int"),
        ("a.tar", {"pattern": "*.tar"}, ValueError, "pattern must be None"),
        ("a.tar", {"num_threads": 0}, ValueError, "num_threads must be >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_refused(
    where: Any, options: dict[str, Any], error: type[Exception], said: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """By name, with what is accepted."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        TarIndex.build(where, **options)
