"""Runs that are killed and resumed, over every kind of state, beside runs of torchdata that nobody interrupts.

A run is killed several times, at moments of an epoch that the seed chooses: before it, before its first batch, in it,
after its last batch, after its end. Each time other objects load the state. Together they must give what
``StatefulDataLoader`` gives without states, as a state is nothing else than a way to go on.
"""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader

from spdl.dataloader import DataLoader, get_pytorch_dataloader
from tests.support.soak import amount, seeds

from .composed import COMPOSED_MAPS, COMPOSED_STREAMS
from .stateful import MAPS, SAMPLERS, SHUFFLES, STREAMS

torchdata = pytest.importorskip("torchdata.stateful_dataloader")
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::UserWarning:torchdata",
        "ignore:'set_vital' is deprecated:UserWarning",
        "ignore:.* are loaded again and discarded:UserWarning",
        "ignore:.* it is iterated from its beginning:UserWarning",
        "ignore:.*multi-threaded, use of fork:DeprecationWarning",
    )
]

EPOCHS = 3
SEED = 11
KINDS: dict[str, dict[str, Any]] = {
    "inline": {"workers": "thread", "num_workers": 0},
    "thread": {"workers": "thread", "num_workers": 2},
    "kept threads": {"workers": "thread", "num_workers": 2, "persistent_workers": True},
    "process": {"workers": "process", "num_workers": 2},
    "kept processes": {"workers": "process", "num_workers": 2, "persistent_workers": True},
}
QUICK = ["inline", "thread", "kept threads"]
SLOW = ["process", "kept processes"]

Options = Callable[[], dict[str, Any]]


def as_is(batch: Any) -> Any:
    return batch


def plain(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def expected_of(options: Options, kind: str, judge: Any) -> list[list[Any]]:
    """The epochs of another loader, which nobody interrupts."""
    how: dict[str, Any] = {}
    if kind in SLOW or (
        judge is TorchDataLoader and kind == "kept threads"
    ):  # then torch draws one seed for all epochs
        how = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": kind.startswith("kept")}
    torch.manual_seed(SEED)
    loader = judge(**options(), collate_fn=as_is, **how)
    return [[plain(batch) for batch in loader] for _ in range(EPOCHS)]


def drop_in(options: Options, kind: str, rng: random.Random) -> Any:
    return get_pytorch_dataloader(
        **options(), collate_fn=as_is, snapshot_every_n_steps=rng.choice([1, 1, 3, 0]), **KINDS[kind]
    )


def of_pipelines(options: Options, kind: str, rng: random.Random) -> Any:
    values = options()
    return DataLoader(
        values["dataset"], batch_size=values["batch_size"], num_threads=2, output_order="input", resumable=True
    )


def killed(
    options: Options, kind: str, expected: list[list[Any]], rng: random.Random, make: Any = drop_in
) -> list[list[Any]]:
    """The epochs of a run that is killed and resumed until it is through."""
    epochs: list[list[Any]] = [[]]
    state: dict[str, Any] | None = None
    num_runs = 0
    while len(epochs) <= EPOCHS:
        torch.manual_seed(SEED)  # as scripts do at their start
        loader = make(options, kind, rng)
        num_runs += 1
        assert num_runs < 100, f"there is no end to it: {epochs}"
        if state is not None:
            loader.load_state_dict(state)
            assert make is of_pipelines or loader.state_dict() == state
        if rng.random() < 0.2:
            state = json.loads(json.dumps(loader.state_dict()))  # killed before it begins
            continue
        num_left = rng.randrange(2 * max(map(len, expected)) + 3)
        while len(epochs) <= EPOCHS:
            batches = iter(loader)
            while num_left > 0:
                num_left -= 1
                batch = next(batches, None)
                if batch is None:
                    epochs.append([])
                    break
                epochs[-1].append(plain(batch))
            else:
                break
            if num_left <= 0:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        if rng.random() < 0.3:
            next(batches, None)  # what came after the state is lost with the job
        if (close := getattr(batches, "close", None)) is not None:
            close()
    return epochs[:EPOCHS]


def check(
    options: Options, kind: str, number: int, seed: int, judge: Any = torchdata.StatefulDataLoader, make: Any = drop_in
) -> None:
    expected = expected_of(options, kind, judge)
    for attempt in range(number):
        rng = random.Random(f"{kind} {seed} {attempt}")
        assert killed(options, kind, expected, rng, make) == expected, attempt


def stream_of(name: str, batch_size: int | None, *, drop_last: bool = False) -> Options:
    return lambda: {"dataset": STREAMS[name](), "batch_size": batch_size, "drop_last": drop_last}


def skip_if_no_judge(dataset: str, kind: str) -> None:
    if "Global" in dataset and kind == "kept threads":
        pytest.skip("no peer has workers that are kept and share torch's generator with it")


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("batch_size", [None, 3, 13])
@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("name", STREAMS)
def test_a_killed_stream(name: str, kind: str, batch_size: int | None, seed: int) -> None:
    """Iterable datasets."""
    skip_if_no_judge(name, kind)
    check(stream_of(name, batch_size), kind, amount(3, 6), seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("kind", ["inline", "thread", "DataLoader"])
@pytest.mark.parametrize("name", COMPOSED_STREAMS)
def test_a_killed_stream_of_others(name: str, kind: str, seed: int) -> None:
    """Of torch, and of Hugging Face, whose states are those of a library."""
    how: Any = ("inline", of_pipelines) if kind == "DataLoader" else (kind, drop_in)
    check(lambda: {"dataset": COMPOSED_STREAMS[name](), "batch_size": 4}, how[0], amount(2, 6), seed, make=how[1])


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 5))
@pytest.mark.parametrize("kind", ["inline", "thread"])
@pytest.mark.parametrize("dataset", COMPOSED_MAPS)
@pytest.mark.parametrize("name", ["shuffle", "RandomSampler", "batches of other sizes"])
def test_a_killed_dataset_of_others(name: str, dataset: str, kind: str, seed: int) -> None:
    check(lambda: {"dataset": COMPOSED_MAPS[dataset](), **SHUFFLES[name]()}, kind, amount(2, 6), seed, TorchDataLoader)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(2, 10))
