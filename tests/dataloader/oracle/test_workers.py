"""Worker processes: how long they live, what they keep, how they start, and what happens if one dies."""

import multiprocessing
import os
import signal
from typing import Any

import pytest

from .datasets import Deadly, Numbers, Stateful, as_list
from .loaders import FORKS, numbers_of, ours, read, reading, theirs


def workers_of(steps: list[Any]) -> list[list[int]]:
    """Process ids by batch."""
    return [[sample[2] for sample in batch] for batch in steps]


@FORKS
@pytest.mark.parametrize("persistent_workers", [True, False])
def test_copies_of_the_dataset_live_as_long_as_their_workers(persistent_workers: bool) -> None:
    """Over epochs if they persist; the dataset here sees nothing of it."""
    dataset = Stateful()
    options: dict[str, Any] = {
        "batch_size": 2, "num_workers": 2, "collate_fn": as_list, "persistent_workers": persistent_workers,
    }  # fmt: skip
    counts, pids = [], []
    for loader in (ours("process", dataset, **options), theirs(dataset, **options)):
        epochs = [read(loader) for _ in range(3)]
        counts.append([[sample[:2] for batch in epoch for sample in batch] for epoch in epochs])
        pids.append([{pid for batch in workers_of(epoch) for pid in batch} for epoch in epochs])
    del loader
    assert counts[0] == counts[1]
    assert dataset.num_given == 0
    assert all(len(each) == 2 and os.getpid() not in each for each in pids[0])
    assert len(set.union(*pids[0])) == (2 if persistent_workers else 6)


def test_batches_go_to_the_workers_in_turns() -> None:
    """So that their copies see the same samples in each run."""
    steps = workers_of(read(ours("process", Stateful(12), batch_size=2, collate_fn=as_list)))
    assert steps[0::2] == [steps[0]] * 3
    assert steps[1::2] == [steps[1]] * 3
    assert steps[0] != steps[1]


def test_persistent_workers_survive_a_break() -> None:
    """The next epoch is whole, and by the same processes."""
    loader = ours("process", Stateful(20), batch_size=2, collate_fn=as_list, persistent_workers=True)
    pids = set()
    for _ in range(3):
        for batch in loader:
            pids.add(batch[0][2])
            break
    steps = read(loader)
    assert [sample[0] for batch in steps for sample in batch] == list(range(20))
    pids.update(pid for batch in workers_of(steps) for pid in batch)
    assert len(pids) == 2


@pytest.mark.parametrize("persistent_workers", [True, False])
def test_workers_end_with_the_loop_or_the_loader(persistent_workers: bool) -> None:
    """At the end of the epoch, by a break, or with the loader if they persist."""
    loader = ours("process", Stateful(20), batch_size=2, collate_fn=as_list, persistent_workers=persistent_workers)
    pids = {pid for batch in workers_of(read(loader)) for pid in batch}
    alive = [pid for pid in pids if _is_alive(pid)]
    assert len(alive) == (2 if persistent_workers else 0)
    del loader
    assert [pid for pid in pids if _is_alive(pid)] == []


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [3, -signal.SIGKILL, -signal.SIGSEGV])
def test_a_worker_that_dies_fails_the_loop(how: int) -> None:
    """With a RuntimeError as torch's, which names the process and how it ended; never a hang."""
    with reading(ours("process", Deadly(20, 7, how), batch_size=1)) as iterator:
        with pytest.raises(RuntimeError) as caught:
            list(iterator)
        assert getattr(caught.value, "exit_code", None) == how
        assert str(how) in str(caught.value) or signal.Signals(-how).name in str(caught.value)


def test_a_killed_worker_fails_the_loop_and_the_loader_works_again() -> None:
    """From outside, by the kernel's choice; persistent workers are started anew."""
    loader = ours("process", Stateful(40), batch_size=1, collate_fn=as_list, persistent_workers=True)
    iterator = iter(loader)
    (sample,) = next(iterator)
    os.kill(sample[2], signal.SIGKILL)
    with pytest.raises(RuntimeError, match=str(sample[2])):
        list(iterator)
    assert len(read(loader)) == 40


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("as_object", [True, False])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_every_start_method_works(method: str, as_object: bool) -> None:
    """By name or as a context."""
    context: Any = multiprocessing.get_context(method) if as_object else method
    loader = ours("process", Numbers(), batch_size=2, multiprocessing_context=context)
    assert numbers_of(read(loader)) == numbers_of(read(theirs(Numbers(), batch_size=2)))


def test_few_may_load_the_dataset_at_once() -> None:
    """``worker_init_concurrency`` changes nothing but that."""
    loader = ours("process", Numbers(), batch_size=2, num_workers=2, worker_init_concurrency=1)
    assert numbers_of(read(loader)) == numbers_of(read(theirs(Numbers(), batch_size=2)))


def test_nothing_starts_before_it_is_iterated() -> None:
    """Making a loader is cheap, and it can be thrown away."""
    before = set(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    loaders = [ours(way, Numbers(), persistent_workers=True) for way in ("thread", "process", "auto")]
    assert (set(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))) == before
    del loaders
