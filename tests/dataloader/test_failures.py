"""``max_failures``, ``retry``, ``call_timeout``, ``quarantine`` and ``on_failure`` of the loaders."""

import json
import threading
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from spdl.dataloader import DataLoader, get_pytorch_dataloader
from spdl.pipeline import FailureEvent, FailureLimitError, NoSuccessError, PipelineFailure, Rate, StageTimeoutError
from spdl.pipeline.defs import Retry
from tests.support.running import TIMEOUT

torch = pytest.importorskip("torch")


class Failing:
    """Raises for some items; for each of others, the first time only."""

    def __init__(self, *items: int, flaky: tuple[int, ...] = ()) -> None:
        self.items, self.flaky = items, flaky
        self.calls: Counter[int] = Counter()

    def __call__(self, item: int) -> int:
        self.calls[item] += 1
        if item in self.items or (item in self.flaky and self.calls[item] == 1):
            raise ValueError(f"corrupt: {item}")
        return item


def loader_of(op: Any, **options: Any) -> Any:
    return DataLoader(range(20), preprocessor=op, batch_size=4, num_threads=2, output_order="input", **options)


# -- DataLoader


@pytest.mark.parametrize("limit", [0, 1, Rate(0.1, per=10)])
def test_the_limit_ends_the_iteration(limit: Any) -> None:
    """With the function's stage and its exception; within the limit, nothing changes."""
    assert len(list(loader_of(Failing(3), max_failures=1))) == 5
    loader = loader_of(Failing(3, 5), max_failures=limit)
    for _ in range(2):
        with pytest.raises(PipelineFailure) as caught:
            list(loader)
        (error,) = caught.value.exceptions
        assert isinstance(error, FailureLimitError)
        assert isinstance(error.__cause__, ValueError)


def test_an_iteration_in_which_nothing_works_raises() -> None:
    """Instead of an epoch of no batches."""
    with pytest.raises(PipelineFailure) as caught:
        list(loader_of(Failing(*range(20))))
    assert isinstance(caught.value.exceptions[0], NoSuccessError)
    assert list(loader_of(Failing(*range(20)), max_failures=Fraction(1))) == []


def test_functions_are_called_again() -> None:
    """The preprocessor, and the aggregator."""
    op = Failing(flaky=(3, 7))
    assert list(loader_of(op, retry=2)) == [[*range(k, k + 4)] for k in range(0, 20, 4)]
    assert op.calls[3] == 2
    num_calls = 0

    def collate(batch: list[int]) -> list[int]:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 1:
            raise OSError
        return batch

    retry = Retry(3, on=OSError, delay=0)
    loader: Any = DataLoader(range(8), batch_size=4, aggregator=collate, num_threads=1, retry=retry)
    assert list(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert num_calls == 3


def test_a_call_may_take_a_limited_time() -> None:
    """``timeout`` is still the time until an output."""
    gate = threading.Event()

    def op(item: int) -> int:
        if item == 3:
            gate.wait(TIMEOUT)
        return item

    events: list[FailureEvent] = []
    try:
        loader = loader_of(op, call_timeout=0.03, timeout=TIMEOUT, on_failure=events.append)
        num_items = sum(len(batch) for batch in loader)
    finally:
        gate.set()
    assert {type(event.error) for event in events} == {StageTimeoutError}
    assert 3 in [event.item for event in events]
    assert num_items == 20 - len(events)  # on a busy machine others take too long as well


def test_failed_items_are_told_and_written(tmp_path: Path) -> None:
    """In each iteration."""
    path = tmp_path / "bad.jsonl"
    events: list[FailureEvent] = []
    loader = loader_of(Failing(3), quarantine=path, on_failure=events.append)
    for _ in range(2):
        assert len(list(loader)) == 5
    assert [event.item for event in events] == [3, 3]
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == [3, 3]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"max_failures": 0.5}, TypeError),
        ({"max_failures": Fraction(3, 2)}, ValueError),
        ({"retry": 0}, ValueError),
        ({"retry": "twice"}, TypeError),
        ({"call_timeout": 0}, ValueError),
        ({"call_timeout": "1"}, TypeError),
        ({"on_failure": 3}, TypeError),
        ({"quarantine": 3}, TypeError),
    ],
)
def test_wrong_arguments_are_refused_when_the_loader_is_made(options: dict[str, Any], kind: type[Exception]) -> None:
    """And not when it is iterated."""
    with pytest.raises(kind):
        loader_of(Failing(), **options)