@pytest.mark.parametrize("name", [name for name in STREAMS if "Global" not in name])
def test_a_killed_loader_over_a_stream(name: str, seed: int) -> None:
    """Pipelines go through the same datasets, one after the other."""
    check(stream_of(name, 3), "inline", amount(2, 6), seed, make=of_pipelines)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("dataset", MAPS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_killed_sampler(name: str, dataset: str, kind: str, seed: int) -> None:
    """Map-style datasets. One with a state is loaded by one thread, as its samples depend on their order."""
    skip_if_no_judge(dataset, kind)
    check(lambda: {"dataset": MAPS[dataset](), **SAMPLERS[name]()}, kind, amount(2, 6), seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("dataset", MAPS)
@pytest.mark.parametrize("name", SHUFFLES)
def test_a_killed_shuffle(name: str, dataset: str, kind: str, seed: int) -> None:
    """Orders drawn from torch's global generator, which is seeded at the start of each run."""
    skip_if_no_judge(dataset, kind)
    if dataset == "Counting" and kind == "kept threads":
        pytest.skip("torch's workers have copies of the dataset")
    check(lambda: {"dataset": MAPS[dataset](), **SHUFFLES[name]()}, kind, amount(2, 6), seed, TorchDataLoader)


@pytest.mark.soak(only=True)
@pytest.mark.parametrize("seed", seeds(1, 1))
@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("name", STREAMS)
def test_a_killed_stream_of_worker_processes(name: str, kind: str, seed: int) -> None:
    """Each of which has its own."""
    check(stream_of(name, 3), kind, 2, seed)


@pytest.mark.soak(only=True)
@pytest.mark.parametrize("seed", seeds(1, 1))
@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("name", [*SAMPLERS, *SHUFFLES])
def test_a_killed_sampler_of_worker_processes(name: str, kind: str, seed: int) -> None:
    # Torchdata iterates a sampler once where torch does it twice, and its own sampler draws whenever it is iterated.
    judge = torchdata.StatefulDataLoader if name in SAMPLERS and not name.startswith("torchdata's") else TorchDataLoader
    options = {**SAMPLERS, **SHUFFLES}[name]
    check(lambda: {"dataset": MAPS["Counting"](), **options()}, kind, 2, seed, judge)


@pytest.mark.parametrize("name", ["Always", "Drawn"])
def test_kept_processes(name: str) -> None:
    """One case of the above, with what is loaded in the workers for one pass, and what goes on from pass to pass."""
    check(stream_of(name, 4), "kept processes", 1, 0)
