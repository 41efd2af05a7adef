"""What torch's loader warns of: the same category and words, at the same step."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .datasets import Numbers
from .loaders import ALL, FORKS, ours, reading, theirs
from .streams import SizedStream

Told = list[tuple[str, type[Warning], str]]


def leave_be(worker_id: int) -> None:
    """With a ``worker_init_fn``, "auto" takes processes without a measurement."""


def warnings_of(make: Callable[[], Any], num_epochs: int = 2, *, ask: bool = False) -> Told:
    """Each warning to users, and the step that gave it."""
    told: Told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def note(step: str) -> None:
            told.extend((step, each.category, str(each.message)) for each in caught if each.category is UserWarning)
            caught.clear()

        loader = make()
        note("made")
        if ask:
            len(loader)
        for epoch in range(num_epochs):
            with reading(loader) as iterator:
                note(f"epoch {epoch}")
                for step, _ in enumerate(iterator):
                    note(f"epoch {epoch}, batch {step}")
    return told


@pytest.fixture
def one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that two workers are too many."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)


@FORKS
@pytest.mark.usefixtures("one_cpu")
@pytest.mark.parametrize("way", ["process", "auto"])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_too_many_workers_are_warned_of(way: str, persistent_workers: bool) -> None:
    """When the loader is made, and whenever it starts workers. "auto" learns that it does with the first epoch."""
    options: dict[str, Any] = {
        "num_workers": 2, "persistent_workers": persistent_workers, "batch_size": 5, "worker_init_fn": leave_be,
    }  # fmt: skip
    expected = warnings_of(lambda: theirs(Numbers(), **options))
    assert [step for step, *_ in expected] == ["made", "epoch 0", "epoch 1"][: 2 if persistent_workers else 3]
    if way == "auto":
        expected = [each for each in expected if each[0] != "made"]
    assert warnings_of(lambda: ours(way, Numbers(), **options)) == expected


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.parametrize("way", ["inline", "thread", "auto"])
def test_threads_may_be_many(way: str) -> None:
    """Only processes are warned of; "auto" takes threads on one CPU."""
    assert warnings_of(lambda: ours(way, Numbers(), batch_size=5), 1) == []


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
def test_a_warning_that_is_an_error_leaves_no_workers() -> None:
    """The leak check of every test sees to it."""
    loader = ours("auto", Numbers(), batch_size=5, worker_init_fn=leave_be)
    warnings.simplefilter("error")
    with pytest.raises(UserWarning, match="This DataLoader will create 2 worker processes"):
        iter(loader)


@FORKS
@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("batch_size", [1, None])
def test_longer_streams_than_told_are_warned_of(way: str, batch_size: int | None) -> None:
    """Once ``len`` was asked, at each batch that is too many; what is said of processes only where there are any."""
    num_workers = 2 if way in ("process", "auto") else 0
    stream = SizedStream(0, 7, 5)

    def make(loader: Any, **options: Any) -> Callable[[], Any]:
        return lambda: loader(stream, batch_size=batch_size, **options)

    expected = warnings_of(make(theirs, num_workers=num_workers), ask=True)
    steps = [step for step, *_ in expected]
    assert steps[:2] == ["epoch 0, batch 5", "epoch 0, batch 6"]
    assert warnings_of(make(lambda *args, **options: ours(way, *args, **options)), ask=True) == expected
    assert warnings_of(make(lambda *args, **options: ours(way, *args, **options)), 1) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="batches can be pinned here")
@pytest.mark.parametrize("way", ["inline", "thread"])
@pytest.mark.parametrize("device", ["", "cuda"])
def test_memory_that_cannot_be_pinned_is_warned_of(way: str, device: str) -> None:
    """In each epoch, and of a device that nobody asks for any more."""
    options: dict[str, Any] = {"pin_memory": True, "pin_memory_device": device, "batch_size": 5}
    expected = warnings_of(lambda: theirs(Numbers(), **options))
    assert len(expected) == (4 if device else 2)
    assert warnings_of(lambda: ours(way, Numbers(), **options)) == expected
