"""Batches go through page-locked memory that is kept, and is written again only after it was fetched."""

from collections import deque
from typing import Any

import pytest

from spdl.io._devices._staging import Mover, Staging, dense_parts, record_use
from tests.support.fake_cuda import FakeTorch

torch = pytest.importorskip("torch")


def mover_of(fake: FakeTorch, num_stagings: int = 2) -> Mover:
    return Mover(fake, fake.the_device, deque(Staging(fake) for _ in range(num_stagings)))


def tensors() -> dict[str, Any]:
    """Of every layout of dense memory."""
    base = torch.arange(24, dtype=torch.float32)
    return {
        "plain": base,
        "int64": torch.arange(5),
        "bool": torch.tensor([True, False, True]),
        "bfloat16": base.to(torch.bfloat16),
        "complex": torch.view_as_complex(base.reshape(12, 2)),
        "conjugate": torch.view_as_complex(base.reshape(12, 2)).conj(),
        "scalar": torch.tensor(3.5),
        "transposed": base.reshape(4, 6).t(),
        "channels last": base.reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "with gaps": base[::2],
        "expanded": torch.ones(1).expand(4),
        "window": base.reshape(4, 6)[1:3, 2:4],
    }


@pytest.mark.parametrize("name", list(tensors()))
def test_a_copy_has_values_and_strides_as_torch_gives_them(name: str) -> None:
    """As ``Tensor.to`` another device: dense strides stay, gaps and overlaps go."""
    tensor = tensors()[name]
    staging = Staging(FakeTorch())
    staging.begin()
    copied = staging.put(tensor)
    assert copied.dtype == tensor.dtype
    assert copied.shape == tensor.shape
    assert copied.stride() == torch.empty_like(tensor, device="meta").stride()
    assert torch.equal(copied, tensor.resolve_conj())
    assert copied.data_ptr() % tensor.element_size() == 0


def test_tensors_of_a_batch_do_not_overlap() -> None:
    """However many there are."""
    staging = Staging(FakeTorch())
    for _ in range(3):
        staging.begin()
        copies = [(staging.put(tensor), tensor) for tensor in tensors().values()]
        assert all(torch.equal(copied, tensor.resolve_conj()) for copied, tensor in copies)


def test_memory_is_allocated_for_the_largest_batch_and_kept() -> None:
    """Batches that are no larger allocate nothing."""
    fake = FakeTorch()
    staging = Staging(fake)
    megabyte = torch.zeros(1 << 20, dtype=torch.uint8)
    staging.begin()
    for _ in range(3):
        staging.put(megabyte)
    assert fake.num_pinned == 3
    staging.begin()  # one block in place of three
    assert fake.num_pinned == 4
    for num_tensors in (3, 1, 2, 3):
        staging.begin()
        for _ in range(num_tensors):
            staging.put(megabyte)
    assert fake.num_pinned == 4


def test_what_the_device_may_still_read_is_not_written() -> None:
    """Two batches are on their way at most; the third waits for the first."""
    fake = FakeTorch()
    mover = mover_of(fake)
    for _ in range(4):
        mover.move([torch.ones(3)])
    assert fake.notes == [
        "stream 1 records event 1",
        "stream 1 records event 2",
        "host waits for event 1",
        "stream 1 records event 3",
        "host waits for event 2",
        "stream 1 records event 4",
    ]


def test_a_tensor_that_is_there_twice_is_moved_once() -> None:
    """And stays one tensor."""
    fake = FakeTorch()
    tensor = torch.ones(3)
    moved = mover_of(fake).move({"a": tensor, "b": [tensor, torch.ones(3)]})
    assert moved.batch["a"] is moved.batch["b"][0]
    assert len(moved.tensors) == 2


