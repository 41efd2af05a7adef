"""Where tar archives end: one rule for all readers, judged by ``tarfile``, GNU tar and WebDataset.

Missing zeros at the end: a warning. An archive behind the end: a warning, or read when asked. Cut off: an error after
what is complete.
"""

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import spdl.io
from spdl.source import CompressedShardError, ShardError, ShardStream, TarIndex
from tests.support.shards import MemoryStore, tar_of

Files = list[tuple[str, bytes]]
BLOCK = 512
#: Samples of two files, with data of less and more than a block, and without data.
FILES: Files = [
    ("a/0.cls", b""), ("a/0.txt", b"x" * 100), ("a/1.cls", b"1"), ("a/1.txt", b"y" * 1200), ("b.cls", b"z" * BLOCK),
    ("b.txt", b"\0" * 700),
]  # fmt: skip
OTHERS: Files = [("b.cls", b"other"), ("b.txt", b""), ("c/" + "long" * 40 + ".txt", b"c" * 600)]
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def files_in(samples: Any) -> Iterator[tuple[str, bytes]]:
    for sample in samples:
        yield from ((f"{sample['__key__']}.{kind}", sample[kind]) for kind in sample if not kind.startswith("__"))


def by_index(data: bytes, path: Path, **options: Any) -> Iterator[tuple[str, bytes]]:
    path.write_bytes(data)
    return files_in(TarIndex.build(path, **options))


def by_index_of_store(data: bytes, path: Path, **options: Any) -> Iterator[tuple[str, bytes]]:
    return files_in(TarIndex.build(MemoryStore({path.name: data}), "*", **options))


def by_stream(data: bytes, path: Path, **options: Any) -> Iterator[tuple[str, bytes]]:
    path.write_bytes(data)
    return files_in(ShardStream(path, **options))


def by_compressed_stream(data: bytes, path: Path, **options: Any) -> Iterator[tuple[str, bytes]]:
    return files_in(ShardStream(path.name, open_shard=lambda _: io.BytesIO(gzip.compress(data)), **options))


def in_memory(data: bytes, path: Path, **options: Any) -> Iterator[tuple[str, bytes]]:
    return ((name, bytes(view)) for name, view in spdl.io.iter_tarfile(data, **options))


def by_file_object(data: bytes, path: Path, **options: Any) -> Iterator[tuple[str, bytes]]:
    return iter(spdl.io.iter_tarfile(io.BytesIO(data), **options))


INDEXES = [by_index, by_index_of_store]
STREAMS = [by_stream, by_compressed_stream]
MEMBERS = [in_memory, by_file_object]
Door = Callable[..., Iterator[tuple[str, bytes]]]
ALL = pytest.mark.parametrize("door", [*INDEXES, *STREAMS, *MEMBERS], ids=lambda door: door.__name__)


def read(door: Door, data: bytes, path: Path, **options: Any) -> tuple[Files, list[str], Exception | None]:
    """The files that come, the warnings, and the error at the end."""
    found: Files = []
    error: Exception | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            for file in door(data, path / "shard.tar", **options):
                found.append(file)  # those before an error, too
        except (ShardError, spdl.io.ArchiveError) as caught:
            error = caught
    return found, sorted({str(each.message).replace("\n", " ") for each in warned}), error


def by_tarfile(data: bytes, *, ignore_zeros: bool = False) -> Files:
    with tarfile.open(fileobj=io.BytesIO(data), ignore_zeros=ignore_zeros) as archive:
        return [(info.name, archive.extractfile(info).read()) for info in archive if info.isfile()]  # type: ignore[union-attr]


def by_gnu_tar(data: bytes, *options: str) -> list[str]:
    """The names in an archive; GNU tar's error is an error."""
    if shutil.which("tar") is None:
        pytest.skip("needs GNU tar")
    listed = subprocess.run(["tar", *options, "-tf", "-"], input=data, capture_output=True, check=True)
    return listed.stdout.decode().splitlines()


