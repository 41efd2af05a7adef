"""Reducers for memoryviews, NumPy arrays and torch's CPU tensors, which pass their own memory to pickle.

A class may define ``__reduce_transport__(self)``: like ``__reduce__``, but used only between processes of one pipeline
(frames of ``spdl.io`` have it, and cannot be pickled otherwise).
"""

from __future__ import annotations

import math
import pickle
import sys
from typing import Any

from spdl._processes._memory import exporter_of

__all__ = ["MemoryPickler", "make_array", "reduce_array"]


class MemoryPickler(pickle.Pickler):
    """Protocol 5 with our own reducers for large memory. The caller decides where that memory goes."""

    thorough = False

    def reducer_override(self, obj: Any) -> Any:
        """Called for all objects that pickle does not handle itself."""
        kind = type(obj)
        if kind is memoryview:
            return _reduce_memoryview(obj, self.thorough)
        hook = getattr(kind, "__reduce_transport__", None)
        if hook is not None:
            return hook(obj)
        if kind.__module__ == "numpy" and kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            return reduce_array(obj, self.thorough)
        if kind.__module__ == "torch" and kind is getattr(sys.modules.get("torch"), "Tensor", None):
            return _reduce_tensor(obj)
        if kind.__module__ == "torch.storage" and kind.__name__ == "UntypedStorage":
            return _reduce_storage(obj)
        return NotImplemented


def _reduce_memoryview(view: memoryview, thorough: bool) -> Any:
    memory = view if view.c_contiguous and view.nbytes else view.tobytes()
    readonly = view.readonly and not thorough
    return _make_memoryview, (_buffer_of(memory, thorough), view.format, view.shape, readonly)


def _buffer_of(memory: Any, thorough: bool) -> pickle.PickleBuffer:
    """Return its memory for pickle; read-only memory would arrive read-only."""
    buffer = pickle.PickleBuffer(memory)
    raw = buffer.raw()
    if thorough and raw.readonly and raw.nbytes:
        alias: Any = exporter_of(raw, memory, as_writable=True)
        return pickle.PickleBuffer(alias)
    return buffer


def _make_memoryview(buffer: Any, code: Any, shape: tuple[int, ...], readonly: bool) -> memoryview:
    view: memoryview = memoryview(buffer).cast("B")
    # Memoryviews cannot be cast to a shape that has a zero.
    view = view.cast(code) if 0 in shape else view.cast(code, shape)
    return view.toreadonly() if readonly else view


def reduce_array(array: Any, thorough: bool) -> Any:
    """Reduce an array of numbers or times. NumPy can do this too, but its format takes three times as long to read."""
    kind = array.dtype.kind
    if kind not in "biufcmM":
        # Non-contiguous ones would be pickled as bytes, in the stream.
        if kind == "O" or array.flags.c_contiguous or array.flags.f_contiguous:
            return NotImplemented
        return array.copy().__reduce_ex__(5)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()
    order = "C" if array.flags.c_contiguous else "F"
    # Times have no buffer protocol.
    memory = array.view("i8") if kind in "mM" else array
    return make_array, (_buffer_of(memory, thorough), array.dtype.str, array.shape, order)


def make_array(data: Any, dtype: str, shape: tuple[int, ...], order: Any) -> Any:
    import numpy

    return numpy.ndarray(shape, dtype, data, order=order)


def _reduce_tensor(tensor: Any) -> Any:
    """Reduce a strided or sparse CPU tensor to its memory and metadata. All others are left to torch.

    Raises:
        RuntimeError: It is part of an autograd graph, which would be lost; same message as ``torch.multiprocessing``.
        TypeError: It has no memory: a placeholder made by a torch transformation.
    """
    import torch

    if tensor.device.type != "cpu" or tensor.is_quantized or tensor.is_nested:
        return NotImplemented
    requires_grad, attributes = tensor.requires_grad, dict(tensor.__dict__) or None
    if requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    layout = tensor.layout
    if layout is not torch.strided:
        parts = _parts_of_sparse(tensor.detach(), torch)
        if parts is None:
            return NotImplemented
        is_coalesced = layout is torch.sparse_coo and tensor.is_coalesced()
        return _make_sparse, (layout, parts, tuple(tensor.shape), is_coalesced, requires_grad, attributes)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    # Dense tensors keep the order of their dimensions in memory (channels_last, transposed); others become contiguous.
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), -tensor.shape[d]))
    stored = tensor.permute(order)
    if not stored.is_contiguous():
        order, stored = list(range(tensor.dim())), tensor.contiguous()
    memory: Any = b""
    if stored.numel():
        if not stored.data_ptr():  # NumPy would report an address anyway
            raise TypeError(
                "a tensor without memory (a functional or zero tensor, as transformations of torch make them) cannot "
                "be sent to another process: send one that was computed"
            )
        memory = stored.reshape(-1).view(torch.uint8).numpy()
    dtype = str(stored.dtype).removeprefix("torch.")
    facts = (pickle.PickleBuffer(memory), dtype, tuple(stored.shape), tuple(order), requires_grad)
    return _make_tensor, facts if attributes is None else (*facts, attributes)


def _make_tensor(
    data: Any,
    dtype: str,
    shape: tuple[int, ...],
    order: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any] | None = None,
) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if math.prod(shape) == 0:
        stored = torch.empty(shape, dtype=kind)
    else:
        if memoryview(data).readonly:
            data = bytearray(data)
        stored = torch.frombuffer(data, dtype=kind).reshape(shape)
    inverse = [0] * len(order)
    for position, dim in enumerate(order):
        inverse[dim] = position
    tensor = stored.permute(inverse)
    if attributes is not None:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_() if requires_grad else tensor


def _parts_of_sparse(tensor: Any, torch: Any) -> tuple[Any, ...] | None:
    """The dense tensors of a sparse one, values last; ``None`` if it is not sparse."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return None


def _make_sparse(
    layout: Any,
    parts: tuple[Any, ...],
    shape: tuple[int, ...],
    is_coalesced: bool,
    requires_grad: bool,
    attributes: dict[str, Any] | None,
) -> Any:
    """Rebuild a sparse tensor as torch does, without keeping it forever for the checks of ``torch.load``."""
    import torch

    if layout is torch.sparse_coo:
        indices, values = parts
        tensor: Any = torch.sparse_coo_tensor(indices, values, shape, is_coalesced=is_coalesced, check_invariants=False)
    else:
        compressed, plain, values = parts
        tensor = torch.sparse_compressed_tensor(compressed, plain, values, shape, layout=layout, check_invariants=False)
    if attributes is not None:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_() if requires_grad else tensor


def _reduce_storage(storage: Any) -> Any:
    """Reduce the storage of tensors. torch itself can pickle only storages with a dtype."""
    import torch

    if storage.device.type != "cpu":
        return NotImplemented
    return _make_storage, (torch.empty(0, dtype=torch.uint8).set_(storage),)


def _make_storage(tensor: Any) -> Any:
    return tensor.untyped_storage()
