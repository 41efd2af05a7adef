"""``workers="auto"``: the decision, from injected measurements; and the epoch that it is made in."""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402
from spdl.dataloader._torch._arguments import Plan  # noqa: E402
from spdl.dataloader._torch.choosing import _choosing  # noqa: E402
from spdl.dataloader._torch.choosing._choosing import Choice, choose_without_measuring, decide, reconsider  # noqa: E402
from spdl.dataloader._torch.choosing._measuring import Cost, Measurement  # noqa: E402

MS = 1e-3
NOTHING = Cost(0.0, 0.0, 0.0)
Force = Callable[..., None]


def make_plan(**changes: Any) -> Plan:
    loader = get_pytorch_dataloader(list(range(100)), 10, workers="process", num_workers=2)
    return replace(loader._plan(), **changes)


def found(
    fetch: Cost, collate: Cost = NOTHING, *, batch_size: float = 32, threads: int = 2, num_bytes: int = 0
) -> Measurement:
    return Measurement(64, threads, batch_size, fetch, collate, 5e-5, num_bytes)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        # holds the GIL: two threads are no faster than one
        (found(Cost(3 * MS, 3 * MS, 3.1 * MS)), "process"),
        # half of it: Amdahl
        (found(Cost(4 * MS, 4 * MS, 3 * MS)), "process"),
        # releases it: decoding, compressing, hashing
        (found(Cost(3 * MS, 3 * MS, 1.5 * MS)), "thread"),
        (found(Cost(3 * MS, 3 * MS, 1.6 * MS)), "thread"),
        # waits: files, networks
        (found(Cost(20 * MS, 0.2 * MS, 10 * MS)), "thread"),
        # too small to be worth the way between processes
        (found(Cost(3e-6, 3e-6, 4e-6)), "thread"),
        # holds the GIL, but a batch is a gigabyte
        (found(Cost(1 * MS, 1 * MS, 1 * MS), num_bytes=1 << 30), "thread"),
        # samples wait, but collating them is Python
        (found(Cost(1 * MS, 0.1 * MS, 0.5 * MS), Cost(5 * MS, 5 * MS, 5 * MS)), "process"),
    ],
)
def test_decision_follows_the_measurement(measured: Measurement, expected: str) -> None:
    """Processes only where threads would wait for each other and batches are worth sending."""
    choice = decide(measured, make_plan(), 2, 100_000)
    assert choice.workers == expected
    assert choice.measured is measured


def test_more_threads_than_were_measured_help_what_waits() -> None:
    """Waiting is divided by all threads; what is on a CPU is not."""
    waits = found(Cost(20 * MS, 0.1 * MS, 10 * MS))
    choice = decide(waits, make_plan(num_workers=16), 2, None)
    assert choice.workers == "thread"
    assert choice.thread_seconds == pytest.approx(20 * MS / 16, rel=0.05)
    busy = found(Cost(20 * MS, 8 * MS, 10 * MS))
    assert decide(busy, make_plan(num_workers=16), 16, None).workers == "process"


def test_short_epochs_are_not_worth_a_start() -> None:
    """Processes start anew for each epoch; a length that is unknown is taken for long."""
    measured = found(Cost(3 * MS, 3 * MS, 3 * MS))
    short = decide(measured, make_plan(), 2, 3)
    assert (short.workers, "too short" in short.reason) == ("thread", True)
    assert decide(measured, make_plan(), 2, None).workers == "process"


def test_many_short_epochs_are_worth_a_start_at_last() -> None:
    """Once threads have cost as much as a start; never if an epoch saves less than each start takes."""
    measured = found(Cost(3 * MS, 3 * MS, 3 * MS))
    choice = decide(measured, make_plan(), 2, 15)  # 0.7 s saved in 480 samples
    assert (choice.workers, choice.may_change) == ("thread", True)
    assert reconsider(choice, 1, 15) is choice
    later = reconsider(choice, 2, 15)
    assert (later.workers, later.may_change) == ("process", False)
    assert "after 2 epochs" in str(later)
    assert reconsider(choice, 1000, 2) is choice
    assert decide(measured, make_plan(persistent_workers=True), 2, 15).workers == "process", "one start for all epochs"


