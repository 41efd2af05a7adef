"""How files of a batch are read: no more system calls than files, and ahead if a disk has to be asked."""

import os
from pathlib import Path

import pytest

import spdl.io
from tests.io.pictures import write_jpeg

_COUNTS = Path("/proc/thread-self/io")


def _num_reads() -> int:
    """How many times this thread has read so far."""
    counts = dict(line.split(": ") for line in _COUNTS.read_text().splitlines())
    return int(counts["syscr"])


@pytest.mark.skipif(not _COUNTS.exists(), reason="the system does not count reads")
def test_each_file_of_a_batch_is_read_once(tmp_path: Path) -> None:
    """The file's size tells where it ends, not a second read."""
    paths = [write_jpeg(tmp_path / f"{index}.jpg", 64 + index) for index in range(20)]
    spdl.io.load_image_batch(paths, width=8, height=8)
    _num_reads()
    first = _num_reads()
    own = _num_reads() - first
    before = _num_reads()
    spdl.io.load_image_batch(paths, width=8, height=8)
    assert _num_reads() - before - own == len(paths)


@pytest.mark.slow  # files have to be on the disk before the cache lets go of them
@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system's cache cannot be told to let go of a file")
@pytest.mark.parametrize("num_threads", [0, 2])
def test_files_that_are_in_no_cache_give_the_same_batch(tmp_path: Path, num_threads: int) -> None:
    """More files than are read ahead; some are missing or no pictures, and fail as they do otherwise."""
    paths = [write_jpeg(tmp_path / f"{index}.jpg", 64, seed=index) for index in range(40)]
    paths[3].write_bytes(b"not a picture")
    paths[7:7] = [tmp_path / "missing.jpg", tmp_path]

    def load(num_threads: int) -> tuple[bytes, list[tuple[int, str]]]:
        batch: spdl.io.CPUBuffer = spdl.io.load_image_batch(
            paths, width=8, height=8, strict=False, num_threads=num_threads
        )
        return spdl.io.to_numpy(batch).tobytes(), [(each.index, str(each.error)) for each in batch.failures]

    expected = load(0)
    assert [index for index, _error in expected[1]] == [3, 7, 8]
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert load(num_threads) == expected
