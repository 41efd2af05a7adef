"""``DataLoader``: what it keeps to itself, what it copies, when it ends."""

import itertools
import logging
import pickle
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.dataloader import DataLoader
from spdl.pipeline.batching import CostBudget, ManualClock, MaxWait
from spdl.pipeline.defs import Aggregator
from tests.support.timeouts import TIMEOUT


def double(item: int) -> int:
    return 2 * item


class Pairs(Aggregator[int, list[int]]):
    """Two at a time, in a list that is changed in place."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def accumulate(self, item: int) -> list[int] | None:
        self.held.append(item)
        return self.flush() if len(self.held) == 2 else None

    def flush(self) -> list[int] | None:
        held = self.held[:]
        self.held.clear()
        return held or None


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be >= 1, got 0"),
        ({"batch_size": "2"}, TypeError, "batch_size must be an int .* or an Aggregator, got '2' of type str"),
        ({"batch_size": True}, TypeError, "batch_size must be .*, got True of type bool"),
        ({"aggregator": 5}, TypeError, "^aggregator must be a function"),
        ({"transfer_fn": 5}, TypeError, "^transfer_fn must be a function"),
        ({"num_threads": 0}, ValueError, "num_threads must be >= 1, got 0"),
        ({"num_threads": True}, TypeError, "num_threads must be an int"),
        ({"buffer_size": 0}, ValueError, "buffer_size"),
        ({"output_order": "any", "preprocessor": double}, ValueError, "output_order"),
        ({"preprocessor": 3}, TypeError, "^preprocessor must be a function"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_made(options: dict[str, Any], error: type[Exception], text: str) -> None:
    """And not in the first epoch."""
    with pytest.raises(error, match=text):
        DataLoader(range(3), **options)


def test_a_source_that_is_none_is_refused() -> None:
    """When it is made, too."""
    with pytest.raises(ValueError, match="source"):
        DataLoader(3)  # type: ignore[call-overload]


def test_an_epoch_that_was_left_leaves_nothing_to_the_next() -> None:
    """The aggregator of each begins as it was given."""
    loader: DataLoader[int, list[int]] = DataLoader(range(5), batch_size=Pairs(), timeout=TIMEOUT)
    for _ in range(3):
        iterator = iter(loader)
        assert next(iterator) == [0, 1]
        del iterator
        assert list(loader) == [[0, 1], [2, 3], [4]]


def test_iterators_do_not_share_an_aggregator() -> None:
    """Nor does the loader with whoever made it."""
    aggregator = Pairs()
    loader: DataLoader[int, list[int]] = DataLoader(range(4), batch_size=aggregator, timeout=TIMEOUT)
    aggregator.accumulate(9)
    assert list(zip(loader, loader, strict=True)) == [([0, 1], [0, 1]), ([2, 3], [2, 3])]


def test_what_an_aggregator_calls_is_not_copied() -> None:
    """A clock is moved for all, and what measures may be large."""

    class Tokenizer:
        def count(self, item: int) -> int:
            return item

        def __deepcopy__(self, memo: Any) -> None:
            raise AssertionError("copied")

    clock, accumulated, gate = ManualClock(), threading.Event(), threading.Event()

    class Watched(MaxWait[int]):
        def accumulate(self, item: int) -> Any:
            batch = super().accumulate(item)
            accumulated.set()
            return batch

    def source() -> Iterator[int]:
        yield 1
        gate.wait(TIMEOUT)

    loader: DataLoader[int, list[int]] = DataLoader(source(), batch_size=Watched(8, 5, clock=clock), timeout=TIMEOUT)

    def move() -> None:
        accumulated.wait(TIMEOUT)
        clock.advance(5)

    mover = threading.Thread(target=move)
    mover.start()
    iterator = iter(loader)
    assert next(iterator) == [1]  # the source has not ended
    gate.set()
    del iterator
    mover.join()
    sums: DataLoader[int, list[int]] = DataLoader(
        [1, 2, 3], batch_size=CostBudget(3, cost=Tokenizer().count), timeout=TIMEOUT
    )
    assert list(sums) == [[1, 2], [3]]


def test_an_aggregator_that_cannot_be_copied_says_so() -> None:
    """When the loader is made."""

    class Locked(Pairs):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    with pytest.raises(TypeError, match="lock") as caught:
        DataLoader(range(3), batch_size=Locked())
    assert "its own copy" in caught.value.__notes__[0]


def test_a_generator_has_no_length() -> None:
    """It may give any number of outputs for an item."""

    def twice(item: int) -> Iterator[int]:
        yield item
        yield item

    for part in ("preprocessor", "aggregator", "transfer_fn"):
        with pytest.raises(TypeError, match="generator"):
            len(DataLoader(range(3), **{part: twice}))  # type: ignore[call-overload]
    assert len(DataLoader(range(3), preprocessor=[5, 6, 7])) == 3


class Corrupt:
    """Fails on some items, alone or in a batch."""

    def __init__(self, *items: int, error: Exception | None = None) -> None:
        self.items = set(items)
        self.error = error

    def __call__(self, item: Any) -> Any:
        if self.items & set(item if isinstance(item, list | tuple) else [item]):
            raise self.error or ValueError(f"corrupt in {item}")
        return item


def in_pairs(batch: list[int]) -> Iterator[list[int]]:
    yield batch[:2]
    yield batch[2:]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"aggregator": Corrupt(7), "batch_size": 4},
            r"1 batch with 4 items was dropped .*\(last: ValueError: corrupt in \[4, 5, 6, 7\]\); the epoch had 5",
        ),
        ({"aggregator": Corrupt(21), "batch_size": 4}, "1 batch with 2 items was dropped"),
        ({"transfer_fn": Corrupt(7, 8), "batch_size": 4}, "2 batches with 8 items were dropped"),
        (
            {"aggregator": Corrupt(*range(1, 22)), "batch_size": 1},
            "21 batches with 21 items were dropped .*; the epoch had 1 output",
        ),
        (
            {"aggregator": Corrupt(*range(1, 22)), "batch_size": CostBudget(1, cost=lambda _: 1)},
            "21 batches with at least 21",
        ),
        ({"preprocessor": Corrupt(3), "batch_size": 4}, "1 item was dropped .*; the epoch had 6 outputs"),
        (
            {"preprocessor": Corrupt(3, 4), "aggregator": Corrupt(9), "batch_size": 4},
            "1 batch with 4 items and 2 single items were dropped .*; the epoch had 4 outputs",
        ),
        ({"aggregator": Corrupt(3), "transfer_fn": Corrupt(4)}, "2 items were dropped .*; the epoch had 20 outputs"),
        (
            {"aggregator": in_pairs, "transfer_fn": Corrupt(4, 6), "batch_size": 4},
            "2 batches with 4 items were dropped",
        ),
    ],
)
def test_what_an_epoch_has_lost_is_told_at_its_end(
    options: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in each, with numbers, and what to do."""
    loader: Any = DataLoader(range(22), num_threads=2, output_order="input", timeout=TIMEOUT, **options)
    for _ in range(2):
        caplog.clear()
        list(loader)
        [record] = [record for record in caplog.records if record.name == "spdl.dataloader"]
        assert record.levelno == logging.WARNING
        assert re.search(text, record.getMessage()), record.getMessage()
        assert "load_image_batch(..., strict=False)" in record.getMessage()