@pytest.mark.slow
def test_loader_changes_to_processes_between_epochs(force: Force, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order and length of the epochs stay; ``choice`` tells."""
    force("thread", may_change=True)
    monkeypatch.setattr(_choosing, "reconsider", lambda choice, *_: replace(choice, workers="process", reason="late"))
    loader = auto(Counted(30), 4, collate_fn=as_given)
    for expected in ("thread", "process", "process"):
        assert [sample for batch in loader for sample in batch] == list(range(30))
        assert loader.choice.workers == expected


def test_line_says_what_was_measured_and_chosen() -> None:
    """One line, with the numbers that decided."""
    choice = decide(found(Cost(3 * MS, 2.5 * MS, 3.1 * MS)), make_plan(), 2, None)
    line = str(choice)
    assert line.startswith("workers='auto' chose 'process': ")
    assert "\n" not in line
    for part in ("64 samples", "3 ms alone", "2.5 ms of it on a CPU", "3.1 ms with 2 threads side by side"):
        assert part in line


@pytest.mark.parametrize(
    ("changes", "num_cpus", "expected", "reason"),
    [
        ({"worker_init_fn": print}, 4, "process", "worker_init_fn"),
        ({"multiprocessing_context": "spawn"}, 4, "process", "multiprocessing_context"),
        ({"is_iterable": True, "indices": None}, 4, "process", "iterable dataset"),
        ({}, 1, "thread", "one CPU"),
        ({"num_workers": 1}, 4, "thread", "one worker"),
    ],
)
def test_some_loaders_need_no_measurement(changes: dict[str, Any], num_cpus: int, expected: str, reason: str) -> None:
    """What only processes can do is for them; where nothing is side by side, threads do as well."""
    choice = choose_without_measuring(make_plan(**changes), num_cpus)
    assert choice is not None
    assert choice.workers == expected
    assert reason in str(choice)


def test_the_rest_is_measured() -> None:
    """Two workers and two CPUs make a difference."""
    assert choose_without_measuring(make_plan(), 2) is None


class Counted:
    """Counts what is asked of it; copies share the count."""

    def __init__(self, length: int, bad: int = -1) -> None:
        self.length = length
        self.bad = bad
        self.asked: list[int] = []
        self.opened = False

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        self.opened = True
        self.asked.append(index)
        if index == self.bad:
            raise KeyError("bad")
        return index


class Noisy:
    """A sample is a random number of the global generators."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, random.random() + float(torch.rand(()))


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Force:
    """Has the decision turn out as wanted, whatever this machine is like."""

    def make_it(workers: Any, may_change: bool = False) -> None:
        monkeypatch.setattr(_choosing, "usable_cpus", lambda: 2)
        made = Choice(workers, "told to", None, 1.0, 1.0, may_change)
        monkeypatch.setattr(_choosing, "decide", lambda measured, *_: replace(made, measured=measured))

    return make_it


def auto(dataset: Any, batch_size: int | None = 4, **options: Any) -> Any:
    return get_pytorch_dataloader(dataset, batch_size, **{"workers": "auto", "num_workers": 2, **options})


def as_given(samples: Any) -> Any:
    return samples


@pytest.mark.parametrize("batch_size", [None, 1, 4, 100])
def test_measured_samples_are_used(force: Force, batch_size: int | None) -> None:
    """Each sample is loaded once, from a copy while it is measured, and comes in its place."""
    force("thread")
    dataset = Counted(50)
    loader = auto(dataset, batch_size, collate_fn=as_given)
    samples = [sample for batch in loader for sample in (batch if batch_size else [batch])]
    assert samples == list(range(50))
    assert sorted(dataset.asked) == list(range(50))
    assert loader.choice.workers == "thread"
    assert loader.choice.measured.num_samples <= 50
    assert [sample for batch in loader for sample in (batch if batch_size else [batch])] == list(range(50))


def test_what_a_sample_opens_is_not_in_the_dataset_that_is_sent(force: Force) -> None:
    """The measurement uses a shallow copy."""
    force("thread")
    dataset = Counted(8)
    batches = iter(auto(dataset, 8, num_workers=2, prefetch_factor=1))
    next(batches)
    assert dataset.asked
    assert not dataset.opened


def test_one_line_is_logged_for_a_loader(force: Force, caplog: pytest.LogCaptureFixture) -> None:
    """For the first epoch only, and ``choice`` has it."""
    force("thread")
    loader = auto(Counted(20))
    assert loader.choice is None
    with caplog.at_level(logging.INFO, "spdl"):
        for _ in range(2):
            list(loader)
    assert [record.getMessage() for record in caplog.records] == [str(loader.choice)]
    assert caplog.records[0].name == "spdl.dataloader"


@pytest.mark.parametrize("shuffle", [False, True])
def test_order_and_later_random_numbers_are_torchs(force: Force, shuffle: bool) -> None:
    """The measurement draws no random number of the consumer's, but those that torch draws."""
    force("thread")
    results = []
    makers: tuple[Any, ...] = (DataLoader, auto)
    for make in makers:
        torch.manual_seed(3)
        loader = make(list(range(30)), 4, shuffle=shuffle)
        epochs = [batch.tolist() for _ in range(2) for batch in loader]
        results.append((epochs, torch.rand(3).tolist()))
    assert results[0] == results[1]


def test_generators_are_left_as_they_were(force: Force) -> None:
    """Samples that draw while they are measured draw from a seed of the epoch's."""
    force("thread")
    firsts = []
    for _ in range(2):
        random.seed(5)
        torch.manual_seed(5)
        batches = iter(auto(Noisy(), 4, prefetch_factor=1, collate_fn=as_given, shuffle=True))
        firsts.append(next(batches))
        batches.close()
    assert [index for index, _ in firsts[0]] == [index for index, _ in firsts[1]]


def test_errors_of_measured_batches_come_in_their_place(force: Force) -> None:
    """A batch that cannot be loaded does not keep the others from being measured."""
    force("thread")
    batches = iter(auto(Counted(12, bad=5), 4, collate_fn=as_given))
    assert next(batches) == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="bad"):
        next(batches)
    assert list(batches) == [[8, 9, 10, 11]]


