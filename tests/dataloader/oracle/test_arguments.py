"""Every combination of arguments that torch refuses is refused here, with the same type of exception."""

import itertools
import multiprocessing
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import RandomSampler

from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader

from .datasets import Numbers, as_list
from .loaders import ours, theirs
from .streams import SizedStream, Stream, shard

pytestmark = pytest.mark.filterwarnings("ignore:.*worker processes in total:UserWarning")

#: What each argument may be; the first is what torch takes for none given.
VALUES: dict[str, list[Any]] = {
    "dataset": [Numbers(), Stream(), SizedStream(), Numbers(0), [1, 2, 3], {0: "a", 1: "b"}],
    "batch_size": [1, 3, None, 0, -1, 2.5, "2", True],
    "shuffle": [None, False, True],
    "sampler": [None, [0, 1], RandomSampler(Numbers()), []],
    "batch_sampler": [None, [[0, 1]], []],
    "num_workers": [0, 1, 2, -1],
    "collate_fn": [None, as_list],
    "drop_last": [False, True],
    "timeout": [0, 5, 0.5, -1],
    "prefetch_factor": [None, 2, 1, -1],
    "persistent_workers": [False, True],
    "pin_memory": [False],
    "in_order": [True, False],
}


def ours_of(way: str) -> Any:
    """Our loader, with nothing chosen for the tests."""
    make: Any = get_pytorch_dataloader
    return partial(make, workers=way)


def outcome(make: Any, arguments: dict[str, Any]) -> Any:
    """The type of the exception, or what a user reads from the loader."""
    options = dict(arguments)
    try:
        loader = make(options.pop("dataset"), **options)
    except Exception as exc:
        return type(exc), exc
    try:
        length: Any = len(loader)
    except TypeError:
        length = None
    names = ("batch_size", "num_workers", "drop_last", "prefetch_factor", "persistent_workers", "in_order")
    return length, *(getattr(loader, name) for name in names)


def check(arguments: dict[str, Any], way: str) -> None:
    """Fail unless ours says what torch says."""
    arguments = {name: value for name, value in arguments.items() if value is not VALUES[name][0] or name == "dataset"}
    arguments.setdefault("num_workers", 0)

    expected = outcome(theirs, arguments)
    found = outcome(ours_of(way), arguments)
    if isinstance(expected[0], type):
        assert isinstance(found[0], type), (arguments, expected, found)
        assert issubclass(found[0], expected[0]), (arguments, expected, found)
    else:
        assert expected == found, (arguments, expected, found)


@pytest.mark.parametrize("way", ["thread", "process", "auto"])
@given(arguments=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}))
def test_any_combination_is_judged_as_by_torch(way: str, arguments: dict[str, Any]) -> None:
    """Refused with the same type, else made with the same length and attributes."""
    check(arguments, way)


NAMES = list(VALUES)
PAIRS = [
    {a: x, b: y}
    for a, b in itertools.combinations(NAMES, 2)
    for x in VALUES[a]
    for y in VALUES[b]
]  # fmt: skip


@pytest.mark.parametrize("way", ["thread", "process", "auto"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_any_two_arguments_are_judged_as_by_torch(way: str, num_workers: int) -> None:
    """All pairs of values of two arguments, the rest left out."""
    wrong = []
    for pair in PAIRS:
        try:
            check({"dataset": VALUES["dataset"][0], "num_workers": num_workers, **pair}, way)
        except AssertionError as exc:
            wrong.append(str(exc.args[0]).partition("\n")[0])
    assert wrong == [], f"{len(wrong)} pairs differ"


@pytest.mark.parametrize("way", ["thread", "process", "auto"])
def test_start_methods_are_checked(way: str) -> None:
    """An unknown name, an object that is none, one without workers."""
    for options in (
        {"multiprocessing_context": "teleport", "num_workers": 2},
        {"multiprocessing_context": 5, "num_workers": 2},
        {"multiprocessing_context": "fork", "num_workers": 0},
    ):
        expected = outcome(theirs, {"dataset": Numbers(), **options})
        found = outcome(ours_of(way), {"dataset": Numbers(), **options})
        assert isinstance(found[0], type), (options, found)
        if way != "thread":
            assert issubclass(found[0], expected[0]), (options, expected, found)


def test_threads_refuse_what_needs_processes() -> None:
    """With the reason, which names the other way."""
    for options in (
        {"worker_init_fn": shard},
        {"multiprocessing_context": "spawn"},
        {"multiprocessing_context": multiprocessing.get_context("spawn")},
    ):
        with pytest.raises(ValueError, match="process"):
            ours("thread", Numbers(), **options)


def test_the_way_to_load_is_one_of_three() -> None:
    """Or none, which is the contract of the reference."""
    unknown: Any = "fibre"
    with pytest.raises(ValueError, match="fibre"):
        get_pytorch_dataloader(Numbers(), workers=unknown)


@pytest.mark.parametrize("way", ["thread", "process", "auto"])
def test_attributes_are_those_of_torchs_loader(way: str) -> None:
    """All that trainers look at."""
    dataset, collate = Numbers(), as_list
    options: dict[str, Any] = {"batch_size": 3, "num_workers": 2, "collate_fn": collate, "drop_last": True}
    loader, expected = ours(way, dataset, **{**options, "timeout": 0}), theirs(dataset, **options)
    assert isinstance(loader, PyTorchDataLoader)
    for name in (
        "batch_size", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn", "generator",
        "prefetch_factor", "persistent_workers", "in_order",
    ):  # fmt: skip
        assert getattr(loader, name) == getattr(expected, name), name
    assert loader.dataset is dataset
    for name in ("sampler", "batch_sampler"):
        assert type(getattr(loader, name)) is type(getattr(expected, name)), name
    assert loader.batch_sampler.sampler is loader.sampler
    assert loader.multiprocessing_context is None


@pytest.mark.parametrize("way", ["thread", "process", "auto"])
@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({"batch_size": None}, {"batch_size": None, "batch_sampler": None}),
        ({"batch_sampler": [[1]]}, {"batch_size": None, "batch_sampler": [[1]]}),
        ({"sampler": [1, 2]}, {"sampler": [1, 2], "batch_size": 1}),
        ({"persistent_workers": True, "prefetch_factor": 4}, {"persistent_workers": True, "prefetch_factor": 4}),
    ],
)
def test_attributes_say_what_was_given(way: str, options: dict[str, Any], attributes: dict[str, Any]) -> None:
    """As torch's say it."""
    loader = ours(way, Numbers(), **options)
    expected = theirs(Numbers(), **{**options, "num_workers": 2})
    for name, value in attributes.items():
        assert getattr(loader, name) == getattr(expected, name) == value


@pytest.mark.parametrize("way", ["thread", "process", "auto"])
def test_defaults_are_torchs_but_for_the_workers(way: str) -> None:
    """Their number is chosen for the machine; explicit zero is zero."""
    make = ours_of(way)
    loader = make(Numbers())
    assert loader.num_workers >= 1
    assert (loader.batch_size, loader.in_order, loader.drop_last, loader.pin_memory) == (1, True, False, False)
    assert make(Numbers(), num_workers=0).num_workers == 0


def test_arguments_may_be_given_by_position() -> None:
    """In torch's order."""
    for way in ("thread", "process"):
        loader: Any = ours_of(way)(Numbers(), 2, True, None, None, 0, as_list, False, True)
        assert (loader.batch_size, loader.num_workers, loader.collate_fn, loader.drop_last) == (2, 0, as_list, True)
