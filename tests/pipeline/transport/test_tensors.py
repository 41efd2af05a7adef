"""torch tensors across processes. torch is not needed for any other test, so these skip without it."""

import pickle
from typing import Any

import pytest

from spdl.pipeline._transport._pickling import decode, encode

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
    """Dense tensors keep their order in memory; others arrive contiguous. Only what is seen crosses."""
    tensor = make(torch.rand(2, 3, 40, 50))
    [arrived] = cross([tensor])
    assert torch.equal(arrived, tensor)
    if tensor.is_contiguous(memory_format=torch.channels_last):
        assert arrived.stride() == tensor.stride()


def test_gradients_and_parameters() -> None:
    """``requires_grad`` stays; a graph does not."""
    leaf = torch.rand(50, 50, requires_grad=True)
    assert cross(leaf).requires_grad
    assert cross(leaf * 2).grad_fn is None
    parameter = cross(torch.nn.Parameter(torch.rand(50, 50)))
    assert type(parameter) is torch.nn.Parameter


def test_what_is_no_plain_tensor_goes_its_own_way() -> None:
    """Sparse, quantized and storage-sharing tensors are left to torch."""
    sparse = torch.eye(30).to_sparse()
    assert torch.equal(cross(sparse).to_dense(), sparse.to_dense())
