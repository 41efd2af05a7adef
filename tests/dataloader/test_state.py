"""``PyTorchDataLoader.state_dict`` and ``load_state_dict``: an epoch goes on where it was, exactly."""

import itertools
import json
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler, WeightedRandomSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader  # noqa: E402
from spdl.source import DistributedKeyedSampler  # noqa: E402

from . import stateful_datasets as data  # noqa: E402
from .resuming import KINDS, drain, take  # noqa: E402

SIZE = 23
#: For samplers that ask for a length alone.
DATASET: Any = range(SIZE)

kinds = pytest.mark.parametrize("kind", [*KINDS])
cheap_kinds = pytest.mark.parametrize("kind", ["inline", "thread"])


Make = Callable[[], PyTorchDataLoader[Any]]


def check(make: Make, count: int, *, ordered: bool = True) -> None:
    """An uninterrupted run, and one that is interrupted after ``count`` batches, give the same, two epochs long."""
    torch.manual_seed(7)
    whole = make()
    expected = [drain(iter(whole)), drain(iter(whole))]

    torch.manual_seed(7)
    first = make()
    batches = iter(first)
    begun = take(batches, count)
    state = first.state_dict()
    before = torch.get_rng_state()
    del batches, first

    torch.manual_seed(99)
    second = make()
    second.load_state_dict(json.loads(json.dumps(state)))
    assert second.state_dict() == state
    torch.set_rng_state(before)
    rest = drain(iter(second))
    got = [begun + rest, drain(iter(second))]
    if not ordered:
        expected, got = [sorted(map(str, epoch)) for epoch in expected], [sorted(map(str, epoch)) for epoch in got]
    assert got == expected


@kinds
@pytest.mark.parametrize("count", [0, 1, 4, 8])
def test_a_shuffled_epoch_goes_on(kind: str, count: int) -> None:
    """With the same batches in the same order, and the next epoch is the same too."""
    check(lambda: get_pytorch_dataloader(data.Squares(SIZE), 3, shuffle=True, **KINDS[kind]), count)


SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "sequential": dict,
    "not batched": lambda: {"batch_size": None, "shuffle": True},
    "drop_last": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "own generator": lambda: {"batch_size": 4, "shuffle": True, "generator": torch.Generator().manual_seed(3)},
    "generator of the sampler": lambda: {
        "sampler": RandomSampler(range(SIZE), replacement=True, generator=torch.Generator().manual_seed(3))
    },
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0, 5.0, 2.0], 17), "batch_size": 3},
    "list": lambda: {"sampler": [5, 3, 1, 2, 9, 9, 8], "batch_size": 2},
    "list of batches": lambda: {"batch_sampler": [[5, 3], [1], [2, 9, 9], [8], [7], [6]]},
    "torch's batch sampler": lambda: {"batch_sampler": BatchSampler(SequentialSampler(range(SIZE)), 5, False)},
    "batches of a random sampler": lambda: {
        "sampler": BatchSampler(RandomSampler(range(SIZE)), 4, True),
        "batch_size": None,
    },
    "distributed": lambda: {"sampler": DistributedSampler(DATASET, 2, 1, seed=4), "batch_size": 2},
    "keyed": lambda: {"sampler": DistributedKeyedSampler(SIZE, rank=0, world_size=2), "batch_size": 2},
    "iterator with state": lambda: {"sampler": data.SamplerWithIterator(SIZE), "batch_size": 2},
    "batch sampler with state": lambda: {"batch_sampler": data.StatefulBatchSampler(SIZE)},
}


@cheap_kinds
@pytest.mark.parametrize("name", [name for name in SAMPLERS if "state" not in name])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_sampler_goes_on(kind: str, name: str, count: int) -> None:
    """Whether by position, by its state, by torch's generators or by drawing again."""
    random.seed(5)
    samplers = SAMPLERS[name]
    check(lambda: get_pytorch_dataloader(data.Squares(SIZE), **samplers(), **KINDS[kind]), count)


@cheap_kinds
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("name", ["iterator with state", "batch sampler with state"])
def test_a_sampler_with_a_state_gets_it_back(kind: str, name: str, every: int) -> None:
    """Its order comes from a generator that nobody else knows."""

    def make() -> PyTorchDataLoader[Any]:
        options: dict[str, Any] = {**SAMPLERS[name](), **KINDS[kind], "snapshot_every_n_steps": every}
        return get_pytorch_dataloader(data.Squares(SIZE), **options)

    for count in range(1, 5):
        loader = make()
        batches = iter(loader)
        take(batches, count)
        state = loader.state_dict()
        expected = drain(batches)
        again = make()
        again.load_state_dict(state)
        assert drain(iter(again)) == expected


