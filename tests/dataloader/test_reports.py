"""Exceptions of a dataset that refuse to be noted or shown: the consumer gets them all the same."""

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spdl.dataloader import get_pytorch_dataloader  # noqa: E402
from tests.strategies.hostile import EXCEPTIONS, hostile_log  # noqa: E402

ORDINARY = ["plain", "frozen", "refuses-notes", "notes-no-list", "refuses-attributes", "str-raises", "str-exits"]


@dataclass
class Failing:
    """Raises at one index."""

    name: str
    bad: int

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == self.bad:
            raise EXCEPTIONS[self.name]()
        return index


class FailingStream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
    def __init__(self, name: str) -> None:
        self.name = name

    def __iter__(self) -> Any:
        yield from range(4)
        raise EXCEPTIONS[self.name]()


def load_to_error(dataset: Any, **options: Any) -> tuple[list[int], BaseException]:
    loader = get_pytorch_dataloader(dataset, 2, **{"num_workers": 2, **options})
    found: list[int] = []
    try:
        for batch in loader:
            found += batch.tolist()
    except Exception as exc:
        return found, exc
    raise AssertionError("the loader ended well")


@pytest.mark.parametrize("workers", ["thread", "auto"])
@pytest.mark.parametrize("bad", [0, 5])
@pytest.mark.parametrize("name", ORDINARY)
def test_the_consumer_gets_what_the_dataset_raised(name: str, bad: int, workers: str) -> None:
    """Also where ``auto`` loads the first batches itself."""
    found, error = load_to_error(Failing(name, bad), workers=workers)
    assert found == [index for index in range(8) if index < bad - bad % 2]
    assert type(error) is type(EXCEPTIONS[name]())


@pytest.mark.parametrize("name", ORDINARY)
def test_the_consumer_gets_what_a_stream_raised(name: str) -> None:
    """After all that came before it."""
    found, error = load_to_error(FailingStream(name), workers="thread", num_workers=1)
    assert found == [0, 1, 2, 3]
    assert type(error) is type(EXCEPTIONS[name]())


def test_a_log_that_raises_does_not_end_auto() -> None:
    """It says what it has chosen; who does not want to hear that loads all the same."""
    with hostile_log("handler", "spdl.dataloader"):
        found, error = load_to_error(Failing("frozen", 7), workers="auto")
    assert found == [0, 1, 2, 3, 4, 5]
    assert type(error).__name__ == "FrozenError"
