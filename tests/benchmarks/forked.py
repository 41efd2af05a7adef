"""Workers of a contest that are forked from a process with torch, instead of an interpreter each that imports it.

A contest starts interpreters, so that no contestant has what another one imports. What they do is the same in a fork;
importing torch takes longer than all of that. For tests of what contestants do, not of how they are started.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from benchmarks._contest import client
from benchmarks._contest.environments import CHECKOUT, REPOSITORY, Environment, environ_of

__all__ = ["forked_workers"]


@pytest.fixture
def forked_workers() -> Iterator[None]:
    """Contests fork what they would start. Not for contestants that start processes themselves."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "start_process", ForkedProcess)
        yield


class ForkedProcess:
    """A fork, with as much of the interface of ``subprocess.Popen`` as a client uses."""

    def __init__(self, environment: Environment, *module: str) -> None:
        assert environment == CHECKOUT, "only this interpreter can be forked"
        context = multiprocessing.get_context("forkserver")
        stdin, ours = context.Pipe(duplex=False)
        theirs, stdout = context.Pipe(duplex=False)
        # The pipes of a connection are those of a file.
        self.stdin = os.fdopen(os.dup(ours.fileno()), "w", encoding="utf-8")
        self.stdout = os.fdopen(os.dup(theirs.fileno()), encoding="utf-8")
        self._process = context.Process(target=_run, args=(stdin, stdout, environ_of(environment), module))
        self._process.start()
        for each in (stdin, ours, theirs, stdout):
            each.close()

    def communicate(self, timeout: float | None = None) -> None:
        """Close its pipes and wait for its end."""
        self.stdin.close()
        self._process.join(timeout)
        if self._process.is_alive():
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0.0)
        self.stdout.close()
        self._process.close()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def _run(stdin: Connection, stdout: Connection, environ: dict[str, str], module: tuple[str, ...]) -> None:
    """In the fork: become what ``python -m`` would be."""
    for number, connection in enumerate((stdin, stdout)):
        os.dup2(connection.fileno(), number)
        connection.close()
    sys.stdin = os.fdopen(0, encoding="utf-8")
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(REPOSITORY)
    importlib.import_module(module[0]).main(*module[1:])