# -- get_pytorch_dataloader


class Dataset:
    """Map-style; fails for some indices, and for others the first time."""

    def __init__(self, *items: int, flaky: tuple[int, ...] = ()) -> None:
        self.op = Failing(*items, flaky=flaky)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        return self.op(index)


class Queried(Dataset):
    """All samples of a batch in one call."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self.op(index) for index in indices]


THREADS: list[dict[str, Any]] = [{"workers": "thread", "num_workers": 2}, {"workers": "thread", "num_workers": 0}]
KINDS = [*THREADS, pytest.param({"workers": "process", "num_workers": 1}, marks=pytest.mark.slow)]


def batches(dataset: Any, **options: Any) -> list[list[int]]:
    return [batch.tolist() for batch in get_pytorch_dataloader(dataset, 3, timeout=None, **options)]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_fail_are_dropped_up_to_a_limit(kind: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Without one, each exception is raised, as torch does."""
    with pytest.raises(ValueError, match="corrupt: 4"):
        batches(Dataset(4), **kind)
    caplog.clear()
    assert batches(Dataset(4), max_failures=1, **kind) == [[0, 1, 2], [6, 7, 8], [9, 10, 11]]
    texts = [record.getMessage() for record in caplog.records if record.name == "spdl.dataloader"]
    assert len(texts) == 2
    assert "1 of 4 batches were dropped" in texts[1]
    loader = get_pytorch_dataloader(Dataset(4, 7), 3, max_failures=1, **kind)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(FailureLimitError, match=r"2 of 3 batches .* max_failures=1") as caught:
            next(iterator)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("kind", THREADS)
