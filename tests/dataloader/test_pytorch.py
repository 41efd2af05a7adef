"""``get_pytorch_dataloader``: its arguments and what the loader shows, without any worker."""

import copy
import dataclasses
import inspect
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)

from spdl._cpus import usable_cpus  # noqa: E402
from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader  # noqa: E402
from spdl.dataloader._torch._arguments import Arguments  # noqa: E402

NUMBERS = list(range(10))
SAME = [
    *("dataset", "batch_size", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn"),
    *("generator", "prefetch_factor", "persistent_workers", "in_order"),
]


class Stream(IterableDataset[int]):
    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def test_signature_and_arguments_have_the_same_names() -> None:
    """``Arguments`` is the only other list of them; ``shuffle`` is in the sampler, as with torch's loader."""
    names = {field.name for field in dataclasses.fields(Arguments)}
    assert names == set(inspect.signature(get_pytorch_dataloader).parameters)
    loader = get_pytorch_dataloader(NUMBERS, workers="thread")
    assert {name for name in names if not hasattr(loader, name)} == {"shuffle"}
    assert not dataclasses.is_dataclass(loader), "trainers take dataclasses apart"


def init(worker: int) -> None:
    pass


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"shuffle": True, "num_workers": 2},
        {"sampler": [3, 1], "num_workers": 2, "prefetch_factor": 5, "persistent_workers": True},
        {"batch_sampler": [[3, 1]]},
        {"timeout": 4, "num_workers": 1, "in_order": False},
        {"collate_fn": tuple, "pin_memory": True},
        {"worker_init_fn": init, "multiprocessing_context": "spawn", "num_workers": 1},
    ],
)
def test_attributes_are_those_of_torchs_loader(options: dict[str, Any]) -> None:
    """Code that looks at a loader finds what it expects."""
    expected = DataLoader(NUMBERS, **options)  # type: ignore[arg-type, var-annotated]
    found = get_pytorch_dataloader(NUMBERS, **{"num_workers": 0, **options}, workers="process")
    for name in SAME:
        assert getattr(found, name) == getattr(expected, name), name
    for name in ("sampler", "batch_sampler", "multiprocessing_context"):
        assert type(getattr(found, name)).__name__ == type(getattr(expected, name)).__name__, name
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": -1},
        {"persistent_workers": True},
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "sampler": [1]},
        {"batch_sampler": [[1]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"batch_size": "3"},
        {"multiprocessing_context": "spawn"},
        {"multiprocessing_context": "teleport", "num_workers": 1},
        {"multiprocessing_context": 3, "num_workers": 1},
        {"dataset": Stream(), "shuffle": True},
        {"dataset": Stream(), "sampler": [1]},
        {"dataset": Stream(), "batch_sampler": [[1]]},
        {"dataset": iter(NUMBERS), "shuffle": True},
    ],
)
def test_what_torch_refuses_is_refused_with_the_same_type(options: dict[str, Any]) -> None:
    """When the loader is made, not when it is iterated."""
    options = {"dataset": NUMBERS, **options}
    with pytest.raises(Exception) as theirs:
        DataLoader(**options)
    with pytest.raises(type(theirs.value)):
        get_pytorch_dataloader(**{"num_workers": 0, **options}, workers="process")


def test_no_prefetching_is_refused() -> None:
    """torch accepts it and fails an assertion when it is iterated; both types catch ours."""
    for error in (ValueError, AssertionError):
        with pytest.raises(error, match="prefetch_factor must be >= 1, got 0"):
            get_pytorch_dataloader(NUMBERS, workers="thread", num_workers=1, prefetch_factor=0)


@pytest.mark.parametrize("workers", [None, "thread", "process"])
def test_arguments_of_the_wrong_type_are_refused_by_name(workers: Any) -> None:
    """A collate function that cannot be called would drop every batch."""
    for options, message in (
        ({"prefetch_factor": "2"}, "prefetch_factor must be an int, got '2' of type str"),
        ({"collate_fn": 5}, "collate_fn must be callable or None, got an object of type int"),
    ):
        with pytest.raises(TypeError, match=message):
            get_pytorch_dataloader(NUMBERS, workers=workers, num_workers=1, **options)  # type: ignore[arg-type]


def test_what_threads_cannot_do_is_refused_with_the_reason() -> None:
    """And the message names what can."""
    with pytest.raises(ValueError, match=r"worker_init_fn needs worker processes: .* pass workers='process'"):
        get_pytorch_dataloader(NUMBERS, workers="thread", worker_init_fn=init)
    with pytest.raises(ValueError, match=r"multiprocessing_context needs worker processes, .* pass workers='process'"):
        get_pytorch_dataloader(NUMBERS, workers="thread", multiprocessing_context="spawn")
    with pytest.raises(ValueError, match="'thread', 'process', 'auto' or None, got 'threads'"):
        get_pytorch_dataloader(NUMBERS, workers="threads")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": Stream()}, "IterableDataset is not supported: pass workers='process'"),
        ({"worker_init_fn": init}, "worker_init_fn is not supported: pass workers='process'"),
        ({"pin_memory_device": "cuda"}, "pin_memory_device is not supported: pass workers='process'"),
        ({"persistent_workers": True}, "persistent_workers is not supported: pass workers='process'"),
        ({"timeout": -1}, "timeout must be >= 0"),
        ({"num_workers": -1}, "num_workers must be >= 0"),
        ({"worker_init_concurrency": 0}, "worker_init_concurrency must be >= 1, got 0"),
        ({"sampler": [1], "batch_sampler": [[1]], "batch_size": None}, "sampler and batch_sampler exclude"),
        ({"batch_sampler": [[1]]}, "batch_size and batch_sampler exclude each other: pass batch_size=None"),
        ({"batch_sampler": [[1]], "batch_size": None, "shuffle": True}, "shuffle excludes sampler and batch_sampler"),
        ({"sampler": [1], "shuffle": True}, "shuffle excludes sampler and batch_sampler"),
        ({"batch_sampler": [[1]], "batch_size": None, "drop_last": True}, "drop_last excludes batch_sampler"),
        ({"batch_size": None, "drop_last": True}, "drop_last needs batches"),
    ],
)
def test_without_workers_the_older_rules_hold(options: dict[str, Any], message: str) -> None:
    """What SPDL 0.8 refuses is refused, and the message names the way out where there is one."""
    with pytest.raises(ValueError, match=message):
        get_pytorch_dataloader(**{"dataset": NUMBERS, **options})


