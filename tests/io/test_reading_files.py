"""How files of a batch are read: no more system calls than files."""

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