def without_end(data: bytes) -> bytes:
    """Without the zeros, of which the padding of the last file is none."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        last = archive.getmembers()[-1]
    return data[: last.offset_data + -(-last.size // BLOCK) * BLOCK]


@ALL
@pytest.mark.parametrize("format", FORMATS)
def test_zeros_that_are_missing_are_a_warning(door: Door, format: int, tmp_path: Path) -> None:
    """All files come, as from ``tarfile`` and GNU tar, which say nothing."""
    data = without_end(tar_of(FILES, format=format))
    assert by_tarfile(data) == FILES
    assert by_gnu_tar(data) == [name for name, _ in FILES]
    found, warned, error = read(door, data, tmp_path)
    assert (found, error) == (FILES, None)
    (text,) = warned
    assert f"ends at byte {len(data)} without the zeros that end a tar archive: it may have been longer" in text


@ALL
@pytest.mark.parametrize("num_zeros", [BLOCK, 2 * BLOCK, 10240, 1 << 20])
@pytest.mark.parametrize("garbage", [b"", b"g" * 100, b"g" * 2000], ids=len)
def test_ends_that_are_as_usual(door: Door, num_zeros: int, garbage: bytes, tmp_path: Path) -> None:
    """One block of zeros, two, or a record full of them; other data behind them is ignored, as by others."""
    data = without_end(tar_of(FILES)) + bytes(num_zeros) + garbage
    assert by_tarfile(data) == FILES
    assert read(door, data, tmp_path) == (FILES, [], None)


@ALL
@pytest.mark.parametrize("num_zeros", [BLOCK, 2 * BLOCK, 10240])
def test_archives_that_were_joined(door: Door, num_zeros: int, tmp_path: Path) -> None:
    """Only the first is read, with a warning; all of them when asked, as by GNU tar and ``tarfile``."""
    first = without_end(tar_of(FILES)) + bytes(num_zeros)
    data = first + tar_of(OTHERS, format=tarfile.GNU_FORMAT)
    found, warned, error = read(door, data, tmp_path)
    assert (found, error) == (FILES, None) == (by_tarfile(data), None)
    (text,) = warned
    assert f"another archive behind its end, at byte {len(first)}, which is ignored; ignore_zeros=True reads it" in text
    both = FILES + OTHERS
    assert by_tarfile(data, ignore_zeros=True) == both
    assert by_gnu_tar(data, "--ignore-zeros") == [name for name, _ in both]
    assert read(door, data, tmp_path, ignore_zeros=True) == (both, [], None)
    unended = first + without_end(tar_of(OTHERS))
    found, (text,), error = read(door, unended, tmp_path, ignore_zeros=True)
    assert (found, error) == (both, None)
    assert "without the zeros" in text


@ALL
def test_a_sample_ends_with_its_archive(door: Door, tmp_path: Path) -> None:
    """The same names in the next archive are another sample, and not a sample with two files of one extension."""
    data = tar_of([("k.txt", b"1")]) * 3
    found, warned, error = read(door, data, tmp_path, ignore_zeros=True)
    assert (found, warned, error) == ([("k.txt", b"1")] * 3, [], None)


@ALL
def test_what_holds_for_an_archive_does_not_hold_for_the_next(door: Door, tmp_path: Path) -> None:
    """A global PAX header; POSIX says that it is of one archive."""
    first = tar_of([("k.txt", b"1")], pax_headers={"path": "everywhere.txt"})
    found, _, error = read(door, first + tar_of([("n.txt", b"2")]), tmp_path, ignore_zeros=True)
    assert (found, error) == ([("everywhere.txt", b"1"), ("n.txt", b"2")], None)


@ALL
def test_damage_behind_the_zeros(door: Door, tmp_path: Path) -> None:
    """An error if all archives are to be read, after the files before it."""
    data = tar_of(FILES) + b"\x01" * 2 * BLOCK
    found, _, error = read(door, data, tmp_path, ignore_zeros=True)
    assert found == ([] if door in INDEXES else FILES)
    assert "damaged" in str(error)


def complete(data: bytes, cut: int, whole: Files) -> Files:
    """The files of samples of which all is before the cut."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        ends = [info.offset_data + info.size for info in archive]
    kept = [file for file, end in zip(whole, ends, strict=True) if end <= cut]
    keys = {name.partition(".")[0] for name, _ in whole[len(kept) :]}
    return [file for file in kept if file[0].partition(".")[0] not in keys]


