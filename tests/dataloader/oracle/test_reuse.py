"""One loader, used again and again: after an end, after a break, twice at once, copied."""

import gc
import os
import threading
from typing import Any

import pytest
import torch

from .datasets import Numbers
from .loaders import ALL, FORKS, numbers_of, ours, read, reading, theirs


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("persistent_workers", [True, False])
def test_epochs_follow_each_other_as_with_torch(way: str, persistent_workers: bool) -> None:
    """Whole ones and broken ones, shuffled by one generator. Torch draws ahead only as far as it has workers."""
    if way == "inline" and persistent_workers:
        pytest.skip("nothing can persist without workers")
    loader = ours(way, Numbers(), 2, persistent_workers=persistent_workers)
    for num_read in (5, 1, 0, 3, 5):
        with reading(loader) as iterator:
            found = [next(iterator).tolist() for _ in range(num_read)]
        assert found == [[2 * k, 2 * k + 1] for k in range(num_read)]
    assert len(read(loader)) == 5


@pytest.mark.parametrize("way", ALL)
def test_a_broken_loop_leaves_nothing_behind(way: str) -> None:
    """When the loop is left, not some time later."""
    loader = ours(way, Numbers(100), 2)
    list(loader)
    gc.collect()
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for batch in loader:
        assert batch.tolist() == [0, 1]
        break
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("way", ALL)
def test_two_iterators_at_once_are_independent(way: str) -> None:
    """Read in turns; each gives the whole."""
    loader = ours(way, Numbers(), 2)
    with reading(loader) as one, reading(loader) as other:
        pairs = list(zip(one, other, strict=True))
    assert [(a.tolist(), b.tolist()) for a, b in pairs] == [([2 * k, 2 * k + 1],) * 2 for k in range(5)]


@pytest.mark.parametrize("way", ALL)
def test_an_iterator_is_its_own_and_stays_exhausted(way: str) -> None:
    """It does not begin again, nor raise something else."""
    with reading(ours(way, Numbers(3))) as iterator:
        assert iter(iterator) is iterator
        assert len(list(iterator)) == 3
        assert [next(iterator, None) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("way", ALL)
def test_an_iterator_that_is_never_read_costs_nothing(way: str) -> None:
    """It is dropped, and what it started with it."""
    loader = ours(way, Numbers(50), 2)
    for _ in range(3):
        iter(loader)
    gc.collect()
    assert len(read(loader)) == 25


@pytest.mark.parametrize("way", ["inline", "thread"])
def test_hundred_epochs_leave_nothing(way: str) -> None:
    """Neither threads nor descriptors nor objects that only the collector finds."""
    loader = ours(way, Numbers(8), 2)
    read(loader)
    gc.collect()
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for epoch in range(100):
        for _ in loader:
            if epoch % 2:
                break
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.slow
def test_six_epochs_of_processes_leave_nothing() -> None:
    """Descriptors, memory of the kernel, processes."""
    loader = ours("process", Numbers(8), 2)
    read(loader)
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    for epoch in range(6):
        for _ in loader:
            if epoch % 2:
                break
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("way", ALL)
def test_batches_outlive_their_loader(way: str) -> None:
    """What was taken stays what it was when everything behind it is gone."""
    loader = ours(way, torch.arange(40_000).reshape(40, 1000), 4, num_workers=2)
    batches = list(loader)
    list(loader)
    del loader
    gc.collect()
    assert torch.equal(torch.cat(batches), torch.arange(40_000).reshape(40, 1000))


@pytest.mark.parametrize("way", ALL)
def test_batches_kept_from_many_steps_are_not_overwritten(way: str) -> None:
    """However many a consumer holds on to, more than are loaded ahead too."""
    data = torch.arange(60_000).reshape(600, 100)
    batches = read(ours(way, data, 5, prefetch_factor=1))
    assert torch.equal(torch.cat(batches), data)


@FORKS
@pytest.mark.parametrize("way", ["thread", "process"])
def test_pinning_is_skipped_without_an_accelerator(way: str) -> None:
    """The batches come all the same, and are not pinned; torch warns, and so may we."""
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        batches = read(ours(way, Numbers(), 2, pin_memory=True))
        assert numbers_of(batches) == numbers_of(read(theirs(Numbers(), 2, pin_memory=True)))
    assert not any(batch.is_pinned() for batch in batches)


@pytest.mark.parametrize("way", ["thread", "auto"])
def test_choice_is_told_and_kept(way: str) -> None:
    """What ``auto`` chose is chosen for the loader's life."""
    if way == "thread":
        return
    loader = ours("auto", Numbers(200), 4)
    read(loader)
    choice = loader.choice
    read(loader)
    assert loader.choice is choice
    assert str(choice)
    assert "\n" not in str(choice)


def test_auto_says_in_one_line_what_it_chose(caplog: pytest.LogCaptureFixture) -> None:
    """One INFO line of the logger, at the first epoch only, with what was measured."""
    loader: Any = ours("auto", Numbers(200), 4)
    with caplog.at_level("INFO", logger="spdl.dataloader"):
        read(loader)
        read(loader)
    lines = [record for record in caplog.records if record.name.startswith("spdl.dataloader")]
    assert [record.getMessage() for record in lines] == [str(loader.choice)]