def test_shares_and_rates_limit_batches(kind: dict[str, Any]) -> None:
    """A rate from the first on, a share from the hundredth."""
    with pytest.raises(FailureLimitError):
        batches(Dataset(4, 7), max_failures=Rate(0.25, per=4), **kind)
    assert len(batches(Dataset(4, 7), max_failures=Rate(0.5, per=4), **kind)) == 2
    assert len(batches(Dataset(4, 7), max_failures=Fraction(1, 100), **kind)) == 2
    assert len(batches(Dataset(4, 7), max_failures=-1, **kind)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_without_any_batch_raises(kind: dict[str, Any]) -> None:
    """Unless all may fail."""
    with pytest.raises(PipelineFailure) as caught:
        batches(Dataset(*range(12)), max_failures=-1, **kind)
    (error,) = caught.value.exceptions
    assert isinstance(error, NoSuccessError)
    assert error.num_failures == 4
    assert batches(Dataset(*range(12)), max_failures=Fraction(1), **kind) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dataset", [Dataset, Queried])
def test_samples_are_loaded_again(kind: dict[str, Any], dataset: Any) -> None:
    """Each, or all of a batch where they are one call."""
    retry = Retry(2, on=ValueError, delay=0)
    assert batches(dataset(flaky=(4,)), retry=retry, **kind) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    with pytest.raises(ValueError, match="corrupt: 4"):
        batches(dataset(4), retry=retry, **kind)
    with pytest.raises(ValueError, match="corrupt: 4"):
        batches(dataset(flaky=(4,)), retry=Retry(2, on=OSError, delay=0), **kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dataset", [Dataset, Queried])
def test_samples_that_fail_are_replaced(kind: dict[str, Any], dataset: Any) -> None:
    """Alone, by a sample that depends only on their index; batches stay full and others are not touched."""
    replaced = batches(dataset(4, 7), on_error="replace", **kind)
    assert [len(batch) for batch in replaced] == [3, 3, 3, 3]
    (_, four, five), (six, seven, _) = replaced[1], replaced[2]
    assert (replaced[0], four in (4, 7), five, six, seven in (4, 7)) == ([0, 1, 2], False, 5, 6, False)
    assert replaced == batches(dataset(4, 7), on_error="replace", workers="thread", num_workers=2)


@pytest.mark.parametrize("dataset", [Dataset, Queried])
def test_replacements_come_after_all_attempts(dataset: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A sample that can be loaded again is not replaced; for one that is, a warning names both."""
    options: dict[str, Any] = {"on_error": "replace", "workers": "thread", "num_workers": 1}
    retry = Retry(2, on=ValueError, delay=0)
    assert batches(dataset(flaky=(4,)), retry=retry, **options) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert caplog.messages == []
    found = batches(dataset(4), retry=retry, **options)[1][1]
    assert caplog.messages == [f"sample 4 failed, and sample {found} is in its place: corrupt: 4"]


def test_a_batch_without_any_replacement_fails() -> None:
    """With the error of the sample itself."""
    with pytest.raises(ValueError, match="corrupt: 0") as caught:
        batches(Dataset(*range(12)), on_error="replace", workers="thread", num_workers=1)
    assert "the samples tried in place of sample 0 failed too" in caught.value.__notes__


@pytest.mark.parametrize(
    ("dataset", "on_error", "text"),
    [
        (lambda: Dataset(), "drop", "'raise' or 'replace'"),
        (lambda: Stream(), "replace", "map-style"),
        (lambda: Endless(), "replace", "__len__"),
    ],
)
def test_what_cannot_be_replaced_is_refused(dataset: Any, on_error: Any, text: str) -> None:
    """When the loader is made."""
    with pytest.raises(ValueError, match=text):
        get_pytorch_dataloader(dataset(), 3, sampler=None, workers="thread", on_error=on_error)


def test_samples_by_name_are_not_replaced() -> None:
    """There is no telling which other names there are."""
    options: dict[str, Any] = {"workers": "thread", "num_workers": 1, "on_error": "replace"}
    loader = get_pytorch_dataloader(Named(), 1, sampler=["a"], **options)
    with pytest.raises(KeyError) as caught:
        list(loader)
    assert "needs int indices, got 'a'" in str(caught.value.__notes__)


def test_unbatched_samples_are_loaded_again() -> None:
    """As any."""
    loader = get_pytorch_dataloader(Dataset(flaky=(4,)), None, workers="thread", num_workers=1, retry=2)
    assert list(loader) == list(range(12))


@pytest.mark.slow
def test_the_contract_of_old_drops_without_a_limit_and_has_one_now(caplog: pytest.LogCaptureFixture) -> None:
    """Without ``workers``."""
    options: dict[str, Any] = {"in_order": True}
    assert len(list(get_pytorch_dataloader(Dataset(4, 7), 3, **options))) == 2
    with pytest.raises(FailureLimitError):
        list(get_pytorch_dataloader(Dataset(4, 7), 3, max_failures=1, **options))


class Endless:
    def __getitem__(self, index: int) -> int:
        return index


class Named:
    def __len__(self) -> int:
        return 1

    def __getitem__(self, name: str) -> int:
        raise KeyError(name)


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
    def __iter__(self) -> Any:
        return iter(range(3))


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"max_failures": 0.5}, TypeError, "max_failures must be"),
        ({"max_failures": Fraction(3, 2)}, ValueError, "max_failures"),
        ({"retry": 0}, ValueError, "retry must be >= 1"),
        ({"retry": Retry(2, timeout_per_attempt=1)}, ValueError, "timeout_per_attempt"),
    ],
)
def test_wrong_arguments_of_the_torch_loader_are_refused(
    options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    """When it is made."""
    with pytest.raises(kind, match=text):
        get_pytorch_dataloader(Dataset(), 3, workers="thread", **options)


def test_streams_have_no_retry() -> None:
    """An iterator that has raised cannot be asked again."""
    with pytest.raises(ValueError, match="map-style"):
        get_pytorch_dataloader(Stream(), 3, workers="thread", retry=2)