def test_an_epoch_that_lost_nothing_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """So is one that was left."""
    list(DataLoader(range(3), preprocessor=double, timeout=TIMEOUT))
    iterator: Any = iter(DataLoader(range(9), preprocessor=Corrupt(0), timeout=TIMEOUT))
    next(iterator)
    iterator.close()
    assert [record for record in caplog.records if record.name == "spdl.dataloader"] == []


def test_what_cannot_be_told_does_not_matter(caplog: pytest.LogCaptureFixture) -> None:
    """Neither an exception without a text nor a log that raises changes how an epoch ends."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise LookupError("no words")

    loader: Any = DataLoader(range(3), preprocessor=Corrupt(1, error=Mute()), output_order="input", timeout=TIMEOUT)
    assert list(loader) == [0, 2]
    assert "last: Mute: <Mute object, its str failed with LookupError>" in caplog.text

    def refuse(record: logging.LogRecord) -> bool:
        raise LookupError("no log")

    log = logging.getLogger("spdl.dataloader")
    log.addFilter(refuse)
    try:
        assert list(loader) == [0, 2]
    finally:
        log.removeFilter(refuse)


@pytest.mark.parametrize("part", ["preprocessor", "aggregator"])
def test_output_order_is_of_preprocessor_and_aggregator(part: str) -> None:
    """By default what is done first comes first; the first call waits here until the second has ended."""
    second = threading.Event()

    def wait(item: Any) -> Any:
        if item in (0, [0]):
            assert second.wait(TIMEOUT)
        else:
            second.set()
        return item

    options: dict[str, Any] = {part: wait, "num_threads": 2, "timeout": TIMEOUT}
    if part == "aggregator":
        options["batch_size"] = 1
    expected = [[0], [1]] if part == "aggregator" else [0, 1]
    assert list(DataLoader(range(2), **options)) == expected[::-1]
    second.clear()
    assert list(DataLoader(range(2), output_order="input", **options)) == expected


def test_a_loader_is_true_even_if_it_is_empty() -> None:
    """``if loader`` asks whether there is one."""
    assert DataLoader([])
    assert len(DataLoader([])) == 0


def test_it_pickles() -> None:
    """With its parts, and without its iterators."""
    loader: DataLoader[int, list[int]] = DataLoader(
        range(5), preprocessor=double, batch_size=Pairs(), output_order="input", timeout=TIMEOUT
    )
    iterator = iter(loader)
    next(iterator)
    copied = pickle.loads(pickle.dumps(loader))
    assert list(copied) == [[0, 2], [4, 6], [8]]


def test_closing_an_iterator_ends_its_threads() -> None:
    """Again and again; it is exhausted then."""
    before = set(threading.enumerate())
    iterator: Any = iter(DataLoader(itertools.count(), preprocessor=double, timeout=TIMEOUT))
    next(iterator)
    iterator.close()
    assert set(threading.enumerate()) <= before
    iterator.close()
    assert next(iterator, None) is None


def test_a_failure_that_nobody_came_to_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Closing raises nothing: the reader has left."""
    failed = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        yield 2
        failed.set()
        raise OSError("disk on fire")

    iterator: Any = iter(DataLoader(source(), buffer_size=1, timeout=TIMEOUT))
    assert next(iterator) == 1
    assert failed.wait(TIMEOUT)
    with caplog.at_level(logging.ERROR):
        iterator.close()
    assert "disk on fire" in caplog.text
