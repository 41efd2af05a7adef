"""torch tensors across processes. torch is not needed for any other test, so these skip without it."""

import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from spdl._processes._transport._pickling import Encoder, decode, encode

torch: Any = pytest.importorskip("torch")

DTYPES = [
    *("uint8", "int8", "int16", "int32", "int64", "bool"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]


def cross(value: Any) -> Any:
    encoded = encode(value)
    buffers = [bytearray(pickle.PickleBuffer(each).raw()) for each in encoded.buffers]
    return decode(encoded.form, encoded.head, buffers, encoded.num_deep)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (50, 100), (2, 3, 40, 50)])
def test_every_dtype_and_shape_crosses(dtype: str, shape: tuple[int, ...]) -> None:
    """Equal values, dtype, shape and strides; large ones out of the stream."""
    tensor = (torch.rand(shape) * 100).to(getattr(torch, dtype))
    encoded = encode([tensor])
    assert len(encoded.buffers) == (tensor.numel() * tensor.element_size() >= 4096)
    [arrived] = cross([tensor])
    assert (arrived.dtype, arrived.shape, arrived.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert torch.equal(arrived, tensor)
    arrived.fill_(1)  # writable


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.permute(0, 2, 3, 1),
        lambda t: t.to(memory_format=torch.channels_last),
        lambda t: t[:, ::2],
        lambda t: t[:, :1].expand(2, 8, 40, 50),
        lambda t: t[1:],
        lambda t: t.flip(0),
        lambda t: torch.complex(t, t).conj(),
        lambda t: torch.complex(t, t).imag,
    ],
    ids=["permuted", "channels_last", "strided", "expanded", "offset", "flipped", "conj", "imag"],
)
def test_views_cross(make: Any) -> None:
    """With their strides."""
    tensor = make(torch.rand(2, 3, 40, 50))
    [arrived] = cross([tensor])
    assert torch.equal(arrived, tensor)
    assert arrived.stride() == tensor.stride()


def size_of(value: Any) -> int:
    """Number of bytes that cross."""
    encoded = encode(value)
    return len(encoded.head) + sum(pickle.PickleBuffer(each).raw().nbytes for each in encoded.buffers)


BASE = torch.arange(1_000_000, dtype=torch.float32)
#: Tensors, and the number of bytes of the memory that they use.
SIZES: dict[str, tuple[Callable[[], Any], int]] = {
    "expanded": (lambda: torch.ones(1, 5000).expand(1000, 5000), 20_000),
    "expanded, small": (lambda: torch.ones(1, 5).expand(1000, 5), 20),
    "windows": (lambda: BASE[:10_000].unfold(0, 100, 1), 40_000),
    "slice": (lambda: BASE[500_000:500_010], 40),
    "far apart": (lambda: [BASE[at : at + 10] for at in range(0, 1_000_000, 50_000)], 800),
    "the same": (lambda: [BASE[10:20_000], BASE[10:20_000], BASE.view(torch.int32)[10:20_000]], 79_960),
    "overlapping": (lambda: [BASE[at : at + 20_000] for at in range(0, 100_000, 10_000)], 440_000),
    "every other": (lambda: BASE[:100_000:2], 400_000),
    "every hundredth": (lambda: BASE[::100], 40_000),
    "columns": (lambda: BASE.reshape(1000, 1000)[:, 3], 4000),
}


@pytest.mark.parametrize("name", SIZES)
def test_memory_crosses_once(name: str) -> None:
    """And only what is used of it, not the whole storage as from torch's workers."""
    make, num_bytes = SIZES[name]
    assert size_of(make()) < num_bytes + 2500
    found, made = cross(make()), make()
    for arrived, tensor in zip(found, made, strict=True) if isinstance(made, list) else [(found, made)]:
        assert torch.equal(arrived, tensor)
        is_sparse = name in ("every hundredth", "columns")
        assert arrived.is_contiguous() if is_sparse else arrived.stride() == tensor.stride()


def test_tensors_of_a_storage_stay_together() -> None:
    """What is written to one is seen by the others; those of other storages are not touched."""
    base, other = torch.zeros(3000), torch.zeros(3000)
    one, two, three, four = cross([base[:2000], base[1000:], base.view(torch.int32)[1500:1600], other])
    one[1550] = 1
    assert two[550] == 1
    assert three[50] == 0x3F800000  # a one
    assert one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr()
    assert not other.any()
    assert not four.any()
    small = torch.zeros(10)
    left, right = cross([small[:5], small[5:].bfloat16()])
    assert (left.shape, right.dtype) == ((5,), torch.bfloat16)
    left, right = cross([small[:5], small[5:]])
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def test_offsets_that_are_no_multiple_of_an_element() -> None:
    """A byte in front of a number, in the same storage."""
    base = torch.arange(64, dtype=torch.uint8)
    number, byte = cross([base[16:48].view(torch.complex128), base[3:20]])
    assert byte.tolist() == list(range(3, 20))
    assert torch.equal(number, base[16:48].view(torch.complex128))


def test_a_tensor_and_its_storage_stay_together() -> None:
    """As ``pickle`` has it."""
    base = torch.zeros(5000)
    tensor, storage, part = cross([base, base.untyped_storage(), base[10:20]])
    part.fill_(1)
    assert tensor[15] == 1
    assert bytes(storage[60:64]) == b"\0\0\x80?"


