"""Memory for batches of transformed pictures: arrays, tensors and bytes of the user's."""

import mmap
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import ImageTransform, load_image_batch
from tests.io.transformed import JPEG, flat, load


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_out_is_filled(dtype: Any) -> None:
    """The result is a view of it."""
    transform = ImageTransform((12, 16), dtype=dtype, layout="NCHW")
    out = np.empty((2, 3, 12, 16), dtype)
    batch = load([JPEG, flat(5)], transform, out=out)
    assert np.shares_memory(batch, out)
    assert (batch == load([JPEG, flat(5)], transform)).all()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_tensor_is_filled(dtype: Any) -> None:
    """Of every type; one that would be trained as well."""
    torch = pytest.importorskip("torch")
    transform = ImageTransform((12, 16), dtype=dtype)
    out = torch.empty((2, 12, 16, 3), dtype=getattr(torch, dtype), requires_grad=dtype != "uint8")
    load_image_batch([JPEG, flat(255)], transform=transform, out=out)
    assert (out[1] == (255 if dtype == "uint8" else 1)).all()
    assert 0 < out[0].float().mean() < 255


@pytest.mark.parametrize(
    "make",
    [
        lambda n: np.empty(n, np.uint8),
        lambda n: np.empty(n + 100, np.uint8)[50:],
        bytearray,
        lambda n: memoryview(bytearray(n + 8))[8:],
        lambda n: spdl.io.cpu_storage(n, pin_memory=False),
        lambda n: mmap.mmap(-1, n),
    ],
    ids=["array", "part", "bytearray", "memoryview", "storage", "mmap"],
)
def test_bytes_will_do(make: Any) -> None:
    """As many as the batch has, or more, whatever its type."""
    transform = ImageTransform((12, 16), dtype="float32")
    expected = load([JPEG, flat(5)], transform)
    out = make(expected.nbytes)
    batch = load([JPEG, flat(5)], transform, out=out)
    assert batch.shape == expected.shape
    assert (batch == expected).all()
    assert bytes(memoryview(out))[: expected.nbytes] == expected.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_batch_can_be_filled_again(dtype: Any) -> None:
    """A buffer of before is an array like others."""
    transform = ImageTransform((12, 16), dtype=dtype)
    first = load_image_batch([JPEG, JPEG], transform=transform)
    again = load_image_batch([flat(255), flat(0)], transform=transform, out=first)
    assert bytes(memoryview(first)) == bytes(memoryview(again))
    assert any(bytes(memoryview(again)))
    with pytest.raises(ValueError, match=f"out must be {dtype} of shape"):
        load_image_batch([JPEG], transform=transform, out=first)


@pytest.mark.parametrize(
    ("out", "given"),
    [
        (np.empty((2, 12, 16, 3), np.float64), r"float64 of shape \(2, 12, 16, 3\)"),
        (np.empty((2, 12, 16, 3), ">f4"), r">f4 of shape \(2, 12, 16, 3\)"),
        (np.empty((2, 3, 12, 16), np.float32), r"float32 of shape \(2, 3, 12, 16\)"),
        (np.empty((3, 12, 16, 3), np.float32), r"float32 of shape \(3, 12, 16, 3\)"),
        (np.empty((2, 12, 16, 3), np.uint8), r"uint8 of shape \(2, 12, 16, 3\)"),
        (np.empty(2 * 12 * 16 * 3, np.float32), r"float32 of shape \(1152,\)"),
        (memoryview(bytes(9216)).cast("d", (2, 12, 16, 3)), r"float64 of shape \(2, 12, 16, 3\)"),
    ],
    ids=["type", "order", "layout", "count", "bytes", "flat", "view"],
)
def test_out_of_another_type_or_shape_is_refused(out: Any, given: str) -> None:
    """The message has what was expected and what was given."""
    transform = ImageTransform((12, 16), dtype="float32")
    with pytest.raises(ValueError, match=rf"out must be float32 of shape \(2, 12, 16, 3\), got {given}"):
        load([JPEG, JPEG], transform, out=out)


def test_tensor_of_another_type_or_shape_is_refused() -> None:
    """In the same words."""
    torch = pytest.importorskip("torch")
    with pytest.raises(
        ValueError, match=r"out must be uint8 of shape \(1, 12, 16, 3\), got bfloat16 of shape \(1, 2\)"
    ):
        load([JPEG], out=torch.empty((1, 2), dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="C-contiguous"):
        load([JPEG], out=torch.empty((1, 12, 3, 16), dtype=torch.uint8).transpose(2, 3))


def test_too_few_bytes_are_refused() -> None:
    """With both numbers."""
    with pytest.raises(ValueError, match=r"out must have at least 576 bytes, for uint8 of shape .*, got 575"):
        load([JPEG], out=bytearray(575))


@pytest.mark.parametrize(
    "out",
    [bytes(576), np.empty((1, 12, 32, 3), np.uint8)[:, :, ::2], np.broadcast_to(np.uint8(1), 576), 5, "text", [1, 2]],
    ids=["read-only", "strided", "broadcast", "number", "text", "list"],
)
def test_out_of_the_wrong_kind_is_a_type_error(out: Any) -> None:
    """It has to be writable and contiguous memory."""
    with pytest.raises(TypeError, match="out must be"):
        load([JPEG], out=out)


def test_out_and_storage_exclude_each_other() -> None:
    """Storage alone is raw memory, as in the other form."""
    storage = np.zeros(1000, np.uint8)
    assert np.shares_memory(load([JPEG], storage=storage), storage)
    with pytest.raises(ValueError, match="out and storage exclude each other"):
        load([JPEG], storage=storage, out=storage)
