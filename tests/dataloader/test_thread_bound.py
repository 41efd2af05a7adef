"""Datasets with objects that threads cannot share: judged by torch's loader without workers, and by arithmetic."""

import mmap
import os
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402
from spdl.dataloader._torch._thread_bound import copy_of, find_bound  # noqa: E402
from spdl.dataloader._torch.choosing import _choosing  # noqa: E402
from spdl.dataloader._torch.choosing._choosing import choose_without_measuring, decide  # noqa: E402
from spdl.dataloader._torch.choosing._local import LocalLoader, ResumedIndices  # noqa: E402
from spdl.dataloader._torch.choosing._measuring import measure  # noqa: E402
from spdl.pipeline import WorkerTimeoutError  # noqa: E402

from . import bound_datasets as bound  # noqa: E402

# A dataset closes nothing that it has opened, as most of those that are written.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

#: Those that threads may use, one after the other.
_SERIAL = {"h5py"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bound")
    bound.write_all(folder)
    return folder


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_choosing, "usable_cpus", lambda: 2)


def auto(dataset: Any, **options: Any) -> Any:
    return get_pytorch_dataloader(dataset, 4, workers="auto", num_workers=2, **options)


def batches_of_torch(dataset: Any) -> list[list[int]]:
    return [batch.tolist() for batch in DataLoader(dataset, 4)]


@pytest.mark.parametrize("timeout", [0, 60])
@pytest.mark.parametrize("holder", bound.HOLDERS)
@pytest.mark.parametrize("kind", bound.OPENERS)
def test_what_is_opened_on_first_use_is_for_processes(kind: str, holder: str, timeout: int, folder: Path) -> None:
    """It is found after the first samples, which are right; the dataset itself stays as it was, and can be sent."""
    if kind not in bound.OPENERS:
        pytest.skip("its library is not installed")
    reader = bound.Reader(kind, folder, at_once=False)
    dataset = bound.HOLDERS[holder](reader)
    plan = auto(dataset, timeout=timeout)._plan()
    assert choose_without_measuring(plan, 2) is None
    local = LocalLoader(plan, 1)
    measured, outcomes = measure(local, ResumedIndices(plan.indices), 2)
    assert measured is not None
    assert measured.bound is not None
    assert measured.bound.is_serial == (kind in _SERIAL)
    choice = decide(measured, plan, 2, 1000)
    assert choice.workers == "process"
    assert str(measured.bound) in str(choice)
    taken = [outcome.unwrap().tolist() for outcome in outcomes]
    assert taken == [[bound.expected(index) for index in range(at, at + 4)] for at in range(0, 4 * len(taken), 4)]
    assert reader.source is None
    assert find_bound(dataset=dataset) is None


@pytest.mark.parametrize("holder", bound.HOLDERS)
@pytest.mark.parametrize("kind", bound.OPENERS)
def test_what_is_opened_at_once_is_never_left_to_threads(kind: str, holder: str, folder: Path) -> None:
    """Processes get it if it can be pickled; otherwise an error names it and says what to do."""
    if kind not in bound.OPENERS:
        pytest.skip("its library is not installed")
    reader = bound.Reader(kind, folder, at_once=True)
    try:
        dataset = bound.HOLDERS[holder](reader)
        loader = auto(dataset)
        choice = choose_without_measuring(loader._plan(), 2)
        if kind in _SERIAL:
            assert choice is None
            return
        assert choice is not None
        assert choice.workers == "process"
        try:
            pickle.dumps(dataset)
        except Exception:
            with pytest.raises(TypeError) as caught:
                iter(loader)
            assert "threads cannot load this dataset (dataset" in caught.value.__notes__[-1]
    finally:
        reader.close()


def test_safe_datasets_are_left_to_threads(folder: Path) -> None:
    """Maps of memory, files that are opened for each sample, locks, what each thread has for itself, closed files."""

    class Local(bound.PerCall):
        def __init__(self) -> None:
            super().__init__(folder)
            self.local = threading.local()
            self.lock = threading.Lock()
            self.closed = self.path.open("rb")
            self.closed.close()
            self.itself = self

        def __getitem__(self, index: int) -> int:
            if not hasattr(self.local, "file"):
                self.local.path = self.path
            return super().__getitem__(index)

    for dataset in (bound.Mapped(folder), bound.PerCall(folder), Local(), list(range(48))):
        assert find_bound(dataset=dataset) is None
        plan = auto(dataset)._plan()
        assert choose_without_measuring(plan, 2) is None
        measured, _ = measure(LocalLoader(plan, 1), ResumedIndices(plan.indices), 2)
        assert measured is not None
        assert measured.bound is None


