"""Iterable datasets: each worker iterates its copy, and their batches come in turns."""

import warnings
from typing import Any

import pytest
from torch.utils.data import ChainDataset

from .datasets import as_list
from .loaders import FORKS, QUICK, Raised, numbers_of, ours, read, reading, theirs
from .streams import CountingStream, FailingStream, Sharded, SizedStream, Stream, Uneven, shard

pytestmark = pytest.mark.filterwarnings("ignore:.*worker processes in total:UserWarning")

STREAMS: dict[str, Any] = {
    "copies": Stream(),
    "sized": SizedStream(),
    "sharded": Sharded(0, 17),
    "sharded, few": Sharded(0, 1),
    "uneven": Uneven(),
    "empty": Stream(0, 0),
    "chained": ChainDataset([Stream(0, 3), Stream(10, 14)]),
}
SHAPES: list[dict[str, Any]] = [
    {"batch_size": 3},
    {"batch_size": 2, "drop_last": True},
    {"batch_size": None},
    {"batch_size": 1, "collate_fn": as_list},
]


@pytest.mark.parametrize("way", QUICK)
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("options", SHAPES)
def test_threads_give_each_sample_once(way: str, name: str, options: dict[str, Any]) -> None:
    """As torch does without workers; twice the same."""
    loader, expected = ours(way, STREAMS[name], **options), theirs(STREAMS[name], **options)
    for _ in range(2):
        assert numbers_of(read(loader)) == numbers_of(read(expected))


@FORKS
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("options", "num_workers"), [(SHAPES[0], 2), (SHAPES[1], 3), (SHAPES[2], 2)], ids=str)
def test_workers_take_turns_as_those_of_torch(name: str, options: dict[str, Any], num_workers: int) -> None:
    """Copies give everything several times; those exhausted drop out of the round."""
    loader = ours("process", STREAMS[name], num_workers=num_workers, **options)
    expected = theirs(STREAMS[name], num_workers=num_workers, **options)
    assert numbers_of(read(loader)) == numbers_of(read(expected))


@FORKS
def test_worker_init_fn_shards_the_copies() -> None:
    """As in torch's documentation."""
    options: dict[str, Any] = {"batch_size": 2, "num_workers": 2, "worker_init_fn": shard}
    expected = numbers_of(read(theirs(Stream(0, 11), **options)))
    assert numbers_of(read(ours("process", Stream(0, 11), **options))) == expected
    assert sorted(k for batch in expected for k in batch) == list(range(11))


@FORKS
@pytest.mark.parametrize("persistent_workers", [True, False])
def test_copies_of_persistent_workers_go_on(persistent_workers: bool) -> None:
    """Their state is kept from epoch to epoch; without, each epoch begins with a new copy."""
    options: dict[str, Any] = {
        "batch_size": 2, "num_workers": 2, "persistent_workers": persistent_workers, "collate_fn": as_list,
    }  # fmt: skip
    found = []
    for loader in (ours("process", CountingStream(), **options), theirs(CountingStream(), **options)):
        found.append([read(loader) for _ in range(3)])
    assert found[0] == found[1]
    del loader


@pytest.mark.parametrize("way", [*QUICK, "process"])
@pytest.mark.parametrize("batch_size", [2, None])
def test_errors_of_iterable_datasets_arrive(way: str, batch_size: int | None) -> None:
    """After what came before; the type is kept."""
    stream = FailingStream(5, ArithmeticError("broken stream"))
    steps = numbers_of(read(ours(way, stream, batch_size=batch_size)))
    assert Raised(ArithmeticError) in steps
    if way != "process":
        expected = numbers_of(read(theirs(stream, batch_size=batch_size)))
        first = expected.index(Raised(ArithmeticError))
        assert steps[: first + 1] == expected[: first + 1]


@pytest.mark.parametrize("way", [*QUICK, "process"])
def test_a_stream_is_over_after_its_error(way: str) -> None:
    """Reading on ends; it does not hang."""
    steps = read(ours(way, FailingStream(3, ArithmeticError("broken stream")), batch_size=None))
    assert steps.count(Raised(ArithmeticError)) == (2 if way == "process" else 1)


@pytest.mark.parametrize("way", [*QUICK, "process"])
def test_endless_streams_are_left_by_a_break(way: str) -> None:
    """And iterated again."""
    loader = ours(way, Stream(0, 10**12), batch_size=4)
    for _ in range(2):
        with reading(loader) as iterator:
            assert next(iterator).tolist() == [0, 1, 2, 3]


@FORKS
@pytest.mark.parametrize("way", [*QUICK, "process"])
def test_more_samples_than_told_are_warned_of(way: str) -> None:
    """Once ``len`` was asked, at the step that is one too many."""
    num_workers = 2 if way == "process" else 0

    def steps_until_warning(loader: Any, ask: bool) -> int:
        if ask:
            assert len(loader) == 3
        with warnings.catch_warnings(record=True) as caught, reading(loader) as iterator:
            warnings.simplefilter("always")
            for step, _ in enumerate(iterator):
                if any("Length of IterableDataset" in str(each.message) for each in caught):
                    return step
        return -1

    for ask in (True, False):
        assert steps_until_warning(ours(way, SizedStream(0, 7, 3), batch_size=1), ask) == steps_until_warning(
            theirs(SizedStream(0, 7, 3), batch_size=1, num_workers=num_workers), ask
        )


def test_auto_takes_processes_for_iterable_datasets() -> None:
    """Only there can a dataset share its work out."""
    loader = ours("auto", Sharded(0, 12), batch_size=3)
    assert sorted(k for batch in numbers_of(read(loader)) for k in batch) == list(range(12))
    assert "process" in str(loader.choice)
