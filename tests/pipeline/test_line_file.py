"""The file that provenance and quarantine append to: whole lines stay whole, whatever others leave in it."""

import json
import os
import random
import stat
from pathlib import Path

import pytest

from spdl.pipeline._line_file import LineFile


def _whole(path: Path) -> list[object]:
    """The lines that are JSON, as any reader would take them."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


@pytest.mark.parametrize("seed", range(20))
def test_torn_lines_of_others_cost_themselves_only(seed: int, tmp_path: Path) -> None:
    """Several writers append; between two lines, a process may be killed in the middle of its own."""
    path = tmp_path / "lines"
    chosen = random.Random(seed)
    files = [LineFile(str(path), "log") for _ in range(3)]
    expected = []
    for number in range(60):
        if chosen.random() < 0.3:
            with path.open("ab") as other:
                torn = _line({"torn": number})[: chosen.randrange(1, 14)]
                other.write(torn)
        chosen.choice(files).append(_line({"n": number}))
        expected.append({"n": number})
    for file in files:
        file.close()
    assert [each for each in _whole(path) if isinstance(each, dict) and "n" in each] == expected


def test_a_line_torn_between_check_and_write_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process is killed just before our write; the line stands on one of its own all the same."""
    path = tmp_path / "lines"
    file = LineFile(str(path), "log")
    write = os.write

    def late(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        with path.open("ab") as other:
            other.write(b'{"to')
        return write(fd, data)

    monkeypatch.setattr(os, "write", late)
    file.append(_line([1]))
    file.append(_line([2]))
    file.close()
    assert _whole(path) == [[1], [2]]


def test_a_forked_child_appends_with_a_position_of_its_own(tmp_path: Path) -> None:
    """The child of a fork shares the parent's descriptor; their lines are all whole."""
    path = tmp_path / "lines"
    file = LineFile(str(path), "log")
    file.append(_line("before"))
    child = os.fork()
    if child == 0:
        try:
            for number in range(200):
                file.append(_line([1, number]))
        finally:
            os._exit(0)
    for number in range(200):
        file.append(_line([0, number]))
    os.waitpid(child, 0)
    file.close()
    lines = path.read_bytes().splitlines()
    assert len(lines) == 401
    assert sorted(map(json.loads, lines[1:])) == [[who, number] for who in (0, 1) for number in range(200)]


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """With and without a reader; so is a socket or a folder. Character devices are allowed."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match=f"cannot open the log: .*FIFO.*{fifo}"):
        LineFile(str(fifo), "log")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="cannot open the log"):
            LineFile(str(fifo), "log")
    finally:
        os.close(reader)
    with pytest.raises(IsADirectoryError, match="cannot open the log"):
        LineFile(str(tmp_path), "log")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    file = LineFile(os.devnull, "log")
    file.append(b"x\n")
    file.close()


def test_it_is_written_after_it_was_closed(tmp_path: Path) -> None:
    """Results that come late open the file again, and leave no descriptor behind."""
    path = tmp_path / "lines"
    file = LineFile(str(path), "log")
    file.close()
    file.append(_line(1))
    assert _whole(path) == [1]
