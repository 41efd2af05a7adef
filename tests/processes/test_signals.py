"""Signals of the training process: they end none of its other processes, from their first moment on."""

import os
import signal
from collections.abc import Iterator

import pytest

from spdl._processes._child import Child
from tests.processes import bodies
from tests.processes.bodies import TIMEOUT
from tests.support.child import run_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX")

#: What schedulers send to all processes of a job.
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
METHODS = ["forkserver", "fork", "spawn"]
_FORKS = pytest.mark.filterwarnings("ignore:.*can deadlock:RuntimeWarning", "ignore:.*use of fork:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def _own_fork_server() -> None:
    """One that a child of ours starts: that of a test before may not have imported what holds signals."""
    from multiprocessing.forkserver import _forkserver

    _forkserver._stop()  # type: ignore[attr-defined]


def start(method: str) -> Child:
    return Child.start(bodies.answer, name="spdl-test", what="a test", mp_context=method)


@pytest.fixture(params=METHODS)
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    child = start(request.param)
    yield child
    child.stop()


def _tell(child: Child, expression: str) -> object:
    child.link.send(6, 0, expression)
    return child.recv(TIMEOUT).load()


@_FORKS
def test_a_child_outlives_the_signals_of_its_parent(child: Child) -> None:
    """Each of them, in any state: before it runs, and while it does."""
    for number in SIGNALS:  # perhaps while it starts
        os.kill(child.pid, number)
    for number in SIGNALS:
        assert _tell(child, "1 + 1") == 2
        os.kill(child.pid, number)
    assert _tell(child, "1 + 1") == 2


@_FORKS
@pytest.mark.parametrize("method", METHODS)
def test_signals_while_a_child_starts_do_not_end_it(method: str) -> None:
    """From its first moment on, again and again until it answers."""
    child = start(method)
    try:
        child.link.send(1, 0, "there")
        while True:
            for number in SIGNALS:
                os.kill(child.pid, number)
            try:
                frame = child.recv(0.0005)
            except TimeoutError:
                continue
            assert frame.load() == ("there",)
            break
    finally:
        child.stop()


@_FORKS
def test_programs_and_forks_of_a_child_have_the_default_actions(child: Child) -> None:
    """Its ops can end what they start."""
    assert _tell(child, "run_and_end(signal.SIGTERM)") == -signal.SIGTERM
    assert _tell(child, "fork_and_end(signal.SIGTERM)") == -signal.SIGTERM
    assert _tell(child, "fork_and_end(signal.SIGUSR1)") == -signal.SIGUSR1


@_FORKS
def test_a_handler_of_the_user_in_a_child_is_called(child: Child) -> None:
    """One that an initializer sets."""
    assert _tell(child, "count_signals(signal.SIGUSR1)") == 0
    os.kill(child.pid, signal.SIGUSR1)
    assert _tell(child, "num_signals(1)") == 1


_USERS_OWN = """
from tests.support.in_child import *
import multiprocessing, os, signal
from spdl._processes._child import Child
from tests.processes import bodies

if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup(1) ignores it, also in what it starts
    child = Child.start(bodies.answer, name="ours", what="ours", mp_context="forkserver")
    child.link.send(1, 0, "there")
    child.recv(30)
    context = multiprocessing.get_context("forkserver")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        theirs = context.Process(target=bodies.wait_for_ever)
        theirs.start()
        os.kill(theirs.pid, number)  # perhaps while it starts
        theirs.join()
        assert theirs.exitcode == -number, theirs.exitcode
    from multiprocessing.forkserver import _forkserver
    server = _forkserver._forkserver_pid
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(server, number)
    again = Child.start(bodies.answer, name="ours", what="ours", mp_context="forkserver")
    again.link.send(1, 0, "there")
    assert again.recv(30).load() == ("there",)
    assert _forkserver._forkserver_pid == server
    again.stop()
    child.stop()
"""


@pytest.mark.slow
def test_processes_of_the_user_from_the_same_fork_server_can_be_terminated() -> None:
    """The fork server itself ignores the signals; of the processes that it forks, only ours do."""
    run_child(_USERS_OWN).check()


_IN_A_GROUP = """
from tests.support.in_child import *
import os, signal
from spdl.pipeline import iterate_in_subprocess
from tests.processes import bodies

if __name__ == "__main__":
    handled = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: handled.append(number))
    numbers = iterate_in_subprocess(bodies.some_numbers, buffer_size=2)
    for each in numbers:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            os.killpg(0, number)
    assert len(handled) == 4 * 5, handled
    assert list(numbers) == list(range(5))
"""


@pytest.mark.slow
def test_a_group_that_gets_signals_goes_on() -> None:
    """The training process handles each of them; fork server, tracker and worker go on."""
    run_child(_IN_A_GROUP).check()


_KINDS = """
from tests.support.in_child import *
import os, signal
import torch
from spdl.dataloader import get_pytorch_dataloader
from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

SIGNALS = signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index * index

def square(item):
    return item * item

def loader():
    loader = get_pytorch_dataloader(Squares(), batch_size=None, num_workers=2, workers="process")
    return (int(batch) for batch in loader)

def build(isolated=False, region=False):
    builder = PipelineBuilder().add_source(range(12))
    if region:
        builder = builder.to(ProcessPoolExecutorConfig(max_workers=2), buffer_size=1)
    builder = builder.pipe(square, isolate=isolated)
    if region:
        builder = builder.to(MAIN_PROCESS, buffer_size=1)
    return builder.add_sink(1)

if __name__ == "__main__":
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    for items in (
        loader(),
        build(isolated=True).build(num_threads=1),
        build(region=True).build(num_threads=1),
        run_pipeline_in_subprocess(build(), num_threads=1),
    ):
        found = []
        for item in items:
            found.append(item)
            for number in SIGNALS:
                os.killpg(0, number)
        assert sorted(found) == [number * number for number in range(12)], found
"""


@pytest.mark.slow
def test_workers_of_every_kind_outlive_signals_to_their_group() -> None:
    """Of torch-style loaders, from a template; of isolated stages, regions and subprocess pipelines."""
    run_child(_KINDS).check()
