"""States of ``DataLoader`` and ``CacheDataLoader``, and of what reads them ahead."""

import copy
import gc
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from spdl import resume
from spdl.dataloader import CacheDataLoader, DataLoader, prefetch_to_device
from spdl.dataloader._holding import Holding, hold
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Aggregator
from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler

SIZE, BATCH = 22, 4
NUM_BATCHES = 6


class Shuffled:
    """Another order for each epoch. It does not tell its epoch."""

    def __init__(self) -> None:
        self._epoch = 0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, position: int) -> int:
        if not 0 <= position < SIZE:
            raise IndexError(position)
        return (position * (2 * self._epoch + 3)) % SIZE if self._epoch != 4 else position

    def __iter__(self) -> Iterator[int]:
        return map(self.__getitem__, range(SIZE))

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch


class Stateful:
    """A source that keeps its place between iterations."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        while self.position < SIZE:
            self.position += 1
            yield self.position
        self.position = -3  # the next pass is another one

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


def keyed(rank: int = 0, world: int = 1) -> DistributedKeyedSampler:
    return DistributedKeyedSampler(SIZE, rank=rank, world_size=world, seed=3)


def make(source: Any, **options: Any) -> DataLoader[Any, Any]:
    values: dict[str, Any] = {"batch_size": BATCH, "num_threads": 2, "output_order": "input", "resumable": True}
    return DataLoader(source, preprocessor=str, **{**values, **options})


SOURCES = [keyed, Shuffled, Stateful, lambda: list(range(SIZE))]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("moment", ["none", 1, 4, "all", "end"])
def test_the_rest_of_the_epoch_and_the_next_ones(source: Any, moment: Any) -> None:
    """From any moment of the second epoch, before its first batch and after its end too."""
    epochs = []
    whole = make(source())
    for epoch in range(3):
        whole.set_epoch(epoch)
        epochs.append(list(whole))
    loader = make(source())
    loader.set_epoch(0)
    assert list(loader) == epochs[0]
    loader.set_epoch(1)
    batches = iter(loader)
    num_all = len(epochs[1])
    num_taken = {"none": 0, "all": num_all, "end": num_all + 1}.get(moment, moment)
    taken = [batch for _, batch in zip(range(num_taken), batches, strict=False)]
    state = json.loads(json.dumps(loader.state_dict()))
    assert loader.state_dict()["spdl"].count("pipeline") == 1
    other = make(source())
    other.load_state_dict(state)
    if moment != "end":
        assert taken + list(other) == epochs[1]
    other.set_epoch(2)
    assert list(other) == epochs[2]


def test_a_state_is_the_same_after_loading() -> None:
    """Asked any number of times, and resumed twice."""
    loader = make(keyed())
    next(iter(loader))
    first, second = make(keyed()), make(keyed())
    first.load_state_dict(loader.state_dict())
    second.load_state_dict(first.state_dict())
    assert first.state_dict() == second.state_dict() == second.state_dict()
    assert list(first) == list(second)


@pytest.mark.parametrize("end", ["closed", "collected"])
def test_an_iteration_that_was_left_has_a_state(end: str) -> None:
    """``break`` and ``close`` lose no batch that was prefetched."""
    loader = make(keyed())
    batches: Any = iter(loader)
    taken = [next(batches), next(batches)]
    if end == "closed":
        batches.close()
    del batches
    gc.collect()
    other = make(keyed())
    other.load_state_dict(loader.state_dict())
    assert taken + list(other) == list(make(keyed()))


def test_an_epoch_set_after_loading() -> None:
    """An epoch that had begun goes on, whatever is set; one that had not is the one that is set."""
    expected = make(Shuffled())
    expected.set_epoch(5)
    loader = make(Shuffled())
    loader.set_epoch(5)
    state = loader.state_dict()
    next(iter(loader))
    begun = loader.state_dict()
    other = make(Shuffled())
    other.load_state_dict(state)
    assert list(other) == list(expected)
    other.load_state_dict(state)
    other.set_epoch(7)
    expected.set_epoch(7)
    assert list(other) == list(expected)
    expected.set_epoch(5)
    other.load_state_dict(begun)
    assert list(other) == list(expected)[1:]


def test_copies_keep_what_was_loaded() -> None:
    """Pickled and deep copies, each with a state of its own."""
    loader = make(keyed())
    next(iter(loader))
    other = make(keyed())
    other.load_state_dict(loader.state_dict())
    copies = pickle.loads(pickle.dumps(other)), copy.deepcopy(other)
    expected = list(make(keyed()))[1:]
    assert [list(each) for each in (*copies, other)] == [expected] * 3
    assert json.loads(copies[0].state_dict()["spdl"])["sources"][0]["epochs"][0]["high"] == 0


def test_only_a_resumable_loader_has_a_state() -> None:
    """Trainers call what they find."""
    plain = make(keyed(), resumable=False)
    for each in (plain, prefetch_to_device(plain, device="cpu"), CacheDataLoader(plain, 1, 1)):
        assert not hasattr(each, "state_dict")
        assert not hasattr(each, "load_state_dict")
    with pytest.raises(AttributeError, match="make it with resumable=True"):
        plain.state_dict()


def test_what_cannot_be_exact_is_refused_when_made() -> None:
    """With the stage and the cure, as a pipeline says it; ``"best-effort"`` accepts it."""

    class Last(Aggregator[Any, Any]):
        def accumulate(self, item: Any) -> Any:
            return [item]

        def flush(self) -> Any:
            return None

    with pytest.raises(ValueError, match="is_exact = True"):
        make(keyed(), batch_size=Last())
    loader = make(keyed(), batch_size=Last(), resumable="best-effort")
    assert json.loads(loader.state_dict()["spdl"])["approximate"]
    with pytest.raises(ValueError, match="is an iterator, which cannot restart"):
        make(iter(range(3)))
    with pytest.raises(ValueError, match="resumable must be"):
        make(keyed(), resumable="yes")


def test_the_state_of_another_loader_is_refused() -> None:
    """The loader is as before."""
    state = make(keyed(), batch_size=5).state_dict()
    loader = make(keyed())
    for bad in (state, {}, {"spdl": "{"}, make(keyed(1, 2)).state_dict()):
        with pytest.raises(ResumeError):
            loader.load_state_dict(bad)
    assert list(loader) == list(make(keyed()))


@pytest.mark.parametrize("world", [1, 2, 7])
def test_other_numbers_of_ranks(world: int) -> None:
    """States of two ranks, gathered: each of the items that are left comes once."""
    loaders = [make(keyed(rank, 2)) for rank in range(2)]
    taken = [item for loader in loaders for item in next(iter(loader))]
    state = resume.gather([loader.state_dict() for loader in loaders])
    for rank in range(world):
        loader = make(keyed(rank, world))
        loader.load_state_dict(state)
        taken += [item for batch in loader for item in batch]
    assert sorted(map(int, taken)) == list(range(SIZE))


def test_skipped_batches() -> None:
    """``resume.skip`` knows the batches of a loader."""
    loader = make(keyed())
    next(iter(loader))
    other = make(keyed())
    other.load_state_dict(resume.skip(loader.state_dict(), batches=range(1, 3)))
    expected = list(make(keyed()))
    assert list(other) == [expected[1], *expected[4:]]


def read_ahead(source: Any, num_taken: int, num_ahead: int) -> list[Any]:
    """What a prefetching thread does: it takes batches, of which the user gets some."""
    batches = iter(source)
    holding = hold(batches)
    assert isinstance(holding, Holding)
    taken = []
    for _ in range(num_taken + num_ahead):
        try:
            batch = next(batches)
        except StopIteration:
            batch = "end"
        taken.append((batch, holding.token()))
    for _, token in taken[:num_taken]:
        holding.commit(token)
    source.kept = batches
    return [batch for batch, _ in taken[:num_taken]]


@pytest.mark.parametrize("num_taken", [0, 2, NUM_BATCHES - 1, NUM_BATCHES, NUM_BATCHES + 1])
@pytest.mark.parametrize("kind", ["loader", "pipeline"])
def test_what_was_read_ahead_is_not_taken(kind: str, num_taken: int) -> None:
    """Also where the end of the epoch has been read ahead."""

    def made() -> Any:
        if kind == "loader":
            return make(keyed())
        builder = PipelineBuilder[Any, Any]().add_source(keyed()).pipe(str).aggregate(BATCH).add_sink()
        return builder.build(num_threads=1, resumable=True)

    source = made()
    taken = read_ahead(source, num_taken, min(2, NUM_BATCHES + 1 - num_taken))
    other = made()
    other.load_state_dict(source.state_dict())
    whole = list(make(keyed()))
    if num_taken <= NUM_BATCHES:
        assert taken + list(other) == whole
    elif kind == "loader":
        assert list(other) == whole
    else:
        assert json.loads(source.state_dict()["spdl"])["sources"][0]["ended"]


def test_states_pass_through_prefetching() -> None:
    """``prefetch_to_device`` and its pickled copies have the state of their loader."""
    loader = make(keyed())
    moved = pickle.loads(pickle.dumps(prefetch_to_device(loader, device="cpu")))
    taken = [next(iter(moved))]
    assert moved.state_dict() == moved.loader.state_dict() != loader.state_dict()
    other = prefetch_to_device(make(keyed()), device="cpu")
    other.load_state_dict(moved.state_dict())
    assert taken + list(other) == list(loader)


@pytest.mark.parametrize("num_taken", [0, 1, 3, 5, 9, 10])
def test_a_cached_loader_goes_on(num_taken: int) -> None:
    """While it loads, and while it repeats what it has."""

    def made() -> Any:
        return CacheDataLoader(make(keyed()), num_caches=2, return_caches_after=4, stop_after=9)

    loader = made()
    batches = iter(loader)
    taken = [batch for _, batch in zip(range(num_taken), batches, strict=False)]
    other = made()
    other.load_state_dict(loader.state_dict())
    assert other.state_dict() == loader.state_dict()
    whole = list(made())
    if num_taken <= 9:
        assert taken + list(other) == whole
    with pytest.raises(ResumeError, match="a state of a CacheDataLoader is needed, got one of a pipeline"):
        made().load_state_dict(make(keyed()).state_dict())