@pytest.mark.parametrize("size", [10, 3000])
def test_tensors_cross_beside_bytes(size: int) -> None:
    """Which are found by another pickler, that has its own table."""
    base = torch.zeros(size)
    value = [b"x" * 20_000, base, base[1:], [b"y" * 20_000] * 2, "z" * 20_000]
    encoder = Encoder()
    for _ in range(3):
        encoded = encoder.encode(value)
        buffers = [bytearray(pickle.PickleBuffer(each).raw()) for each in encoded.buffers]
        found = decode(encoded.form, encoded.head, buffers, encoded.num_deep)
        assert encoded.num_deep == 2
        found[2].fill_(1)
        assert found[1][1:].all()
        assert not found[1][0]
        assert (found[0], found[3], found[4]) == (value[0], value[3], value[4])


def test_gradients_and_parameters() -> None:
    """``requires_grad`` stays."""
    leaf = torch.rand(50, 50, requires_grad=True)
    assert cross(leaf).requires_grad
    assert not cross((leaf * 2).detach()).requires_grad
    parameter = cross(torch.nn.Parameter(torch.rand(50, 50)))
    assert type(parameter) is torch.nn.Parameter


def test_a_graph_is_not_lost_silently() -> None:
    """It cannot cross: as with ``torch.multiprocessing``, in its words."""
    with pytest.raises(RuntimeError, match=r"Cowardly refusing to serialize non-leaf tensor .* call detach\(\)"):
        encode([torch.rand(3, requires_grad=True) * 2])


def test_attributes_cross() -> None:
    """Those that somebody has put on a tensor, as ``pickle`` keeps them."""
    tensor = torch.rand(50, 50)
    tensor.label = "cat"
    assert cross(tensor).label == "cat"
    assert isinstance(cross(torch.nn.Buffer(torch.rand(50, 50))), torch.nn.Buffer)


@pytest.mark.parametrize("size", [3, 3000])
def test_what_has_no_memory_is_refused(size: int) -> None:
    """A read of it would find somebody else's."""
    for tensor in (torch._to_functional_tensor(torch.ones(size)), torch._efficientzerotensor((size,))):
        with pytest.raises(TypeError, match="a tensor without memory"):
            encode([tensor])
    nothing = torch._to_functional_tensor(torch.ones(0, 3))
    assert cross([nothing])[0].shape == (0, 3)


def _jagged() -> Any:
    return torch.nested.nested_tensor([torch.ones(2000, 2), torch.ones(3, 2)], layout=torch.jagged)


OTHERS: dict[str, Callable[[], Any]] = {
    "sparse": lambda: torch.eye(30).to_sparse(),
    "sparse, not coalesced": lambda: torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (3, 3)),
    "sparse, hybrid": lambda: torch.ones(3, 4, 500).to_sparse(2),
    "sparse, needs gradient": lambda: torch.eye(30).to_sparse().requires_grad_(),
    "sparse, large": lambda: torch.ones(5000).to_sparse(),
    "sparse, empty": lambda: torch.zeros(3, 3).to_sparse(),
    "sparse rows": lambda: torch.eye(30).to_sparse_csr(),
    "sparse columns": lambda: torch.eye(30).to_sparse_csc(),
    "sparse blocks, by columns": lambda: torch.eye(30).to_sparse_bsc((5, 5)),
    "sparse blocks": lambda: torch.eye(30).to_sparse_bsr((5, 5)),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2000), torch.ones(3)]),
    "jagged": _jagged,
    "quantized": lambda: torch.quantize_per_tensor(torch.arange(6000.0), 0.1, 3, torch.quint8),
    "quantized by channel": lambda: torch.quantize_per_channel(
        torch.ones(4, 2000), torch.full((4,), 0.1), torch.zeros(4, dtype=torch.long), 0, torch.qint8
    ),
    "meta": lambda: torch.empty(5000, device="meta"),
    "subclass": lambda: torch.ones(2000).as_subclass(torch.nn.Parameter),
    "mkldnn": lambda: torch.ones(2000).to_mkldnn(),
}


def parts_of(tensor: Any) -> list[Any]:
    """Tensors that can be compared."""
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.is_quantized:
        return [tensor.int_repr(), tensor.dequantize()]
    return [tensor if tensor.layout is torch.strided else tensor.to_dense()]


@pytest.mark.filterwarnings("ignore:.*(nested tensors|[Ss]parse|quantized|TypedStorage).*:UserWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_plain_tensor_goes_its_own_way(name: str) -> None:
    """By its parts, or as torch takes it apart; what torch cannot, it refuses itself. Nobody keeps what has arrived."""
    tensor = OTHERS[name]()
    if name == "mkldnn":
        with pytest.raises(NotImplementedError):
            encode([tensor])
        return
    [arrived] = cross([tensor])
    gone = weakref.ref(arrived)
    assert type(arrived) is type(tensor)
    assert (arrived.dtype, arrived.layout, arrived.device) == (tensor.dtype, tensor.layout, tensor.device)
    assert arrived.requires_grad == tensor.requires_grad
    if name.startswith("sparse, "):
        assert arrived.is_coalesced() == tensor.is_coalesced()
    if name != "meta":
        assert all(torch.equal(one, other) for one, other in zip(parts_of(arrived), parts_of(tensor), strict=True))
    del arrived
    gc.collect()  # a jagged tensor is part of a cycle
    assert gone() is None


@pytest.mark.parametrize("size", [0, 3, 5000])
def test_storages_cross(size: int) -> None:
    """With a dtype and without; a large one out of the stream."""
    tensor = torch.arange(size)
    encoded = encode([tensor.untyped_storage()])
    assert len(encoded.buffers) == (size > 1000)
    assert cross([tensor.untyped_storage()])[0].tolist() == tensor.untyped_storage().tolist()