def test_without_workers_the_older_defaults_hold() -> None:
    """One worker, completion order, and a warning where no workers are asked for."""
    loader = get_pytorch_dataloader(NUMBERS)
    assert (loader.workers, loader.num_workers, loader.in_order, loader.prefetch_factor) == (None, 1, False, 2)
    with pytest.warns(UserWarning, match="num_workers=0") as caught:
        assert get_pytorch_dataloader(NUMBERS, num_workers=0).num_workers == 1
    assert caught[0].filename == __file__
    assert len(get_pytorch_dataloader(NUMBERS, sampler=[])) == 0, "a sampler that is empty is one all the same"


def test_defaults_are_torchs_but_for_the_number_of_workers() -> None:
    """As many as there are CPUs, in order."""
    loader = get_pytorch_dataloader(NUMBERS, workers="thread")
    assert (loader.num_workers, loader.in_order, loader.batch_size) == (usable_cpus(), True, 1)
    assert loader.collate_fn is default_collate
    assert isinstance(loader.sampler, SequentialSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
    unbatched = get_pytorch_dataloader(NUMBERS, None, True, workers="thread")
    assert unbatched.collate_fn is default_convert
    assert isinstance(unbatched.sampler, RandomSampler)


def test_length_of_iterable_datasets_is_counted_in_batches() -> None:
    """As torch counts them."""
    for batch_size, drop_last in ((3, False), (3, True), (5, True), (None, False)):
        expected = DataLoader(Stream(), batch_size, drop_last=drop_last)
        assert len(get_pytorch_dataloader(Stream(), batch_size, drop_last=drop_last, workers="thread")) == len(expected)


def test_set_epoch_tells_each_part_once() -> None:
    """The sampler, or the one in the batch sampler, and the dataset: whichever wants to know."""
    told = []

    class Part(list[int]):
        def set_epoch(self, epoch: int) -> None:
            told.append((id(self), epoch))

    dataset, sampler = Part(NUMBERS), Part([1, 2])
    get_pytorch_dataloader(dataset, sampler=sampler, workers="thread").set_epoch(3)
    assert told == [(id(sampler), 3), (id(dataset), 3)]
    told.clear()
    batches = BatchSampler(sampler, 2, False)
    get_pytorch_dataloader(NUMBERS, batch_sampler=batches, workers="thread").set_epoch(4)
    assert told == [(id(sampler), 4)]


def test_parts_are_fixed_as_in_torchs_loader() -> None:
    """What batches are made of cannot be replaced; the rest can, for the next epoch."""
    loader = get_pytorch_dataloader(NUMBERS, 5, workers="thread", num_workers=1)
    for name in ("dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} cannot be replaced"):
            setattr(loader, name, None)
    loader.collate_fn = sum
    loader.num_workers = 0
    assert list(loader) == [10, 35]


def test_loader_is_pickled_and_copied() -> None:
    """With all its settings, and nothing that runs."""
    loader = get_pytorch_dataloader(NUMBERS, 5, workers="thread", num_workers=2, collate_fn=sum)
    held = iter(loader)
    for other in (pickle.loads(pickle.dumps(loader)), copy.copy(loader), copy.deepcopy(loader)):
        assert isinstance(other, PyTorchDataLoader)
        assert list(other) == [10, 35]
        with pytest.raises(ValueError, match="dataset cannot be replaced"):
            other.dataset = None
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(held)
    assert list(held) == [10, 35]


def test_repr_says_what_and_how() -> None:
    """Enough to tell two loaders apart in a log."""
    loader = get_pytorch_dataloader(NUMBERS, 5, workers="thread", num_workers=2)
    assert repr(loader) == "PyTorchDataLoader(list, batch_size=5, num_workers=2, workers='thread')"
    loader = get_pytorch_dataloader(NUMBERS, batch_sampler=[[1]], workers="process", num_workers=2)
    assert repr(loader) == "PyTorchDataLoader(list, batch_sampler=list, num_workers=2, workers='process')"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an accelerator to pin for")
def test_pinning_without_an_accelerator_warns_and_goes_on() -> None:
    """As torch: a UserWarning for each epoch, and batches that are not pinned."""
    loader = get_pytorch_dataloader(NUMBERS, 10, workers="thread", num_workers=1, pin_memory=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="no accelerator is found") as caught:
            (batch,) = loader
        assert caught[0].filename == __file__
        assert not batch.is_pinned()


def test_pin_memory_device_is_said_to_have_no_effect() -> None:
    """torch has deprecated it."""
    loader = get_pytorch_dataloader(NUMBERS, 10, workers="thread", pin_memory=True, pin_memory_device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(loader)
    assert any("ignore pin_memory_device='cuda'" in str(each.message) for each in caught)
