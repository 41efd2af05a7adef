"""Torch tensors that cross to another process and back, and through explicit arenas."""

import gc
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool
from tests.support.leaving import iterate
from tests.support.regions import with_region
from tests.support.running import build_of, run

torch = pytest.importorskip("torch")

from tests.support import remote, remote_tensors  # noqa: E402
from tests.support.remote_tensors import TENSORS  # noqa: E402

pytestmark = pytest.mark.slow  # a child that imports torch takes a second or two


def check_same(tensor: Any, expected: Any) -> None:
    """Same type, dtype, shape, values, and what torch hangs on to them."""
    assert type(tensor) is type(expected)
    assert tensor.dtype == expected.dtype
    assert tensor.shape == expected.shape
    assert tensor.device == expected.device
    assert tensor.requires_grad == expected.requires_grad
    assert tensor.layout == expected.layout
    if tensor.layout != torch.strided:
        assert torch.equal(tensor.to_dense(), expected.to_dense())
    else:
        both = [each.detach().resolve_conj().resolve_neg().contiguous().reshape(-1) for each in (tensor, expected)]
        if both[0].numel():
            assert torch.equal(*(each.view(torch.uint8) for each in both))


def out() -> list[Any]:
    return list(iterate(partial(remote_tensors.made, list(TENSORS)), timeout=60))


def through_a_region() -> list[Any]:
    items = [make() for make in TENSORS.values()]
    return run(with_region(items, lambda b: b.pipe(remote_tensors.same), inputs=5, outputs=5))


def through_a_ring() -> list[Any]:
    arena = SharedMemoryRingBuffer(8_000_000)
    return list(iterate(partial(remote_tensors.made, list(TENSORS)), arena=arena, timeout=60))


def through_a_pool() -> list[Any]:
    arena = SharedMemorySegmentPool(4_000_000, len(TENSORS) + 1)
    return list(iterate(partial(remote_tensors.made, list(TENSORS)), arena=arena, timeout=60))


WAYS = {"out": out, "region": through_a_region, "ring": through_a_ring, "pool": through_a_pool}


@pytest.fixture(scope="module", params=list(WAYS))
def tensors(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What came, by name; one worker for all of them."""
    return dict(zip(TENSORS, WAYS[request.param](), strict=True))


@pytest.mark.parametrize("name", list(TENSORS))
def test_tensors_arrive_as_they_were(tensors: dict[str, Any], name: str) -> None:
    """Of every dtype, shape and order; views, parameters, those that need gradients."""
    check_same(tensors[name], TENSORS[name]())


@pytest.mark.parametrize("name", ["dtype torch.float32", "dtype torch.bfloat16", "order transposed"])
def test_tensors_that_arrived_are_used_like_others(tensors: dict[str, Any], name: str) -> None:
    """Written to, computed with, and resized if they were made of memory of their own."""
    tensor = tensors[name].clone()
    tensors[name].add_(1)
    assert torch.equal(tensors[name], tensor + 1)
    tensors[name].sub_(1)


def test_tensors_outlive_their_worker() -> None:
    """Also a view of one."""
    iterable = iterate(partial(remote.with_id_of_process, remote_tensors.batches(4)), timeout=60)
    pairs = [next(iter(iterable)) for _ in range(1)]
    tensor, pid = pairs.pop()
    del iterable, pairs
    gc.collect()
    remote.await_end(pid)
    row = tensor[3]
    del tensor
    gc.collect()
    assert bool((row == 0).all())


def test_containers_of_tensors() -> None:
    """As collate functions make them; what an item holds twice it holds twice there."""
    (item,) = iterate(remote_tensors.batch, timeout=60)
    images, labels, more = item["images"], item["labels"], item["more"]
    assert images.shape == (8, 3, 64, 64)
    assert images.dtype == torch.float32
    assert labels.tolist() == list(range(8))
    assert more[0] is images


def test_a_tensor_may_be_born_in_the_arena() -> None:
    """By ``torch.frombuffer``."""
    for k, tensor in enumerate(iterate(partial(remote_tensors.born, 6), timeout=60)):
        assert tensor.shape == (100_000,)
        assert bool((tensor == k).all())


SHARING: dict[str, Any] = {
    "out": lambda: list(iterate(remote_tensors.sharing, timeout=60)),
    "region": lambda: run(with_region(list(remote_tensors.sharing()), lambda b: b.pipe(remote_tensors.same))),
    "isolated": lambda: run(
        build_of(list(remote_tensors.sharing()), lambda b: b.pipe(remote_tensors.same, isolate=True))
    ),
    "ring": lambda: list(iterate(remote_tensors.sharing, arena=SharedMemoryRingBuffer(1_000_000), timeout=60)),
    "pool": lambda: list(iterate(remote_tensors.sharing, arena=SharedMemorySegmentPool(1_000_000, 4), timeout=60)),
}


@pytest.mark.parametrize("way", SHARING)
def test_tensors_of_an_item_stay_together(way: str) -> None:
    """Views of one storage, with their strides, whichever way they go."""
    items = SHARING[way]()
    assert len(items) == 2
    for one, other, expanded in items:
        assert expanded.stride() == (0, 1)
        one[-1] = 7
        assert other[19] == 7
        one[0] = 3
        assert bool((expanded == 3).all())
    del items, one, other, expanded
    gc.collect()