def test_sampler_error_comes_after_the_batches_before_it(force: Force) -> None:
    """Also if it is met while measuring."""
    force("thread")

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            yield from (1, 2)
            raise LookupError("nothing more")

    batches = iter(auto(Counted(3), 1, sampler=Sampler(), collate_fn=as_given))
    assert [next(batches), next(batches)] == [[1], [2]]
    with pytest.raises(LookupError):
        next(batches)
    assert list(batches) == []


def test_datasets_that_are_not_made_for_threads_are_found_out(force: Force) -> None:
    """What fails side by side is tried again alone; if that works, threads are not chosen, and nothing is raised."""
    force("thread")
    owner = threading.get_ident()

    class Bound(Counted):
        def __getitem__(self, index: int) -> int:
            if threading.get_ident() != owner:
                raise RuntimeError("used in another thread than it was made in")
            return super().__getitem__(index)

    loader = auto(Bound(8), 8, prefetch_factor=1, collate_fn=as_given)
    assert next(iter(loader)) == list(range(8))
    error = loader.choice.measured.thread_error
    assert error == "RuntimeError: used in another thread than it was made in"
    choice = decide(replace(found(Cost(3 * MS, 3 * MS, 1.5 * MS)), thread_error=error), make_plan(), 2, 1000)
    assert choice.workers == "process"
    assert "in several side by side: RuntimeError: used in another thread" in str(choice)


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_processes_load_the_rest(force: Force, persistent: bool) -> None:
    """What was not measured is loaded by workers, in order, in this epoch and the next."""
    force("process")
    loader = auto(Counted(40), 4, collate_fn=as_given, persistent_workers=persistent)
    for _ in range(2):
        assert [sample for batch in loader for sample in batch] == list(range(40))
    assert loader.choice.workers == "process"


def test_what_cannot_be_pickled_is_left_to_threads(force: Force) -> None:
    """With the reason in the line."""
    force("process")
    loader = auto(Counted(40), 4, collate_fn=lambda samples: samples)
    assert [sample for batch in loader for sample in batch] == list(range(40))
    assert loader.choice.workers == "thread"
    assert "cannot be started: collate_fn" in str(loader.choice)


class OnlyHere(Counted):
    """Pickles, but cannot be unpickled elsewhere."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise ModuleNotFoundError("not in this process")


@pytest.mark.slow
def test_what_cannot_be_unpickled_there_is_left_to_threads(
    force: Force, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is found when the first batch is waited for; nothing is lost or doubled."""
    monkeypatch.setattr(OnlyHere, "__copy__", lambda self: self, raising=False)
    force("process")
    loader = auto(OnlyHere(60), 4, collate_fn=as_given)
    with caplog.at_level(logging.INFO, "spdl.dataloader"):
        assert [sample for batch in loader for sample in batch] == list(range(60))
    assert loader.choice.workers == "thread"
    assert "not in this process" in str(loader.choice)


def test_no_workers_need_no_choice() -> None:
    """``num_workers=0`` loads where it is asked."""
    loader = auto(Counted(4), 2, num_workers=0, collate_fn=as_given)
    assert list(loader) == [[0, 1], [2, 3]]
    assert loader.choice is None


def test_nothing_to_measure_is_said(force: Force) -> None:
    """An empty dataset gives an empty epoch."""
    force("process")
    loader = auto(Counted(0))
    assert list(loader) == []
    assert "no sample could be measured" in str(loader.choice)


@pytest.mark.slow
def test_iterable_datasets_are_for_processes() -> None:
    """Each worker iterates a copy, as with torch."""
    loader = auto(_Stream(), None)
    assert sorted(loader) == [0, 0, 1, 1]
    assert loader.choice.workers == "process"


class _Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(2))