@kinds
def test_a_state_loads_with_another_number_and_kind_of_workers(kind: str) -> None:
    """The index batches do not depend on the workers."""
    torch.manual_seed(3)
    loader = get_pytorch_dataloader(data.Squares(SIZE), 3, shuffle=True, workers="thread", num_workers=3)
    batches = iter(loader)
    take(batches, 4)
    state = loader.state_dict()
    other = get_pytorch_dataloader(data.Squares(SIZE), 3, shuffle=True, **KINDS[kind])
    other.load_state_dict(state)
    assert drain(iter(other)) == drain(batches)


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_batches_taken_in_completion_order_do_not_come_again(kind: str) -> None:
    """The numbers that are missing come, and no others."""
    options = {**KINDS[kind], "in_order": False, "prefetch_factor": 3}
    for count in (1, 3, 6):
        check(lambda: get_pytorch_dataloader(data.Squares(SIZE), 2, shuffle=True, **options), count, ordered=False)


@kinds
def test_failed_batches_count_as_taken(kind: str) -> None:
    """They are not tried again."""
    for count in (2, 3):
        check(lambda: get_pytorch_dataloader(data.Failing(SIZE), 2, **KINDS[kind]), count)


@cheap_kinds
def test_a_state_can_be_asked_for_twice_and_after_a_break(kind: str) -> None:
    """It is that of the newest iterator, also when that has been collected."""
    loader = get_pytorch_dataloader(data.Squares(10), 2, **KINDS[kind])
    assert loader.state_dict() == loader.state_dict()
    for step, _ in enumerate(loader):
        if step == 2:
            break
    state = loader.state_dict()
    assert state == loader.state_dict()
    loader.load_state_dict(state)
    assert drain(iter(loader)) == [[36, 49], [64, 81]]


@cheap_kinds
def test_before_the_end_is_an_empty_rest_and_after_it_the_next_epoch(kind: str) -> None:
    """As in torchdata: the last batch is taken, but the loop has not been told."""
    loader = get_pytorch_dataloader(data.Squares(4), 2, **KINDS[kind])
    batches = iter(loader)
    take(batches, 2)
    at_end = loader.state_dict()
    assert drain(batches) == []
    after = loader.state_dict()
    for state, expected in ((at_end, []), (after, [[0, 1], [4, 9]])):
        other = get_pytorch_dataloader(data.Squares(4), 2, **KINDS[kind])
        other.load_state_dict(state)
        assert drain(iter(other)) == expected
        assert drain(iter(other)) == [[0, 1], [4, 9]]


@cheap_kinds
def test_resuming_continues_the_global_generator(kind: str) -> None:
    """What the training draws next is what it would have drawn, and the order of the next epoch too."""
    loader = get_pytorch_dataloader(data.Squares(8), 2, shuffle=True, **KINDS[kind])
    batches = iter(loader)
    take(batches, 2)
    other = get_pytorch_dataloader(data.Squares(8), 2, shuffle=True, **KINDS[kind])
    other.load_state_dict(loader.state_dict())
    expected = torch.rand(3)
    torch.rand(5)
    rest = iter(other)
    assert torch.equal(torch.rand(3), expected)
    assert drain(rest) == drain(batches)


STREAMS = [data.Stream, data.StatefulStream, data.StreamWithIterator]


@pytest.mark.filterwarnings("ignore:.*loaded again and discarded")
@kinds
@pytest.mark.parametrize("dataset", STREAMS)
@pytest.mark.parametrize("batch_size", [None, 3])
def test_an_iterable_dataset_goes_on(kind: str, dataset: Any, batch_size: int | None) -> None:
    """With its own state or by discarding what was taken; each worker has its own iterator."""
    # Each takes as many processes as a loader has workers, three times.
    for count in (0, 1, 4, 7) if kind in ("inline", "thread") else (1, 7):
        check(lambda: get_pytorch_dataloader(dataset(20), batch_size, **KINDS[kind]), count)


@pytest.mark.filterwarnings("ignore:.*loaded again and discarded")
@pytest.mark.parametrize("kind", ["thread", "process"])
@pytest.mark.parametrize("dataset", STREAMS)
def test_an_iterable_dataset_goes_on_in_completion_order(kind: str, dataset: Any) -> None:
    """None lost and none twice."""
    options = {**KINDS[kind], "in_order": False, "prefetch_factor": 3}
    for count in (1, 5):
        check(lambda: get_pytorch_dataloader(dataset(20), 2, **options), count, ordered=False)


@cheap_kinds
def test_a_state_of_the_dataset_saves_drawing_again(kind: str) -> None:
    """With a snapshot after each batch nothing is drawn twice; otherwise at most what came after the snapshot."""
    for every, most in ((1, 0), (4, 3 * 2)):
        options = {**KINDS[kind], "snapshot_every_n_steps": every}
        loader = get_pytorch_dataloader(data.StatefulStream(40), 2, **options)
        batches = iter(loader)
        take(batches, 7)
        dataset = data.StatefulStream(40)
        other = get_pytorch_dataloader(dataset, 2, **options)
        other.load_state_dict(loader.state_dict())
        assert len(drain(iter(other))) == 20 - 7
        assert dataset.num_drawn <= 40 - 14 + most