def test_what_is_no_plain_memory_goes_as_torch_moves_it() -> None:
    """Sparse, quantized, empty, of a subclass, with a gradient; what is elsewhere already, or no tensor, stays."""
    fake = FakeTorch()
    meta = torch.empty(3, device="meta")
    batch = {
        "sparse": torch.eye(3).to_sparse(),
        "empty": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "gradient": torch.ones(2, requires_grad=True) * 2,
    }
    moved = mover_of(fake).move({**batch, "meta": meta, "other": [1, "a", None]})
    for name, tensor in batch.items():
        assert moved.batch[name].device.type == "meta"
        assert moved.batch[name].shape == tensor.shape
        assert moved.batch[name].layout == tensor.layout
        assert moved.batch[name].requires_grad == tensor.requires_grad
    assert moved.batch["meta"] is meta
    assert moved.batch["other"] == [1, "a", None]
    assert fake.num_pinned == 0
    assert not moved.is_borrowing


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_left_to_torch() -> None:
    """Nobody asks for the shape that they do not have. What stands for CUDA here has no nested tensors."""
    nested = torch.nested.nested_tensor([torch.zeros(3), torch.ones(2)])
    with pytest.raises(NotImplementedError, match="NestedTensorMeta"):
        mover_of(FakeTorch()).move([nested])


def test_packed_sequences_keep_their_lengths_on_the_cpu() -> None:
    """As torch wants them."""
    fake = FakeTorch()
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    moved = mover_of(fake).move([packed])
    assert moved.batch[0].data.device.type == "meta"
    assert moved.batch[0].batch_sizes.device.type == "cpu"
    assert [part.device.type for part in dense_parts(moved.batch[0])] == ["meta"]


def test_an_exception_halfway_leaves_nothing_under_way() -> None:
    """Memory that was handed over to be copied is waited for, and the mover goes on."""

    class Sealed(tuple[Any, ...]):
        def __new__(cls, *values: Any) -> "Sealed":
            return super().__new__(cls, values)

    fake = FakeTorch()
    mover = mover_of(fake)
    with pytest.raises(TypeError, match="Sealed"):
        mover.move([torch.ones(3), Sealed(torch.ones(3), 1)])
    assert fake.notes == ["host waits for stream 1"]
    mover.move([torch.ones(3)])
    assert fake.notes[1:] == ["stream 1 records event 1"]


def test_memory_can_be_used_again_in_and_out_of_inference_mode() -> None:
    """Memory made in inference mode could not be written outside of it."""
    staging = Staging(FakeTorch())
    with torch.inference_mode():
        staging.begin()
        staging.put(torch.ones(2))
    staging.begin()
    assert staging.put(torch.ones(2)).tolist() == [1, 1]
    with torch.inference_mode():
        staging.begin()
        made_here = staging.put(torch.ones(2))
    assert made_here.tolist() == [1, 1]


def test_parts_of_sparse_tensors_are_found() -> None:
    """Each of them has memory of its own."""
    dense = torch.eye(4)
    assert len(dense_parts(dense)) == 1
    assert len(dense_parts(dense.to_sparse())) == 2


def test_movers_may_share_staging() -> None:
    """What one has filled, the other waits for; there are no more than were needed at once."""
    fake = FakeTorch()
    stagings: deque[Staging] = deque()
    movers = [Mover(fake, fake.the_device, stagings) for _ in range(2)]
    for mover in movers * 2:
        mover.move([torch.ones(3)])
    assert len(stagings) == fake.num_pinned == 1
    assert fake.notes[:3] == ["stream 1 records event 1", "host waits for event 1", "stream 2 records event 2"]


def test_use_on_another_stream_is_recorded_where_torch_can() -> None:
    """The rest is given back, to be kept alive."""

    class Told:
        layout = torch.strided

        def __init__(self, error: Exception | None = None) -> None:
            self.streams: list[Any] = []
            self._error = error

        def record_stream(self, stream: Any) -> None:
            if self._error is not None:
                raise self._error
            self.streams.append(stream)

    plain, odd = Told(), Told(NotImplementedError("record_stream"))
    stream = object()
    assert record_use([plain, odd], stream) == [odd]
    assert plain.streams == [stream]