def test_a_descriptor_is_used_by_one_thread(folder: Path) -> None:
    """In another process, its number means something else."""
    dataset = bound.Descriptor(folder)
    try:
        loader = auto(dataset)
        for _ in range(2):
            assert [batch.tolist() for batch in loader] == batches_of_torch(dataset)
        assert loader.choice.workers == "thread"
        assert "dataset.fd is an open file descriptor" in str(loader.choice)
    finally:
        os.close(dataset.fd)


class Hanging(bound.PerCall):
    """One sample is not there until it is let go."""

    def __init__(self, folder: Path, at: int) -> None:
        super().__init__(folder)
        self.at = at
        self.go = threading.Event()

    def __getitem__(self, index: int) -> int:
        if index == self.at:
            self.go.wait()
        return super().__getitem__(index)


@pytest.mark.parametrize("at", [0, 1, 10])
def test_timeout_holds_while_it_measures(at: int, folder: Path) -> None:
    """Alone and side by side."""
    dataset = Hanging(folder, at)
    try:
        with pytest.raises(WorkerTimeoutError, match=r"timed out after 0\.2 seconds"):
            list(auto(dataset, timeout=0.2))
    finally:
        dataset.go.set()
        for thread in threading.enumerate():
            if thread.name.startswith("spdl-measuring"):
                thread.join()


def test_threads_that_failed_are_not_gone_back_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """If processes cannot be started either, that is the error."""
    owner = threading.get_ident()

    class Owned:  # of a function, so it cannot be pickled
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> int:
            if threading.get_ident() != owner:
                raise RuntimeError("used in another thread")
            return index

    with pytest.raises(TypeError) as caught:
        list(auto(Owned()))
    assert "failed in several side by side: RuntimeError: used in another thread" in caught.value.__notes__[-1]


def test_threads_warn_once(folder: Path) -> None:
    """At the first epoch at which the object is there."""
    for at_once in (True, False):
        dataset = bound.Own("file", folder, at_once=at_once)
        loader = get_pytorch_dataloader(dataset, 4, workers="thread", num_workers=2)
        told = []
        for _ in range(4):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                list(loader)
            told.append([str(each.message) for each in caught if "threads cannot share" in str(each.message)])
        assert [len(each) for each in told] == ([1, 0, 0, 0] if at_once else [0, 1, 0, 0])
        assert "dataset.source is an open file" in told[0 if at_once else 1][0]
        dataset.close()


def warnings_of_one_thread(dataset: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        epoch: Any = iter(get_pytorch_dataloader(dataset, 4, workers="thread", num_workers=1))
        epoch.close()
    return [str(each.message) for each in caught if "threads cannot share" in str(each.message)]


def test_one_thread_is_warned_only_of_what_has_an_owner(folder: Path) -> None:
    """Nobody else moves its position in a file; SQLite's connections refuse even one other thread."""
    for kind, expected in (("file", 0), ("sqlite", 1)):
        dataset = bound.Own(kind, folder, at_once=True)
        assert len(warnings_of_one_thread(dataset)) == expected
        dataset.close()


class Mapped:
    """Closes its map when it is collected, as datasets over HDF5 often do; so would a copy of it."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, index: int) -> int:
        return self.map[index]

    def __len__(self) -> int:
        return 200

    def __del__(self) -> None:
        self.map.close()


def test_a_copy_closes_nothing_that_the_dataset_uses(tmp_path: Path) -> None:
    path = tmp_path / "values"
    path.write_bytes(bytes(range(200)))
    loader = auto(Mapped(path))
    for _ in range(2):
        assert [value for batch in loader for value in batch.tolist()] == list(range(200))


def test_copies_share_data_and_parts_twice() -> None:
    """Counts and data are the same objects; a part that is in two places is copied once."""

    class Part:
        file = None

    class Whole:
        def __init__(self) -> None:
            self.part = Part()
            self.parts = [self.part, 3]
            self.counts = [1, 2]
            self.itself = self

    whole = Whole()
    copied = copy_of(whole)
    assert copied is copied.itself is not whole
    assert copied.part is copied.parts[0] is not whole.part
    assert copied.counts is whole.counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sqlite", "zip"])
def test_epochs_are_torchs(kind: str, folder: Path) -> None:
    """From the first sample to the last one, in each epoch."""
    dataset = bound.HOLDERS["joined"](bound.Reader(kind, folder, at_once=False))
    loader = auto(dataset)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [
            [bound.expected(index) for index in range(first, first + 4)] for first in range(0, bound.LENGTH, 4)
        ]
    assert loader.choice.workers == "process"
