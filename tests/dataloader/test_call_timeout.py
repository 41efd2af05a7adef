"""``get_pytorch_dataloader(call_timeout=...)``: a sample that takes too long costs its batch, and nothing else."""

import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402
from spdl.dataloader._torch.threads._pieces import PieceLoader, split_into_samples  # noqa: E402
from spdl.pipeline import StageTimeoutError  # noqa: E402
from spdl.pipeline.defs import Retry  # noqa: E402
from tests.dataloader.process_datasets import plan_of  # noqa: E402
from tests.support.running import TIMEOUT  # noqa: E402

#: On a busy machine other calls take longer too: no test counts on the opposite.
SOON = 0.02


class Stuck:
    """Blocks at some indices until it is let go."""

    def __init__(self, *items: int) -> None:
        self.items = items
        self.gate = threading.Event()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        if index in self.items:
            self.gate.wait(TIMEOUT)
        return index


class Queried(Stuck):
    """All samples of a batch in one call."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices]


@pytest.fixture
def gates() -> Iterator[list[threading.Event]]:
    """Opened at the end, so that no thread stays behind."""
    opened: list[threading.Event] = []
    yield opened
    for gate in opened:
        gate.set()


def outcomes(loader: Any) -> list[list[int] | None]:
    """Each batch, ``None`` for one of which a call took too long."""
    found: list[list[int] | None] = []
    iterator = iter(loader)
    while True:
        try:
            found.append(torch.as_tensor(next(iterator)).reshape(-1).tolist())
        except StageTimeoutError:
            found.append(None)
        except StopIteration:
            return found


@pytest.mark.parametrize("kind", [Stuck, Queried])
@pytest.mark.parametrize("options", [{}, {"in_order": False}, {"batch_size": None}, {"retry": 2}])
def test_a_sample_that_takes_too_long_costs_its_batch(
    kind: Any, options: dict[str, Any], gates: list[threading.Event]
) -> None:
    """Its thread, the only one, is replaced: all other batches come, and the epoch ends."""
    dataset = kind(4)
    gates.append(dataset.gate)
    options = {"batch_size": 3, "workers": "thread", "num_workers": 1, "call_timeout": SOON, **options}
    found = outcomes(get_pytorch_dataloader(dataset, **options))
    size = options["batch_size"] or 1
    whole = [list(range(first, first + size)) for first in range(0, 12, size)]
    assert len(found) == len(whole)
    assert whole[4 // size] not in found
    assert all(batch is None or batch in whole for batch in found)


def test_the_exception_says_what_took_too_long(gates: list[threading.Event]) -> None:
    """The limit, the sample and its batch."""
    dataset = Stuck(*range(12))
    gates.append(dataset.gate)
    loader = get_pytorch_dataloader(dataset, 3, workers="thread", num_workers=1, call_timeout=SOON)
    iterator: Any = iter(loader)
    try:
        with pytest.raises(StageTimeoutError, match=r"has not returned within 0\.02 s") as caught:
            next(iterator)
    finally:
        dataset.gate.set()
        iterator.close()
    assert "indices [0] of batch 0" in "".join(caught.value.__notes__)


def test_batches_that_take_too_long_may_be_dropped(gates: list[threading.Event]) -> None:
    """``max_failures`` covers them, though other errors of the engine are raised."""
    dataset = Stuck(4)
    gates.append(dataset.gate)
    options: dict[str, Any] = {"workers": "thread", "num_workers": 1, "call_timeout": SOON}
    loader = get_pytorch_dataloader(dataset, 3, max_failures=Fraction(1), **options)
    found = [batch.tolist() for batch in loader]
    assert [3, 4, 5] not in found


def test_a_late_call_changes_nothing() -> None:
    """Whether it was abandoned while it loaded, or while it collated; before the others, or last."""
    dataset = Stuck()
    loader = PieceLoader(plan_of(dataset, batch_size=3))
    error = StageTimeoutError("late", stage="load", seconds=1.0)
    first, second, third = split_into_samples(loader.plan, [0, 1, 2], 7)
    assert loader(first) is None
    assert loader.abandon(second, error) is None
    assert loader(second) is None  # it has returned
    assert loader.abandon(first, error) is None  # it was put in time
    outcome = loader(third)
    assert outcome is not None
    assert (outcome.error, outcome.number) == (error, 7)
    first, second = split_into_samples(loader.plan, [0, 1], 8)
    loader(first)
    outcome = loader.abandon(second, error)  # the last
    assert outcome is not None
    assert (outcome.error, outcome.number) == (error, 8)
    assert loader(second) is None
    first, second = split_into_samples(loader.plan, [0, 1], 9)
    loader(first)
    assert loader(second) is not None  # its outcome is discarded: it was given up while it collated
    outcome = loader.abandon(second, error)
    assert outcome is not None
    assert outcome.error is error


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
    def __iter__(self) -> Any:
        return iter(range(3))


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"call_timeout": 0}, ValueError, "call_timeout must be"),
        ({"call_timeout": "1"}, TypeError, "call_timeout must be"),
        ({"call_timeout": 1, "workers": "process"}, ValueError, "call_timeout needs threads"),
        ({"call_timeout": 1, "workers": "auto"}, ValueError, "call_timeout needs threads"),
        ({"call_timeout": 1, "workers": None}, ValueError, "call_timeout needs threads"),
        ({"call_timeout": 1, "num_workers": 0}, ValueError, "call_timeout needs threads"),
        ({"call_timeout": 1, "dataset": Stream()}, ValueError, "map-style dataset"),
        ({"retry": Retry(2, timeout_per_attempt=1)}, ValueError, "call_timeout"),
    ],
)
def test_where_no_call_can_be_left_behind_it_is_refused(
    options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    """When the loader is made; the message says what limits the time instead."""
    with pytest.raises(kind, match=text):
        get_pytorch_dataloader(**{"dataset": Stuck(), "batch_size": 3, "workers": "thread", **options})
