"""Scripts that seed torch globally and give no generator: a resumed run has the order of the uninterrupted one.

In this epoch and all later ones, whatever the training draws itself. The order is computed from torch's samplers.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader  # noqa: E402
from tests.support.soak import amount, seeds  # noqa: E402

from .stateful_datasets import Identity  # noqa: E402

SIZE = 11
EPOCHS = 4
DATASET: Any = Identity(SIZE)


class Lazy:
    """A batch sampler that draws from torch's global generator for each batch."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(4):
            yield torch.randint(SIZE, (3,)).tolist()


SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffle": lambda: {"batch_size": 3, "shuffle": True},
    "RandomSampler": lambda: {"batch_size": 3, "sampler": RandomSampler(DATASET)},
    "with replacement": lambda: {"batch_size": 4, "sampler": RandomSampler(DATASET, replacement=True, num_samples=70)},
    "weighted": lambda: {"batch_size": 3, "sampler": WeightedRandomSampler([1.0, 3.0, 2.0], SIZE)},
    "subset": lambda: {"batch_size": 2, "sampler": SubsetRandomSampler(range(2, 9))},
    "drop_last": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "not batched": lambda: {"batch_size": None, "sampler": RandomSampler(DATASET)},
    "BatchSampler": lambda: {"batch_sampler": BatchSampler(RandomSampler(DATASET), 3, False)},
    "BatchSampler, weighted": lambda: {"batch_sampler": BatchSampler(WeightedRandomSampler([1.0] * SIZE, 9), 2, True)},
    "drawn for each batch": lambda: {"batch_sampler": Lazy()},
}
KINDS: dict[str, dict[str, Any]] = {
    "inline": {"workers": "thread", "num_workers": 0},
    "thread": {"workers": "thread", "num_workers": 2},
    "kept threads": {"workers": "thread", "num_workers": 2, "persistent_workers": True},
    "process": {"workers": "process", "num_workers": 2},
    "kept processes": {"workers": "process", "num_workers": 2, "persistent_workers": True},
    "auto": {"workers": "auto", "num_workers": 2},
}
QUICK = ["inline", "thread", "kept threads"]
#: Seed before a loader is made, and what is done between loading a state and going on.
SCRIPTS = ["seeded once", "seeded otherwise", "model made late", "seeded for each epoch"]


class Training:
    """Epochs of a loader. The trainer draws a number after each batch if it ``draws``."""

    def __init__(self, script: str, *, draws: bool, seed: int = 5) -> None:
        self.script, self.draws = script, draws
        torch.manual_seed(seed)
        torch.rand(3)  # a model

    def begin(self, epoch: int) -> None:
        if self.script == "seeded for each epoch":
            torch.manual_seed(40 + epoch)

    def step(self) -> float | None:
        return torch.rand(1).item() if self.draws else None


def expected_of(name: str, kind: str, training: Training) -> list[list[Any]]:
    """All steps of an uninterrupted run."""
    options = SAMPLERS[name]()
    if options.pop("shuffle", False):
        options["sampler"] = RandomSampler(DATASET)
    batches = options.get("batch_sampler") or options["sampler"]
    if options.get("batch_size") is not None:
        batches = BatchSampler(batches, options["batch_size"], options.get("drop_last", False))
    epochs: list[list[Any]] = []
    for epoch in range(EPOCHS):
        training.begin(epoch)
        if epoch == 0 or not kind.startswith("kept"):
            torch.empty((), dtype=torch.int64).random_()  # the seed of the workers, which torch's loader draws
        epochs.append([(indices, training.step()) for indices in batches])
    return epochs


