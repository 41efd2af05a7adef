"""Transfers and ``prefetch_to_device`` on a machine without a GPU: what is refused, and what passes unchanged."""

import collections
import gc
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from spdl import io
from spdl.dataloader import DataLoader, prefetch_to_device

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


class Pair(NamedTuple):
    x: Any
    y: Any


class Loader:
    """Batches of every kind; remembers what it was told."""

    colour = "blue"

    def __init__(self, size: int = 3) -> None:
        self.batches = [Pair(torch.ones(2) * k, {"k": [k], "a": np.arange(2)}) for k in range(size)]
        self.epochs: list[int] = []
        self.num_closed = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.batches
        finally:
            self.num_closed += 1

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_without_a_device_batches_pass_unchanged(device: Any) -> None:
    """The very objects, in order, again and again."""
    loader = Loader()
    moved = prefetch_to_device(loader, device=device)
    for _ in range(3):
        assert all(one is other for one, other in zip(moved, loader.batches, strict=True))
    assert loader.num_closed == 3


def test_length_epochs_and_attributes_are_those_inside() -> None:
    """So that a trainer does not see the difference."""
    loader = Loader(5)
    moved: Any = prefetch_to_device(loader)
    assert len(moved) == 5
    moved.set_epoch(3)
    assert loader.epochs == [3]
    assert moved.colour == "blue"
    with pytest.raises(AttributeError, match="flavour"):
        moved.flavour  # noqa: B018 - reading it is the test
    with pytest.raises(TypeError):
        len(prefetch_to_device(iter([])))  # type: ignore[arg-type,unused-ignore]
    prefetch_to_device([1]).set_epoch(3)


def test_failures_arrive_unchanged() -> None:
    """The very exception, after what came before."""
    error = LookupError("gone")

    def broken() -> Iterator[int]:
        yield 1
        raise error

    iterator = iter(prefetch_to_device(broken()))
    assert next(iterator) == 1
    with pytest.raises(LookupError) as caught:
        next(iterator)
    assert caught.value is error


def test_a_broken_loop_closes_the_loader_inside() -> None:
    """And leaves no thread."""
    loader = Loader()
    before = set(threading.enumerate())
    for _ in prefetch_to_device(loader):
        break
    gc.collect()
    assert loader.num_closed == 1
    assert set(threading.enumerate()) <= before


def test_loaders_of_ours_can_be_inside() -> None:
    """A pipeline ends with the loop."""
    moved: Any = prefetch_to_device(DataLoader(range(10), batch_size=4, timeout=100))
    assert list(moved) == list(moved) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    for _ in moved:
        break


@pytest.mark.parametrize("num_prefetch", [0, -1])
def test_prefetching_less_than_one_is_refused(num_prefetch: int) -> None:
    """When it is made."""
    with pytest.raises(ValueError, match="num_prefetch"):
        prefetch_to_device([1], num_prefetch=num_prefetch)


def test_a_gpu_that_is_not_there_is_told() -> None:
    """At the latest at the first batch; a word that is no device at once or then."""
    with pytest.raises(RuntimeError):
        list(prefetch_to_device(Loader(), device="cuda:0"))
    with pytest.raises((RuntimeError, ValueError)):
        list(prefetch_to_device(Loader(), device="toaster"))


# -- transfers


def test_to_the_device_needs_one() -> None:
    """Rank beyond the GPUs there are: a RuntimeError, also for what has no tensor in it."""
    with pytest.raises(RuntimeError):
        io.transfer_tensor_h2d(torch.ones(2))
    with pytest.raises(RuntimeError):
        io.transfer_tensor_h2d({"a": [torch.ones(2)]}, num_caches=2)


def test_the_old_name_warns_first() -> None:
    """Of what is to be called instead."""
    with pytest.warns(FutureWarning, match="transfer_tensor_h2d"), pytest.raises(RuntimeError):
        io.transfer_tensor(torch.ones(2))


def test_the_way_back_returns_its_input() -> None:
    """Without CUDA there is nothing to bring."""
    batches: list[Any] = [torch.ones(2), [torch.ones(2)], {"a": 1}, Pair(1, 2), collections.defaultdict(list), None]
    for batch in batches:
        assert io.transfer_tensor_d2h(batch) is batch


def test_arguments_of_the_way_back_are_checked_first() -> None:
    """A stream without a device, a device that is not CUDA."""
    stream: Any = object()
    with pytest.raises(ValueError, match="device"):
        io.transfer_tensor_d2h(torch.ones(2), stream=stream)
    for device in ("cpu", torch.device("cpu"), "meta"):
        with pytest.raises(ValueError):
            io.transfer_tensor_d2h(torch.ones(2), device=device)


def test_ranks_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that no GPU has is told, with its number."""
    monkeypatch.setenv("LOCAL_RANK", "7")
    with pytest.raises(RuntimeError, match="7"):
        io.transfer_tensor_h2d(torch.ones(2))


def test_buffers_need_a_device_too() -> None:
    """``DeviceError`` names what is missing; wrong arguments are told before that."""
    config = io.cuda_config(0)
    assert "0" in repr(config)
    with pytest.raises(io.DeviceError):
        io.transfer_buffer(np.zeros(4, dtype=np.uint8), device_config=config)
    wrong: Any = "text"
    with pytest.raises((TypeError, ValueError)):
        io.transfer_buffer(wrong, device_config=config)
    with pytest.raises((TypeError, ValueError)):
        io.transfer_buffer(np.zeros((4, 4), dtype=np.uint8)[:, ::2], device_config=config)
    with pytest.raises(TypeError):
        io.transfer_buffer(np.zeros(4, dtype=np.uint8), device_config=wrong)
    with pytest.raises(TypeError):
        io.transfer_buffer_cpu(wrong)
    assert issubclass(io.DeviceError, RuntimeError)


def test_importing_loads_no_torch() -> None:
    """Neither the loaders nor their names."""
    from tests.support.child import run_child

    run_child("""
        import sys
        import spdl.dataloader, spdl.io
        from spdl.dataloader import *
        from spdl.dataloader import prefetch_to_device, DataLoader, CacheDataLoader, get_pytorch_dataloader
        from spdl.io import transfer_tensor_h2d, transfer_tensor_d2h, transfer_buffer, cuda_config
        print("torch" in sys.modules)
    """).check("False")
