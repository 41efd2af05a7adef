"""``workers="thread"`` with iterable datasets: one thread iterates, the others collate."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402


def load(dataset: Any, batch_size: int | None = 4, **options: Any) -> Any:
    return get_pytorch_dataloader(dataset, batch_size, **{"workers": "thread", "num_workers": 2, **options})


def as_given(samples: Any) -> Any:
    return samples


class Stream(IterableDataset[int]):
    def __init__(self, length: int, fails_at: int | None = None) -> None:
        self.length = length
        self.fails_at = fails_at
        self.threads: set[int] = set()
        self.num_closed = 0

    def __iter__(self) -> Iterator[int]:
        try:
            for number in range(self.length):
                self.threads.add(threading.get_ident())
                if number == self.fails_at:
                    raise OSError("no more to read")
                yield number
        finally:
            self.num_closed += 1


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(("batch_size", "drop_last"), [(4, False), (4, True), (None, False)])
def test_iterable_dataset_is_iterated_by_one_thread(num_workers: int, batch_size: int | None, drop_last: bool) -> None:
    """Each sample comes once, in order, with torch's rules for the last batch."""
    expected = list(DataLoader(Stream(10), batch_size, drop_last=drop_last))
    stream = Stream(10)
    found = list(load(stream, batch_size, drop_last=drop_last, num_workers=num_workers))
    assert len(found) == len(expected)
    assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(found, expected, strict=True))
    assert len(stream.threads) == 1
    assert stream.num_closed == 1


@pytest.mark.parametrize("num_workers", [0, 2])
def test_error_of_an_iterable_dataset_comes_after_the_batches_before_it(num_workers: int) -> None:
    """Then a generator has ended, and so has the epoch."""
    batches = iter(load(Stream(10, fails_at=5), 2, num_workers=num_workers, collate_fn=as_given))
    assert [next(batches), next(batches)] == [[0, 1], [2, 3]]
    with pytest.raises(OSError, match="no more to read"):
        next(batches)
    assert list(batches) == []


def test_iterable_dataset_that_cannot_be_iterated() -> None:
    """The exception of its ``__iter__`` is the consumer's."""

    class Closed(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            raise PermissionError("closed today")

    with pytest.raises(PermissionError, match="closed today"):
        next(iter(load(Closed())))


def test_endless_iterable_dataset_is_left_and_closed() -> None:
    """``break`` ends the generator of the dataset too."""

    class Endless(IterableDataset[int]):
        was_closed = False

        def __iter__(self) -> Iterator[int]:
            try:
                while True:
                    yield 1
            finally:
                Endless.was_closed = True

    for _ in load(Endless(), 2):
        break
    assert Endless.was_closed


def test_iterable_dataset_longer_than_it_said_is_warned_about() -> None:
    """As torch does, if its length was asked for."""

    class Liar(Stream):
        def __len__(self) -> int:
            return 2

    loader = load(Liar(4), None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2\(when accessing"):
        assert len(list(loader)) == 4