def plain(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def run(
    loader: PyTorchDataLoader[Any], training: Training, epoch: int, stop: tuple[int, int | None] | None = None
) -> list[list[Any]]:
    """Epochs from ``epoch`` on; ``stop`` is the epoch, and the number of its steps (``None``: all and its end)."""
    epochs: list[list[Any]] = []
    while epoch < EPOCHS:
        training.begin(epoch)
        batches = iter(loader)
        epochs.append([])
        while stop != (epoch, len(epochs[-1])):
            batch = next(batches, None)
            if batch is None:
                break
            epochs[-1].append((plain(batch), training.step()))
        if stop is not None and stop[0] == epoch:
            break
        epoch += 1
    return epochs


def check(name: str, kind: str, script: str, draws: bool, stop: tuple[int, int | None], second: str) -> None:
    expected = expected_of(name, kind, Training(script, draws=draws))
    training = Training(script, draws=draws)
    loader = get_pytorch_dataloader(DATASET, **SAMPLERS[name](), **KINDS[kind])
    begun = run(loader, training, 0, stop)
    state = json.loads(json.dumps(loader.state_dict()))
    run(loader, training, EPOCHS - 1, (EPOCHS - 1, 1))  # steps after the checkpoint are lost with the job
    assert begun == [*expected[: stop[0]], expected[stop[0]][: stop[1]]]

    training = Training(script, draws=draws, seed=99 if script == "seeded otherwise" else 5)
    loader = get_pytorch_dataloader(DATASET, **SAMPLERS[name](), **KINDS[second])
    loader.load_state_dict(state)
    if script == "model made late":
        torch.rand(7)
    first = stop[0] + (stop[1] is None)
    rest = expected[first:] if stop[1] is None else [expected[first][stop[1] :], *expected[first + 1 :]]
    assert run(loader, training, first) == rest


def moments(name: str, kind: str, number: int, seed: int) -> Iterator[tuple[str, bool, tuple[int, int | None]]]:
    rng = random.Random(f"{name} {kind} {seed}")
    length = len(expected_of(name, kind, Training("", draws=False))[0])
    for _ in range(number):
        # A sampler that draws between the draws of the trainer cannot draw the same again: it is refused.
        draws = rng.random() < 0.5 and name != "drawn for each batch"
        stop = rng.randrange(EPOCHS - 1), rng.choice([None, *range(length + 1)])
        yield rng.choice(SCRIPTS), draws, stop


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_resumed_run_has_the_order_of_the_uninterrupted_one(name: str, kind: str, seed: int) -> None:
    """Stopped in an epoch, at its last batch, or between two epochs."""
    for script, draws, stop in moments(name, kind, amount(5, 10), seed):
        check(name, kind, script, draws, stop, kind)


@pytest.mark.soak(only=True)
@pytest.mark.parametrize("seed", seeds(1, 1))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in QUICK])
@pytest.mark.parametrize("name", SAMPLERS)
def test_worker_processes_do_too(name: str, kind: str, seed: int) -> None:
    """They get their indices from the loader's process, as threads do."""
    for script, draws, stop in moments(name, kind, 2, seed):
        check(name, kind, script, draws, stop, kind)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_kind_of_workers_may_change(name: str) -> None:
    """How far the workers had prefetched does not matter."""
    for seed, (kind, second) in enumerate([("inline", "thread"), ("thread", "inline")]):
        for script, _, stop in moments(name, kind, 3, seed):
            check(name, kind, script, False, stop, second)


@pytest.mark.parametrize("kind", ["process", "kept processes"])
def test_worker_processes_go_on_in_later_epochs(kind: str) -> None:
    check("shuffle", kind, "seeded once", True, (1, 2), kind)


@pytest.mark.parametrize("kind", QUICK)
def test_a_state_from_before_the_first_epoch(kind: str) -> None:
    """Asked for twice, and again after it was loaded."""
    expected = expected_of("shuffle", kind, Training("", draws=True))
    Training("", draws=True)
    first = get_pytorch_dataloader(DATASET, 3, shuffle=True, **KINDS[kind])
    state = first.state_dict()
    assert first.state_dict() == state
    second = get_pytorch_dataloader(DATASET, 3, shuffle=True, **KINDS[kind])
    torch.manual_seed(3)
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert run(second, Training("", draws=True, seed=3), 0) == expected


@pytest.mark.parametrize("kind", QUICK)
def test_a_second_loader_does_not_wind_the_generator_back(kind: str) -> None:
    """One that is resumed when the training has already gone on, such as that of the validation set."""

    def make() -> tuple[PyTorchDataLoader[Any], PyTorchDataLoader[Any]]:
        return tuple(get_pytorch_dataloader(DATASET, 3, shuffle=True, **KINDS[kind]) for _ in range(2))  # type: ignore[return-value]

    def read(loader: PyTorchDataLoader[Any], taken: int = 0) -> list[Any]:
        return [(plain(batch), training.step()) for batch in loader][taken:]

    training = Training("", draws=True)
    train, valid = make()
    expected = [read(each) for _ in range(3) for each in (train, valid)]
    training = Training("", draws=True)
    train, valid = make()
    read(train)
    read(valid)
    batches = iter(train)
    for _ in range(2):
        next(batches)
        training.step()
    states = train.state_dict(), valid.state_dict()
    training = Training("", draws=True)
    train, valid = make()
    train.load_state_dict(states[0])
    valid.load_state_dict(states[1])
    assert [read(train), read(valid), read(train), read(valid)] == [expected[2][2:], *expected[3:]]


def test_a_seed_given_after_loading_stays() -> None:
    """A script that seeds each epoch, or that begins another run from the same position."""
    loader = get_pytorch_dataloader(DATASET, 3, shuffle=True, **KINDS["thread"])
    next(iter(loader))
    other = get_pytorch_dataloader(DATASET, 3, shuffle=True, **KINDS["thread"])
    other.load_state_dict(loader.state_dict())
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    iter(other)
    assert torch.equal(torch.rand(3), expected)
