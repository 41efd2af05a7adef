"""Batches and single samples of every type, as torch makes them. One run for each way carries all cases."""

from typing import Any

import pytest
import torch

from .datasets import FailingCollate, Numbers, as_list, padded, with_type
from .loaders import ALL, QUICK, check_same, ours, read, theirs
from .samples import COLLATED, CONVERTED, Made

pytestmark = pytest.mark.filterwarnings("ignore:.*(nested tensors|[Ss]parse).*:UserWarning")

NUM_SAMPLES = 4


#: What torch's workers refuse and torch without workers takes: their ``stack`` writes into shared memory.
WITHOUT_WORKERS = ("tensor that needs gradients", "tensors of other dtypes")


@pytest.fixture(scope="module")
def batches_of_torch() -> dict[str, Any]:
    return dict(zip(COLLATED, read(theirs(Made(), batch_sampler=batches())), strict=True))


@pytest.fixture(scope="module", params=ALL)
def batches_of_ours(request: pytest.FixtureRequest) -> dict[str, Any]:
    found = dict(zip(COLLATED, read(ours(request.param, Made(), batch_sampler=batches())), strict=True))
    return found if request.param in QUICK else {k: v for k, v in found.items() if k not in WITHOUT_WORKERS}


@pytest.fixture(scope="module")
def samples_of_torch() -> dict[str, Any]:
    return dict(zip(CONVERTED, read(theirs(Made(), batch_size=None, sampler=singles())), strict=True))


@pytest.fixture(scope="module", params=ALL)
def samples_of_ours(request: pytest.FixtureRequest) -> dict[str, Any]:
    found = dict(zip(CONVERTED, read(ours(request.param, Made(), batch_size=None, sampler=singles())), strict=True))
    return found if request.param in QUICK else {k: v for k, v in found.items() if k not in WITHOUT_WORKERS}


def batches() -> list[list[tuple[str, int]]]:
    return [[(name, k) for k in range(NUM_SAMPLES)] for name in COLLATED]


def singles() -> list[tuple[str, int]]:
    return [(name, 2) for name in CONVERTED]


@pytest.mark.parametrize("name", COLLATED)
def test_batches_are_those_of_torch(
    name: str, batches_of_ours: dict[str, Any], batches_of_torch: dict[str, Any]
) -> None:
    """Of the same types all the way down; what torch refuses is refused with the same type of exception."""
    if name in batches_of_ours:
        check_same(batches_of_ours[name], batches_of_torch[name])


@pytest.mark.parametrize("name", CONVERTED)
def test_samples_are_those_of_torch(
    name: str, samples_of_ours: dict[str, Any], samples_of_torch: dict[str, Any]
) -> None:
    """Without batches nothing is stacked; arrays become tensors. What comes from a process may be packed on the way."""
    if name in samples_of_ours:
        check_same(samples_of_ours[name], samples_of_torch[name], strides=False)


def test_batches_can_be_written_to(batches_of_ours: dict[str, Any]) -> None:
    """They belong to whoever took them: in place, and resized."""
    for name in ("tensor", "tensor large", "tensor uint8", "array", "int8", "float"):
        batch = batches_of_ours[name].clone()
        batches_of_ours[name].add_(1)
        assert torch.equal(batches_of_ours[name], batch + 1), name
        batches_of_ours[name].sub_(1)
    tensor = batches_of_ours["dict"]["image"]
    assert tensor.numpy().flags.writeable


COLLATES = {"list": as_list, "padded": padded, "type": with_type, "failing": FailingCollate(4)}


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("name", COLLATES)
def test_own_collate_functions_make_the_batches(way: str, name: str) -> None:
    """Whatever they return, or raise."""
    options: dict[str, Any] = {"collate_fn": COLLATES[name], "batch_size": 3}
    check_same(read(ours(way, Numbers(10), **options)), read(theirs(Numbers(10), **options)))


@pytest.mark.parametrize("way", ALL)
def test_own_collate_functions_get_single_samples_without_batches(way: str) -> None:
    """As torch calls them."""
    options: dict[str, Any] = {"collate_fn": with_type, "batch_size": None}
    check_same(read(ours(way, Numbers(4), **options)), read(theirs(Numbers(4), **options)))
