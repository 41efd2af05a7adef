"""States of loaders whose text is valid JSON with odd content: see ``test_odd_states.py`` for those of pipelines.

A state that is accepted must behave: its epoch has no sample twice, and ends.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest

from spdl.dataloader import DataLoader, get_pytorch_dataloader
from spdl.resume import ResumeError
from tests.resume.test_odd_states import _sample
from tests.support.soak import amount, seeds

torch = pytest.importorskip("torch")

SIZE = 12


class Numbers(torch.utils.data.Dataset[int]):  # type: ignore[misc, name-defined] # torch is Any here
    """A dataset without a state."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> int:
        return index


class Counting(Numbers):
    """One with a state."""

    def __init__(self) -> None:
        self.num_loaded = 0

    def __getitem__(self, index: int) -> int:
        self.num_loaded += 1
        return index

    def state_dict(self) -> dict[str, Any]:
        return {"num_loaded": self.num_loaded}

    def load_state_dict(self, state: Any) -> None:
        self.num_loaded = _number_in(state, "num_loaded")


class Stream(torch.utils.data.IterableDataset[int]):  # type: ignore[misc, name-defined]
    """An iterable dataset whose state says where it is."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        step = 1 if info is None else info.num_workers
        first = 0 if info is None else info.id
        while first + self.position * step < SIZE:
            self.position += 1
            yield first + (self.position - 1) * step
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: Any) -> None:
        self.position = _number_in(state, "position")


class Plain(torch.utils.data.IterableDataset[int]):  # type: ignore[misc, name-defined]
    """One without a state: its items are read again."""

    def __iter__(self) -> Iterator[int]:
        yield from range(SIZE)


def _number_in(state: Any, name: str) -> int:
    value = state.get(name) if isinstance(state, dict) else None
    if type(value) is not int or not 0 <= value <= 1000:
        raise ResumeError(f"no {name}: {state!r}")
    return value


def _torch(dataset: Callable[[], Any], **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        generator = torch.Generator().manual_seed(3)
        return get_pytorch_dataloader(dataset(), batch_size=2, generator=generator, **options)

    return make


MAKERS: dict[str, Callable[[], Any]] = {
    "none": _torch(Numbers, num_workers=0, workers="process", shuffle=True),
    "none, global seed": lambda: get_pytorch_dataloader(
        Numbers(), batch_size=2, num_workers=0, workers="process", shuffle=True
    ),
    "none, state": _torch(Counting, num_workers=0, workers="process", shuffle=True),
    "none, stream": _torch(Stream, num_workers=0, workers="process"),
    "none, plain stream": _torch(Plain, num_workers=0, workers="process"),
    "threads": _torch(Numbers, num_workers=2, workers="thread", shuffle=True),
    "threads, state": _torch(Counting, num_workers=2, workers="thread", shuffle=True),
    "threads, stream": _torch(Stream, num_workers=1, workers="thread"),
    "DataLoader": lambda: DataLoader(range(SIZE), batch_size=2, resumable=True),
    "DataLoader, preprocessed": lambda: DataLoader(
        range(SIZE), preprocessor=str, batch_size=2, num_threads=2, resumable=True, seed=4
    ),
}
PROCESSES: dict[str, Callable[[], Any]] = {
    "processes": _torch(Numbers, num_workers=2, workers="process", shuffle=True),
    "processes, state": _torch(Counting, num_workers=1, workers="process", shuffle=True),
    "processes, stream": _torch(Stream, num_workers=2, workers="process"),
}


def _states(make: Callable[[], Any]) -> list[Any]:
    """A state in the middle of an epoch, after it, and in the middle of the second."""
    loader = make()
    found = []
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    found.append(loader.state_dict())
    assert sum(1 for _ in batches) == 3
    found.append(loader.state_dict())
    batches = iter(loader)
    next(batches)
    found.append(loader.state_dict())
    getattr(batches, "close", lambda: None)()
    return found


def _flat(batches: Any) -> list[Any]:
    return [str(int(item)) for batch in batches for item in (batch.tolist() if hasattr(batch, "tolist") else batch)]


def _read_on(make: Callable[[], Any], state: Any) -> None:
    """Load it, and read the rest of this epoch, and the next."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = make()
        loader.load_state_dict(state)
        for _ in range(2):
            items = _flat(islice(iter(loader), SIZE))
            assert len(items) == len(set(items)) <= SIZE, items
        loader.state_dict()


def _try(what: str, action: Callable[[], Any]) -> str | None:
    try:
        action()
    except ResumeError:
        return None
    except BaseException as exc:
        return f"{what}: {exc!r}"
    return None


def _check(make: Callable[[], Any], seed: int, number: int) -> None:
    wrong = []
    for state in _states(make):
        (key, text), *others = state.items()
        assert not others, state
        for what, mutant in _sample(json.loads(text), seed, number):
            wrong.append(_try(what, partial(_read_on, make, {key: json.dumps(mutant)})))
    assert not (found := [each for each in wrong if each]), "\n".join(found)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("kind", list(MAKERS))
def test_odd_states_of_loaders(kind: str, seed: int) -> None:
    """In the middle of an epoch, after it, and in the second."""
    _check(MAKERS[kind], seed, amount(40, 400))


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("kind", list(PROCESSES))
def test_odd_states_of_loaders_with_processes(kind: str, seed: int) -> None:
    """The same; each state that is accepted starts processes."""
    _check(PROCESSES[kind], seed, amount(3, 60))
