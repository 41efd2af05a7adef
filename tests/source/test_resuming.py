"""Pipelines over every source, stopped in the middle: another process goes on with exactly what is missing."""

import json
from pathlib import Path

import pytest

import spdl.source
from tests.source.resuming import COUNT, LIBRARIES, OURS, read_some
from tests.support.child import run_file

#: Those that are no sources.
_OTHERS = {
    "CompressedShardError",
    "IterableWithShuffle",
    "RangeStore",
    "ShardError",
    "SizedIterable",
    "SizedIterableWithShuffle",
    "StaleIndexError",
}


def check(name: str, folder: Path, taken: tuple[int, ...]) -> None:
    """Read as many items, and let another process read the rest, from the state in a file."""
    case = {**OURS, **LIBRARIES}[name]
    for package in case.needs:
        pytest.importorskip(package, reason="what this source reads with", exc_type=ImportError)
    data = folder / "data"
    data.mkdir()
    case.prepare(data)
    whole = read_some(case, data, case.total or 2 * COUNT)
    assert len(whole) == COUNT
    assert len(set(whole)) == COUNT or case.total is not None
    for count in taken:
        state, script = folder / f"state-{count}", folder / f"rest-{count}.py"
        assert read_some(case, data, count, state) == whole[:count]
        most = 2 * COUNT if case.total is None else COUNT - count
        call = f"print_rest({name!r}, {str(data)!r}, {str(state)!r}, {most})"
        script.write_text(f"from tests.source.resuming import print_rest\n{call}\n")
        ended = run_file(script, may_warn="default" if name in LIBRARIES else None)
        assert ended.returncode == 0, ended
        told = json.loads(ended.stdout.splitlines()[-1])
        assert told["rest"] == whole[count:], count
        assert ["iterated from its beginning" in said for said in told["warnings"]] == [True] * (
            count > 0 and not case.has_state
        )


@pytest.mark.allow_leaks(reason="obstore keeps its threads and their descriptors")
@pytest.mark.parametrize("name", OURS)
def test_another_process_goes_on_with_what_is_missing(name: str, tmp_path: Path) -> None:
    """Before the first item, in the middle, and behind the last."""
    check(name, tmp_path, (0, 10, COUNT))


@pytest.mark.slow
@pytest.mark.allow_leaks(reason="the libraries keep threads and files")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", LIBRARIES)
def test_another_process_goes_on_with_what_a_library_reads(name: str, tmp_path: Path) -> None:
    """In the middle. Where the package is not installed, it is skipped."""
    check(name, tmp_path, (10,))


def test_every_source_is_here() -> None:
    """All public names but those that are no sources."""
    covered = {name for case in (*OURS.values(), *LIBRARIES.values()) for name in case.covers}
    assert covered == set(spdl.source.__all__) - _OTHERS
