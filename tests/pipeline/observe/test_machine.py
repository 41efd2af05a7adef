"""CPU time of this process and of its children, as verdicts are made of."""

import os
import sys
from typing import Any

import pytest

from spdl._processes._elsewhere import ELSEWHERE, WorkerElsewhere
from spdl.pipeline._observe import _sampling

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


def test_threads_are_not_asked_for_children_if_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without children opens no file for each of its threads."""

    def have_none(*args: int) -> None:
        raise ChildProcessError

    def list_them(*args: object) -> list[int]:
        raise AssertionError("the threads were asked")

    monkeypatch.setattr(os, "waitid", have_none)
    monkeypatch.setattr(_sampling, "_descendants", list_them)
    assert _sampling.read_cpu().own > 0


@pytest.mark.parametrize("error", [None, OSError("waitid is not there")])
def test_children_count(error: OSError | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time of children is added, also where nobody can tell whether there are any."""

    def have_some(*args: int) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(os, "waitid", have_some)
    monkeypatch.setattr(_sampling, "_descendants", lambda *args: [1, 2])
    monkeypatch.setattr(_sampling, "_cpu_of", lambda folder: 1e6 * int(folder.rpartition("/")[2]))
    assert 3e6 < _sampling.read_cpu().own < 4e6


class Workers:
    """Owns workers that are no children."""

    def __init__(self, *workers: WorkerElsewhere) -> None:
        self.found = list(workers)

    def workers(self) -> list[WorkerElsewhere]:
        return self.found

    def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
        raise AssertionError("nobody has to be asked")


def test_workers_on_this_machine_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and what they have used stays when they have ended. Those on other machines do not."""
    times = {"1": 1e6, "7": 7e6, "8": 8e6}
    monkeypatch.setattr(_sampling, "_OTHERS", _sampling._Others())
    monkeypatch.setattr(_sampling, "_has_children", lambda: True)
    monkeypatch.setattr(_sampling, "_descendants", lambda *args: [1])
    monkeypatch.setattr(_sampling, "_cpu_of", lambda folder: times.get(folder.rpartition("/")[2], 0.0))
    workers = Workers(WorkerElsewhere(1, None, "a"), WorkerElsewhere(7, None, "b"), WorkerElsewhere(8, "node-7", "c"))
    ELSEWHERE.add(workers)
    assert 8e6 < _sampling.read_cpu().own < 9e6
    del times["7"]
    assert 8e6 < _sampling.read_cpu().own < 9e6
    workers.found.clear()
    assert 8e6 < _sampling.read_cpu().own < 9e6
