"""``resume.save`` and ``resume.load``: whole states, whatever happens meanwhile."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl import resume
from spdl.resume import ResumeError
from tests.strategies.profiles import cases
from tests.support.child import run_child
from tests.support.soak import SEED, amount

STATE = {"spdl": '{"kind":"test","version":1}'}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """States, and dictionaries of states and numbers."""
    for state in (STATE, {}, {"step": 3, "train": STATE, "loss": 0.25, "name": "Ü\n\0"}):
        for path in (tmp_path / "data.json", str(tmp_path / "other")):
            resume.save(path, state)
            assert resume.load(path) == state
    assert sorted(os.listdir(tmp_path)) == ["data.json", "other"]


def test_a_file_is_two_lines_of_json(tmp_path: Path) -> None:
    """For eyes and other programs."""
    resume.save(tmp_path / "data.json", STATE)
    header, body = [json.loads(line) for line in (tmp_path / "data.json").read_text().splitlines()]
    assert header == {"crc32": "3bc52219", "format": "spdl.resume", "length": 44, "version": 1}
    assert body == STATE


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """That of a file."""
    path = tmp_path_factory.mktemp("resume") / "data.json"
    resume.save(path, STATE)
    return path.read_bytes()


def test_every_truncated_file_is_refused(content: bytes, tmp_path: Path) -> None:
    """Wherever it ends."""
    path = tmp_path / "data.json"
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(ResumeError, match="is empty" if end == 0 else "is truncated"):
            resume.load(path)


@cases(100)
@given(data=st.data())
def test_every_changed_file_is_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """A byte that is changed, added or missing in the state."""
    path = tmp_path_factory.getbasetemp() / "changed"
    start = content.index(b"\n") + 1
    place = data.draw(st.integers(start, len(content) - 2))
    other = data.draw(st.binary(max_size=3).filter(lambda new: new != content[place : place + 1]))
    path.write_bytes(content[:place] + other + content[place + 1 :])
    with pytest.raises(ResumeError, match=r"is damaged|is truncated"):
        resume.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n", "was not written by spdl.resume.save()"),
        (b"{}\n{}\n", "was not written by"),
        (b"[]\n", "was not written by"),
        (b"PK\x03\x04" + bytes(5000), "was not written by"),
        (b'{"spdl":"..."}', "was not written by"),
        (b'{"crc32": "00000000", "format": "spdl.resume", "length": 1, "version": 2}\n0\n', "the file has version 2"),
        (b'{"format": "spdl.resume"}\n0\n', "the file has version None"),
        (b'{"crc32": "x", "format": "spdl.resume", "length": "1", "version": 1}\n0\n', "is truncated"),
        (b'{"crc32": "f4dbdf21", "format": "spdl.resume", "length": 1, "version": 1}\n0\n', "holds a int"),
        (b'{"crc32": "15d54739", "format": "spdl.resume", "length": 1, "version": 1}\n{\n', "its checksum is right"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """With what they are, and what to do."""
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(ResumeError) as caught:
        resume.load(path)
    assert str(caught.value).startswith(f"cannot load a state from {str(path)!r}: ")
    assert message in str(caught.value)


def test_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    """So that a first run can be told from a damaged state."""
    with pytest.raises(FileNotFoundError):
        resume.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        resume.save(tmp_path / "none" / "data.json", STATE)


@pytest.mark.parametrize(
    "state", [None, [1], "text", {"a": {1}}, {"a": float("nan")}, {"a": b""}, {1: 2}, {"a": [{2: 3}]}]
)
def test_what_is_no_state_is_not_saved(state: Any, tmp_path: Path) -> None:
    """And what was there before stays."""
    resume.save(tmp_path / "data.json", STATE)
    with pytest.raises(ResumeError, match=r"cannot save a state to '.*data\.json'"):
        resume.save(tmp_path / "data.json", state)
    assert resume.load(tmp_path / "data.json") == STATE
    assert os.listdir(tmp_path) == ["data.json"]


def test_permissions_stay(tmp_path: Path) -> None:
    """A new file has those that the umask leaves; one that is replaced keeps its own; a link stays a link."""
    plain, path, link = tmp_path / "plain", tmp_path / "data.json", tmp_path / "link"
    plain.touch()
    resume.save(path, STATE)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    link.symlink_to(path)
    resume.save(link, {"new": 1})
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert resume.load(path) == {"new": 1}


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "fchmod"])
def test_failure_leaves_the_old_file(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, say: the error is raised, the old state is whole, and nothing is left over."""
    resume.save(tmp_path / "data.json", STATE)

    def fail(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        resume.save(tmp_path / "data.json", {"new": 1})
    monkeypatch.undo()
    assert resume.load(tmp_path / "data.json") == STATE
    assert os.listdir(tmp_path) == ["data.json"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may write less than it was given."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, view: write(descriptor, view[:7]))
    resume.save(tmp_path / "data.json", STATE)
    assert resume.load(tmp_path / "data.json") == STATE


def test_folders_that_cannot_be_synchronised_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems refuse it; other failures are raised."""
    fsync = os.fsync

    def refuse(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(number)

    monkeypatch.setattr(os, "fsync", refuse)
    code = errno.EINVAL
    resume.save(tmp_path / "data.json", STATE)
    code = errno.EIO
    with pytest.raises(OSError, match=r"I/O|Input/output"):
        resume.save(tmp_path / "data.json", STATE)


# A forked child of the script saves; before, between and in the middle of its system calls it kills itself, or its
# parent kills it after a random number of saves.
KILLED = """
    import json, os, random, signal, sys
    from pathlib import Path
    from spdl import resume

    path, folder = Path("data.json").absolute(), Path(".")
    sizes = [1, 100, 100_000]

    def state(number):
        return {"number": number, "data": "x" * sizes[number % len(sizes)]}

    def check(numbers):
        loaded = resume.load(path)
        assert loaded["number"] in numbers and loaded == state(loaded["number"]), (loaded["number"], numbers)

    def forked(body):
        pid = os.fork()
        if pid == 0:
            try:
                body()
            finally:
                os._exit(3)
        return pid

    def fatal(calls, place):
        # The call of this number kills: when it begins, or, if it writes, when half is written.
        count = 0
        def wrap(name):
            original = getattr(os, name)
            def call(*args, **kwargs):
                nonlocal count
                count += 1
                if count == place:
                    if name == "write":
                        original(args[0], args[1][: len(args[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*args, **kwargs)
            setattr(os, name, call)
        for name in calls:
            wrap(name)

    resume.save(path, state(0))
    for number in range(1, 4):
        outcomes = []
        for place in range(1, 20):
            resume.save(path, state(number - 1))
            def body():
                fatal(("open", "write", "fsync", "close", "replace", "stat", "fchmod"), place)
                resume.save(path, state(number))
                os._exit(0)
            status = os.waitpid(forked(body), 0)[1]
            check((number - 1, number))
            if status == 0:
                break
            assert os.WTERMSIG(status) == signal.SIGKILL
            outcomes.append(resume.load(path)["number"])
        # From some call on, the new one is there: when it has been moved.
        assert outcomes == sorted(outcomes) and set(outcomes) == {number - 1, number}, outcomes

    rng = random.Random(SEED)
    for _ in range(TIMES):
        reader, writer = os.pipe()
        def body():
            number = 0
            while True:
                resume.save(path, state(number))
                number += 1
                os.write(writer, b".")
        pid = forked(body)
        os.close(writer)
        done = 0
        for _ in range(rng.randrange(1, 6)):
            done += len(os.read(reader, 1))
        for _ in range(rng.randrange(20_000)):
            pass
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        done += len(os.read(reader, 10_000))
        os.close(reader)
        # The last whose end was told, or one that had been moved when the child died.
        check((done - 1, done))
    left = {name for name in os.listdir(folder) if name != "data.json"}
    assert all(name.startswith(".data.json.") and name.endswith(".tmp") for name in left), left
    print("done")
"""


@pytest.mark.slow
@pytest.mark.soak
def test_kill_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    """SIGKILL at every system call of a save, and at random moments, never leaves a torn file."""
    script = f"import os\nos.chdir({str(tmp_path)!r})\nSEED, TIMES = {SEED}, {amount(5, 500)}\n"
    body = "\n".join(line[4:] for line in KILLED.splitlines())
    run_child(script + body).check("done")