@pytest.mark.parametrize("door", STREAMS)
@pytest.mark.parametrize("format", FORMATS)
def test_the_complete_samples_of_a_cut_archive_come_first(door: Door, format: int, tmp_path: Path) -> None:
    """Cut at any place: in a header, in data, in the padding, in an extension."""
    files = [
        (f"{'n' * 120 * (n % 2)}/{n}.{kind}", b"x" * size)
        for n in range(5)
        for kind, size in (("a", 9), ("b", n * 300))
    ]
    data = without_end(tar_of(files, format=format))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        starts = {info.offset for info in archive} | {len(data)}
    for cut in range(4 * BLOCK, len(data), 84):
        found, warned, error = read(door, data[:cut], tmp_path)
        if cut in starts:
            assert error is None
            assert "without the zeros" in warned[0]
            assert found == [file for file in files if file in found]
            continue
        assert error is not None, cut
        assert found == complete(data, cut, files), cut
        assert warned == []


def made_at_random(random: Random) -> Files:
    """Samples with different files, some in folders, and names of all lengths."""
    files: Files = []
    for number in range(random.randrange(1, 5)):
        folder = random.choice(["", "d/", "d/", "e" * 90 + "/", "P/", "./"])
        key = folder + random.choice([f"{number}", f"{number}" * 30, f"k{number}", f"k{number}-{'x' * 91}"])
        kinds = random.sample(["a", "b", "c.d", "json"], random.randrange(1, 4))
        files += [(f"{key}.{kind}", b"x" * random.choice([0, 1, 511, 512, 700])) for kind in kinds]
    return files


def positions(data: bytes, random: Random) -> Iterator[int]:
    """Places to cut: many of those in the names of headers, some of the others."""
    for start in range(0, len(data), BLOCK):
        within = [0, 1, 2, 3, 4, 9, random.randrange(100), 99, 100, 156, 157, random.randrange(BLOCK), BLOCK - 1]
        yield from (start + each for each in sorted(set(within)) if start + each < len(data))


def extensions_of(files: Files) -> list[set[str]]:
    """Of each sample."""
    keys = dict.fromkeys(name.partition(".")[0] for name, _ in files)
    return [{name.partition(".")[2] for name, _ in files if name.partition(".")[0] == key} for key in keys]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(12))
def test_no_cut_gives_a_part_of_a_sample(format: int, seed: int, tmp_path: Path) -> None:
    """Unless all samples before it were alike; and none hides a complete one whose next file is known."""
    random = Random(seed)
    files = made_at_random(random)
    data = without_end(tar_of(files, format=format))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = archive.getmembers()
    for cut in positions(data, random):
        found: Files = []
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found.extend(files_in(ShardStream("a", open_shard=lambda _, cut=cut: io.BytesIO(data[:cut]))))  # type: ignore[misc]
            except ShardError:
                assert not warned
            else:  # nothing tells such an archive from one that has only lost its zeros
                assert by_tarfile(data[:cut]) == found
                continue
        whole = complete(data, cut, files)
        following = members[len(whole)] if len(whole) < len(members) else None
        is_known = following is not None and cut >= following.offset_data - BLOCK + 157
        if whole and not is_known and found == whole[: -len(extensions_of(whole)[-1])]:
            continue  # the last sample may have had more files
        if found != whole:  # as if it had the files of the others
            kinds = extensions_of(found)
            assert found == files[: len(found)]
            assert len(kinds) > 1
            assert all(each == kinds[0] for each in kinds), cut


@pytest.mark.parametrize("door", MEMBERS)
def test_the_complete_files_of_a_cut_archive_come_first(door: Door, tmp_path: Path) -> None:
    """Those before the error, from memory and from a stream alike."""
    data = without_end(tar_of(FILES))
    for cut in range(1, len(data), 23):
        found, warned, error = read(door, data[:cut], tmp_path)
        if cut % BLOCK == 0 and warned:
            assert error is None
            continue
        assert error is not None
        assert found == FILES[: len(found)]
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            assert len(found) == sum(info.offset_data + info.size <= cut for info in archive if info.offset < cut)


@pytest.mark.parametrize("door", STREAMS)
def test_files_that_are_no_samples_are_not_passed_over_in_vain(door: Door, tmp_path: Path) -> None:
    """An archive that is cut off in one of them is an error too."""
    data = tar_of([("a.txt", b"1"), ("README", b"r" * 2000)])[: 4 * BLOCK]
    found, _, error = read(door, data, tmp_path)
    assert found == [("a.txt", b"1")]
    assert "ends early" in str(error)


