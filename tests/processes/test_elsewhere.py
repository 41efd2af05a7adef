"""Workers that are no children of this process, as their owners tell of them."""

import os
import sys
import threading
from typing import Any

import pytest

from spdl._processes._elsewhere import ELSEWHERE, WorkerElsewhere, pid_space
from tests.support.child import run_child

HERE, THERE = WorkerElsewhere(7, None, "here"), WorkerElsewhere(5, "node-7", "there")


class Owner:
    """Owns one worker, which answers with the name of the view when it may."""

    def __init__(self, worker: WorkerElsewhere) -> None:
        self.worker = worker
        self.may_answer = threading.Event()
        self.may_answer.set()

    def workers(self) -> list[WorkerElsewhere]:
        return [self.worker]

    def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
        self.may_answer.wait()
        return [(self.worker, view)]


def test_all_owners_tell_of_their_workers() -> None:
    """As long as there are owners."""
    owners = [Owner(HERE), Owner(THERE)]
    for owner in owners:
        ELSEWHERE.add(owner)
    assert ELSEWHERE.workers() == [HERE, THERE]
    assert ELSEWHERE.ask("stats") == [(HERE, "stats"), (THERE, "stats")]
    ELSEWHERE.discard(owners[1])
    assert ELSEWHERE.workers() == [HERE]
    del owner, owners
    assert ELSEWHERE.workers() == []
    assert ELSEWHERE.ask("stats") == []


def test_an_owner_that_hangs_holds_nobody_up() -> None:
    """Its workers have not answered."""
    owner = Owner(HERE)
    owner.may_answer.clear()
    ELSEWHERE.add(owner)
    try:
        assert ELSEWHERE.ask("stats", 0.0) == [(HERE, None)]
    finally:
        owner.may_answer.set()


def test_an_owner_that_fails_does_not_silence_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged."""

    class Broken(Owner):
        def ask(self, view: str, timeout: float) -> list[tuple[WorkerElsewhere, Any]]:
            raise ConnectionError("the cluster is gone")

    owners = [Broken(HERE), Owner(THERE)]
    for owner in owners:
        ELSEWHERE.add(owner)
    assert ELSEWHERE.ask("stats") == [(HERE, None), (THERE, "stats")]
    assert "cannot be asked for their stats" in caplog.text
    assert "the cluster is gone" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="pids are those of a machine and a name space there")
def test_processes_that_see_each_other_share_a_space_of_pids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container has its own; where it is not known, nobody shares it."""
    assert pid_space()
    run_child("from spdl._processes._elsewhere import pid_space; print(pid_space())").check(pid_space())
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[1]")
    assert pid_space().endswith(" pid:[1]")

    def refuse(path: Any) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(os, "readlink", refuse)
    assert pid_space() == ""