def test_discarding_is_said() -> None:
    """With the number of batches, and what would avoid it."""
    loader = get_pytorch_dataloader(data.Stream(10), 2, **KINDS["inline"])
    take(iter(loader), 3)
    other = get_pytorch_dataloader(data.Stream(10), 2, **KINDS["inline"])
    other.load_state_dict(loader.state_dict())
    with pytest.warns(UserWarning, match="3 batches of Stream are loaded again and discarded.*state_dict") as caught:
        assert drain(iter(other)) == [[6, 7], [8, 9]]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["inline", "process"])
def test_a_map_style_dataset_with_a_state_gets_it_back(kind: str) -> None:
    """Each worker its own."""
    check(lambda: get_pytorch_dataloader(data.Counting(SIZE), 3, **KINDS[kind]), 4)


@pytest.mark.parametrize("kind", ["inline", "thread", "process"])
def test_persistent_workers_go_on(kind: str) -> None:
    """In the process that saved the state, too."""
    options = {**KINDS[kind], "persistent_workers": kind != "inline"}
    loader = get_pytorch_dataloader(data.Squares(12), 2, shuffle=True, **options)
    for _ in range(2):
        batches = iter(loader)
        take(batches, 3)
        state = loader.state_dict()
        expected = drain(batches)
        loader.load_state_dict(state)
        assert drain(iter(loader)) == expected


def test_many_positions_are_passed_over_at_once() -> None:
    """By position, where the sampler has positions: half of a billion indices take no time."""
    size = 10**9

    class Indices:
        def __len__(self) -> int:
            return size

        def __getitem__(self, index: int) -> int:
            return index

    def make() -> PyTorchDataLoader[Any]:
        sampler = DistributedKeyedSampler(size, rank=0, world_size=1, seed=1)
        return get_pytorch_dataloader(Indices(), 10, sampler=sampler, **KINDS["inline"])

    loader = make()
    take(iter(loader), 1)
    document = json.loads(loader.state_dict()["spdl"])
    document["epoch"] |= {"taken": 5 * 10**7, "check": None}
    other = make()
    other.load_state_dict({"spdl": json.dumps(document)})
    order = DistributedKeyedSampler(size, rank=0, world_size=1, seed=1)
    assert take(iter(other), 1)[0] == [order[5 * 10**8 + position] for position in range(10)]


def test_the_epoch_of_the_sampler_is_set() -> None:
    """``set_epoch`` is called with the number it had."""

    def make() -> PyTorchDataLoader[Any]:
        sampler: DistributedSampler[Any] = DistributedSampler(DATASET, 1, 0, seed=4)
        return get_pytorch_dataloader(data.Squares(SIZE), 2, sampler=sampler, **KINDS["inline"])

    loader = make()
    loader.set_epoch(3)
    batches = iter(loader)
    take(batches, 3)
    other = make()
    other.load_state_dict(loader.state_dict())
    assert other.sampler.epoch == 3
    assert drain(iter(other)) == drain(batches)


def test_a_pickled_loader_keeps_what_was_loaded() -> None:
    """And no iterator."""
    begun = get_pytorch_dataloader(data.Squares(10), 2, **KINDS["inline"])
    take(iter(begun), 2)
    loader = get_pytorch_dataloader(data.Squares(10), 2, **KINDS["inline"])
    loader.load_state_dict(begun.state_dict())
    copy = pickle.loads(pickle.dumps(loader))
    assert drain(iter(copy)) == [[16, 25], [36, 49], [64, 81]]


def test_a_state_is_small() -> None:
    """A few kilobytes for torch's generator; its size does not grow with the epoch."""
    loader = get_pytorch_dataloader(data.Squares(1000), 2, shuffle=True, **KINDS["thread"])
    sizes = []
    for _ in itertools.islice(loader, 400):
        sizes.append(len(loader.state_dict()["spdl"]))
    assert max(sizes) < 16_000
    assert max(sizes) - min(sizes) < 50


def test_nothing_is_said_when_nothing_is_discarded() -> None:
    """No warning without a reason."""
    loader = get_pytorch_dataloader(data.StatefulStream(10), 2, **KINDS["inline"])
    take(iter(loader), 3)
    other = get_pytorch_dataloader(data.StatefulStream(10), 2, **KINDS["inline"])
    other.load_state_dict(loader.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drain(iter(other)) == [[6, 7], [8, 9]]


@pytest.mark.parametrize("kind", ["inline", "thread"])
def test_a_state_that_changes_afterwards_is_copied(kind: str) -> None:
    """A sampler may return the list that it goes on changing."""

    class Popping:
        def __init__(self) -> None:
            self.left = list(range(8))

        def __iter__(self) -> Iterator[int]:
            while self.left:
                yield self.left.pop()

        def state_dict(self) -> dict[str, Any]:
            return {"left": self.left}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.left = state["left"]

    loader = get_pytorch_dataloader(data.Squares(8), 2, sampler=Popping(), **KINDS[kind])
    batches = iter(loader)
    assert take(batches, 2) == [[49, 36], [25, 16]]
    state = loader.state_dict()
    assert take(batches, 1) == [[9, 4]]
    other = get_pytorch_dataloader(data.Squares(8), 2, sampler=Popping(), **KINDS[kind])
    other.load_state_dict(state)
    assert drain(iter(other)) == [[9, 4], [1, 0]]
