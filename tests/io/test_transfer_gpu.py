"""Transfers on a CUDA device. ``pytest -m gpu`` runs these."""

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import spdl.io
from tests.io.pictures import make_jpeg
from tests.support.gpu import require_cuda

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch, with a device, which is that of this process."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return require_cuda()


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True, slots=True)
class Record:
    x: Any
    name: str


def layouts(torch: Any) -> dict[str, Any]:
    base = torch.arange(24, dtype=torch.float32)
    return {
        "plain": base,
        "bool": base > 5,
        "bfloat16": base.to(torch.bfloat16),
        "complex": torch.view_as_complex(base.reshape(12, 2)),
        "conjugate": torch.view_as_complex(base.reshape(12, 2)).conj(),
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 3),
        "transposed": base.reshape(4, 6).t(),
        "channels last": base.reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "with gaps": base[::2],
        "expanded": torch.ones(1).expand(4),
        "pinned": base.pin_memory(),
        "sparse": torch.eye(3).to_sparse(),
        "sparse rows": torch.eye(3).to_sparse_csr(),
        "gradient": torch.ones(2, requires_grad=True) * 2,
    }


def dense(tensor: Any) -> Any:
    return tensor if str(tensor.layout) == "torch.strided" else tensor.to_dense()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_arrive(torch: Any) -> None:
    """Though they have no shape."""
    [there] = spdl.io.transfer_tensor_h2d([torch.nested.nested_tensor([torch.zeros(3), torch.ones(2)])])
    assert there.is_nested
    assert there.is_cuda
    assert [part.tolist() for part in there.unbind()] == [[0, 0, 0], [1, 1]]


def test_tensors_arrive_as_torch_would_bring_them(torch: Any) -> None:
    """Values, types, strides, of every layout, there and back."""
    batch = layouts(torch)
    there = spdl.io.transfer_tensor_h2d(batch)
    back = spdl.io.transfer_tensor_d2h(there)
    for name, tensor in batch.items():
        expected = tensor.to("cuda:0")
        assert there[name].device == torch.device("cuda:0"), name
        assert there[name].layout == expected.layout, name
        if expected.layout == torch.strided:
            assert there[name].stride() == expected.stride(), name
        assert torch.equal(dense(there[name]), dense(expected)), name
        assert torch.equal(dense(back[name]), dense(tensor)), name


def test_containers_are_gone_through(torch: Any) -> None:
    """And keep their types; what is on a device already stays."""
    one, here = torch.ones(2), torch.ones(2, device="cuda")
    batch = [Pair(one, {"a": (one,)}), defaultdict(list, b=[one]), Record(one, "r"), here, "text", np.ones(2)]
    moved: Any = spdl.io.transfer_tensor_h2d(batch)
    assert moved[0].x is moved[0].y["a"][0] is moved[1]["b"][0] is moved[2].x
    assert moved[0].x.is_cuda
    assert moved[1].default_factory is list
    assert moved[2].name == "r"
    assert all(moved[k] is batch[k] for k in (3, 4, 5))


def test_what_comes_back_is_page_locked(torch: Any) -> None:
    """After what the producer's stream was given."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        tensor = torch.full((1000,), 3, device="cuda")
        event = stream.record_event()
    back = spdl.io.transfer_tensor_d2h({"x": tensor, "y": 1}, producer_event=event)
    assert back["x"].is_pinned()
    assert (back["x"] == 3).all()
    with pytest.raises(ValueError, match="stream must be on the source device"):
        spdl.io.transfer_tensor_d2h(tensor, device="cuda:0", stream=_Elsewhere(torch))  # type: ignore[arg-type,unused-ignore]
    with pytest.raises(RuntimeError, match="cuda:99"):
        spdl.io.transfer_tensor_d2h(tensor, device="cuda:99")


class _Elsewhere:
    """A stream of a device that need not be there."""

    def __init__(self, torch: Any) -> None:
        self.device = torch.device("cuda:1")


def test_staging_that_is_used_again_mixes_nothing_up(torch: Any) -> None:
    """Many batches of many sizes, from several threads."""
    failures: list[str] = []

    def transfer(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for k in range(50):
            sizes = torch.randint(1, 300_000, (3,), generator=generator).tolist()
            batch = [torch.randint(0, 255, (size,), dtype=torch.uint8, generator=generator) for size in sizes]
            moved = spdl.io.transfer_tensor_h2d(batch)
            for tensor in batch:
                tensor.zero_() if k % 2 else None  # its owner uses it again
            back = spdl.io.transfer_tensor_d2h(moved)
            if not k % 2 and not all(torch.equal(a, b) for a, b in zip(batch, back, strict=True)):
                failures.append(f"thread {seed}, batch {k}")

    threads = [threading.Thread(target=transfer, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("dtype", ["u1", "<f4", "<i8", "<u2", "?"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 3)])
def test_buffers_there_and_back(torch: Any, dtype: str, shape: tuple[int, ...]) -> None:
    """As an array of torch on the way."""
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    array.flags.writeable = False
    buffer = spdl.io.transfer_buffer(array, device_config=spdl.io.cuda_config(0))
    assert buffer.device_index == 0
    if dtype != "<u2":
        tensor = spdl.io.to_torch(buffer)
        assert tensor.device == torch.device("cuda:0")
        assert (tensor.cpu().numpy() == array).all()
    if dtype != "?":
        assert (spdl.io.to_numpy(spdl.io.transfer_buffer_cpu(buffer)) == array).all()


@pytest.mark.parametrize("stream", ["legacy", "own", "thread"])
def test_buffers_on_any_stream(torch: Any, stream: str) -> None:
    """They have arrived when they are returned."""
    own = torch.cuda.Stream()
    address = {"legacy": 0, "own": own.cuda_stream, "thread": 2}[stream]
    array = np.arange(1 << 20)
    buffer = spdl.io.transfer_buffer(array, device_config=spdl.io.cuda_config(0, address))
    assert (spdl.io.to_torch(buffer).cpu().numpy() == array).all()


def test_memory_of_the_users_allocator_is_given_back(torch: Any) -> None:
    """Once, with the last tensor over it."""
    given: list[int] = []
    returned: list[int] = []

    def allocate(num_bytes: int, device_index: int, stream: int) -> int:
        given.append(torch.cuda.caching_allocator_alloc(num_bytes, device_index))
        return given[-1]

    def give_back(address: int) -> None:
        returned.append(address)
        torch.cuda.caching_allocator_delete(address)

    config = spdl.io.cuda_config(0, allocator=(allocate, give_back))
    tensor = spdl.io.to_torch(spdl.io.transfer_buffer(np.arange(100), device_config=config))
    assert tensor.sum().item() == 4950
    assert returned == []
    del tensor
    assert given == returned


def test_loaders_put_results_on_the_device(torch: Any) -> None:
    """The same as on the CPU, with what is known of failures."""
    config = spdl.io.cuda_config(0)
    jpeg = make_jpeg(64, 48)
    there = spdl.io.to_torch(spdl.io.load_image(jpeg, device_config=config))
    assert there.is_cuda
    assert (there.cpu().numpy() == spdl.io.to_numpy(spdl.io.load_image(jpeg))).all()
    batch = spdl.io.load_image_batch([jpeg, b"", jpeg], width=32, height=32, strict=False, device_config=config)
    assert spdl.io.to_torch(batch).shape == (2, 32, 32, 3)
    assert [failure.index for failure in batch.failures] == [1]
