"""benchmarks/free_threading: the pipelines do what is timed. No time is asserted, and no other Python needed."""

import sys
from pathlib import Path

import pytest

from benchmarks.free_threading import _cases, _work
from benchmarks.free_threading._cases import NUM_THREADS, contest_with, free_threaded_python, make_cases


def test_without_a_free_threaded_python_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one that the environment names comes first."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPDL_FREE_THREADED_PYTHON", raising=False)
    assert free_threaded_python() is None
    monkeypatch.setenv("SPDL_FREE_THREADED_PYTHON", "/a/python")
    assert free_threaded_python() == "/a/python"


def test_both_peers_have_all_cases(tmp_path: Path) -> None:
    """Each number of threads for Python and for pictures, and the bars are about cases that exist."""
    contest = contest_with(sys.executable)
    names = {case.name for case in make_cases(tmp_path, True)}
    assert {f"{kind}-{threads}" for kind in ("python", "images") for threads in NUM_THREADS} <= names
    assert {name for required in contest.required for name in required.cases()} <= names
    assert [peer.environment.python for peer in contest.peers] == [None, sys.executable]


@pytest.mark.parametrize("kind", ["python", "noop"])
def test_outputs_are_those_of_the_source(kind: str) -> None:
    """Sorted, because no stage promises an order."""
    data = {"num_threads": 2, "num_items": 20}
    call = _work.prepare(f"{kind}-2", data)
    items = _work.outputs(f"{kind}-2", call())["items"].tolist()
    op = _work._noop if kind == "noop" else _work._python
    assert items == sorted(op(item) for item in range(20))


@pytest.mark.parametrize("more", [{}, {"num_polling": 2}])
def test_a_turn_is_wall_and_cpu_time(more: dict[str, int]) -> None:
    """Also with threads that ask for the statistics."""
    took = _work.measure("noop", {"num_threads": 2, "num_items": 50, **more}, 1)
    assert took["wall"] > 0
    assert took["cpu"] >= 0


@pytest.mark.slow
def test_busy_processes_end_with_the_turn() -> None:
    """They are children of this process, so none is left to wait for."""
    with _work._busy(1) as processes:
        assert processes[0].poll() is None
    assert processes[0].returncode is not None


def test_the_sentence_says_what_to_do() -> None:
    """The name of the variable."""
    assert "SPDL_FREE_THREADED_PYTHON" in _cases.MISSING
