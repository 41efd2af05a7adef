"""Workers on their way: who loads meanwhile, who goes on, and the ways to leave before they are there."""

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.child import run_child

torch = pytest.importorskip("torch")

from spdl._processes._start import context_of  # noqa: E402
from spdl.dataloader import get_pytorch_dataloader  # noqa: E402 - it needs torch
from spdl.dataloader._torch.choosing import _choosing  # noqa: E402
from spdl.dataloader._torch.processes._worker_pool import Starting  # noqa: E402
from spdl.dataloader._torch.resuming._progress import Progress  # noqa: E402
from spdl.pipeline import WorkerDiedError  # noqa: E402

from .process_datasets import Numbers, as_is, plan_of  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="written for POSIX"),
]


class Late(Starting):
    """Is there when it has been asked so often; as if so many batches had been loaded meanwhile."""

    patience = 0

    def is_done(self) -> bool:
        if self.patience:
            type(self).patience -= 1
            return False
        if self._thread is not None:
            self._thread.join()
        return True


@pytest.fixture(autouse=True)
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes, whatever was measured, on two CPUs."""
    monkeypatch.setattr(_choosing, "usable_cpus", lambda: 2)
    monkeypatch.setattr(_choosing, "decide", lambda measured, *_: _choosing.Choice("process", "told to", measured))
    monkeypatch.setattr(_choosing, "Starting", Late)
    monkeypatch.setattr(Late, "patience", 0)


def auto(length: int, **options: Any) -> Any:
    """A loader whose batches are one sample: an index, and the process that has loaded it."""
    options = {"num_workers": 2, "collate_fn": as_is, **options}
    return get_pytorch_dataloader(Numbers(length), 1, workers="auto", **options)


def loaded(loader: Any) -> tuple[list[int], list[bool]]:
    """The indices of an epoch, and which of them were loaded here."""
    samples = [sample for batch in loader for sample in batch]
    return [index for index, _ in samples], [pid == os.getpid() for _, pid in samples]


@pytest.mark.parametrize("patience", [0, 5, 9])
def test_batches_are_loaded_here_until_the_workers_are_there(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, in order: those that were measured, one for each time that nobody was there, and then the workers'."""
    monkeypatch.setattr(Late, "patience", patience)
    loader = auto(20)
    indices, is_here = loaded(loader)
    assert indices == list(range(20))
    num_here = max(loader.choice.measured.num_samples, patience)
    assert is_here == [True] * num_here + [False] * (20 - num_here)
    assert loader.choice.workers == "process"


@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_may_be_over_before_the_workers_are_there(persistent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one has them."""
    monkeypatch.setattr(Late, "patience", 100)
    loader = auto(12, persistent_workers=persistent)
    assert loaded(loader) == (list(range(12)), [True] * 12)
    assert loaded(loader) == (list(range(12)), [False] * 12)


def test_the_error_of_a_sampler_comes_after_the_batches_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is met while workers start."""
    monkeypatch.setattr(Late, "patience", 100)

    def indices() -> Iterator[int]:
        yield from range(9)
        raise LookupError("nothing more")

    batches = iter(auto(9, sampler=indices()))
    assert [next(batches)[0][0] for _ in range(9)] == list(range(9))
    with pytest.raises(LookupError):
        next(batches)
    assert list(batches) == []


@pytest.mark.parametrize("way", ["close", "drop"])
def test_leaving_before_the_workers_are_there(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them, and they end by themselves: the leak check sees to it."""
    monkeypatch.setattr(Late, "patience", 100)
    loader = auto(20)
    batches = iter(loader)
    next(batches)
    if way == "close":
        batches.close()
        assert list(batches) == []
    else:
        del batches
        gc.collect()
    assert loaded(loader)[0] == list(range(20))


class Dies(Numbers):
    """Kills a process that it arrives in."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.pid = os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if os.getpid() != state["pid"]:
            os.abort()
        self.__dict__.update(state)


def test_what_kills_a_worker_is_not_tried_here() -> None:
    """It is raised, with what the process died of."""
    with pytest.raises(WorkerDiedError, match="SIGABRT"):
        list(get_pytorch_dataloader(Dies(20), 1, workers="auto", num_workers=2, collate_fn=as_is))


def test_what_cannot_be_sent_is_told_at_once() -> None:
    """No process is started for it."""

    class Unpicklable(Numbers):
        pass

    with pytest.raises(TypeError, match="the dataset cannot be sent"):
        Starting(plan_of(Unpicklable(4), multiprocessing_context=context_of("forkserver")), 0, Progress())


@pytest.mark.filterwarnings("ignore:spdl-loader.* is started by fork:RuntimeWarning")  # pytest-timeout's is a thread
def test_workers_that_are_forked_are_there_at_once() -> None:
    """In the caller's thread, where no other runs."""
    plan = plan_of(Numbers(4), multiprocessing_context=context_of("fork"))
    before = threading.active_count()
    starting = Starting(plan, 0, Progress())
    assert starting.is_done()
    assert threading.active_count() == before
    starting.abandon()


_SCRIPT = """
import os, signal, sys
from spdl.dataloader import get_pytorch_dataloader
from spdl.dataloader._torch.choosing import _choosing
from tests.dataloader.process_datasets import Numbers, as_is

_choosing.usable_cpus = lambda: 2
_choosing.decide = lambda measured, *_: _choosing.Choice("process", "told to", measured)

if __name__ == "__main__":
    batches = iter(get_pytorch_dataloader(Numbers(10**6), 1, workers="auto", num_workers=2, collate_fn=as_is))
    next(batches)
"""


def test_exit_before_the_workers_are_there() -> None:
    """With nothing on stderr."""
    run_child(_SCRIPT + '    print("last")\n').check("last")


def test_ctrl_c_before_the_workers_are_there() -> None:
    """As at any other moment."""
    run_child(_SCRIPT + "    os.kill(os.getpid(), signal.SIGINT)\n    list(batches)\n").check_interrupted()


def test_a_fork_before_the_workers_are_there_has_none() -> None:
    """It is told so, and the parent goes on."""
    run_child(
        _SCRIPT
        + """
    starting = batches._batches._starting
    pid = os.fork()
    if pid == 0:
        try:
            list(batches)
        except BaseException as exc:
            os._exit(type(exc).__name__ != "PipelineStateError")
        os._exit(2)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), next(batches)[0][0])
"""
    ).check("0 1")