@pytest.mark.parametrize("door", STREAMS)
def test_damage_comes_after_complete_samples(door: Door, tmp_path: Path) -> None:
    """A header with a wrong checksum: of the next sample, or within one."""
    data = bytearray(tar_of(FILES))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        offsets = {info.name: info.offset for info in archive}
    for name, expected in (("b.cls", FILES[:4]), ("b.txt", FILES[:4]), ("a/1.txt", FILES[:2])):
        broken = bytearray(data)
        broken[offsets[name]] ^= 1
        found, _, error = read(door, bytes(broken), tmp_path)
        assert "checksum is wrong" in str(error)
        assert found == expected, name


@pytest.mark.slow
@pytest.mark.allow_leaks(reason="WebDataset leaves files open")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_finds_the_same_samples(tmp_path: Path) -> None:
    """In an archive without zeros, and in the first of two."""
    webdataset = pytest.importorskip("webdataset")
    for data in (without_end(tar_of(FILES)), tar_of(FILES) + tar_of(OTHERS), tar_of(FILES) + b"garbage"):
        path = tmp_path / "a.tar"
        path.write_bytes(data)
        expected = [
            {key: value for key, value in sample.items() if not key.startswith("__")}
            for sample in webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for samples in (TarIndex.build(path), ShardStream(path)):
                assert [{key: value for key, value in each.items() if key[0] != "_"} for each in samples] == expected


def test_an_index_remembers_which_archives_it_has(tmp_path: Path) -> None:
    """One that was built for the first of joined archives is not used for all, and the other way round."""
    (tmp_path / "a.tar").write_bytes(tar_of(FILES) + tar_of(OTHERS))
    for saved_as in (None, tmp_path / "index"):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert len(TarIndex.of(tmp_path / "a.tar", saved_as=saved_as)) == 3
                assert len(TarIndex.of(tmp_path / "a.tar", saved_as=saved_as, ignore_zeros=True)) == 5
    index = TarIndex.of(tmp_path / "a.tar", ignore_zeros=True)
    assert list(files_in(index)) == FILES + OTHERS
    index.save(tmp_path / "copy")
    assert list(files_in(TarIndex.open(tmp_path / "copy"))) == FILES + OTHERS


COMPRESSED = [
    (gzip.compress(b"x"), "gzip"), (bz2.compress(b"x"), "bzip2"), (lzma.compress(b"x"), "xz"),
    (b"\x28\xb5\x2f\xfd\x24\x01\x09\x00\x00x", "Zstandard"), (b"\x04\x22\x4d\x18\x64@\xa7", "LZ4"),
]  # fmt: skip
OTHER = [
    (b"<!DOCTYPE html><title>404</title>", "HTML: see what the server said"),
    (b"\n <HTML>", "HTML: see what the server said"),
    (b'\xef\xbb\xbf<?xml version="1.0"?><Error/>', "XML: see what the server said"),
    (b"<Error><Code>AccessDenied</Code></Error>", "XML: see what the server said"),
    (b'{"message": "Not Found"}', "JSON: see what the server said"),
    (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    (b"PK\x05\x06" + bytes(18), "an empty zip archive"),
]


@pytest.mark.parametrize(("data", "name"), COMPRESSED, ids=[name for _, name in COMPRESSED])
@pytest.mark.parametrize("length", [None, 700])
@pytest.mark.parametrize("door", INDEXES)
def test_compressed_shards_are_named(data: bytes, name: str, length: int | None, door: Door, tmp_path: Path) -> None:
    """However short they are."""
    with pytest.raises(CompressedShardError, match=rf"compressed as a whole \({name}\).*ShardStream"):
        list(door(data if length is None else data.ljust(length, b"\1"), tmp_path / "a.tar"))


@pytest.mark.parametrize(("data", "name"), OTHER, ids=[name for _, name in OTHER])
@pytest.mark.parametrize("length", [None, 700])
@pytest.mark.parametrize("door", [*INDEXES, *STREAMS])
def test_what_is_no_archive_is_named(data: bytes, name: str, length: int | None, door: Door, tmp_path: Path) -> None:
    """Pages of servers above all, however short they are, and compressed too."""
    with pytest.raises(ShardError, match=f"it is not a tar archive; it looks like {name}"):
        list(door(data if length is None else data.ljust(length), tmp_path / "a.tar"))
