"""Reducers for memoryviews and NumPy arrays, which pass their own memory to pickle. Those of tensors: ``_tensors.py``.

A class may define ``__reduce_transport__(self)``: like ``__reduce__``, but used only between processes of one pipeline
(frames of ``spdl.io`` have it, and cannot be pickled otherwise).
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from spdl._processes._memory import exporter_of

from ._tensors import Tensors


class MemoryPickler(pickle.Pickler):
    """Protocol 5 with our own reducers for large memory. The caller decides where that memory goes.

    Arrays arrive writable, as with ``torch.multiprocessing``, unless ``keeps_readonly`` is set.
    """

    tensors: Tensors
    thorough = False
    keeps_readonly = False

    def reducer_override(self, obj: Any) -> Any:
        """Called for all objects that pickle does not handle itself."""
        kind = type(obj)
        if kind is memoryview:
            return _reduce_memoryview(obj, self.thorough)
        hook = getattr(kind, "__reduce_transport__", None)
        if hook is not None:
            return hook(obj)
        if kind.__module__ == "numpy" and kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            return reduce_array(obj, writable=not self.keeps_readonly)
        if kind.__module__ == "torch" and kind is getattr(sys.modules.get("torch"), "Tensor", None):
            return self.tensors.reduce(obj)
        if kind.__module__ == "torch.storage" and kind.__name__ == "UntypedStorage":
            return self.tensors.reduce_storage(obj)
        return NotImplemented


def _reduce_memoryview(view: memoryview, thorough: bool) -> Any:
    memory = view if view.c_contiguous and view.nbytes else view.tobytes()
    readonly = view.readonly and not thorough
    return _make_memoryview, (_buffer_of(memory, thorough), view.format, view.shape, readonly)


def _buffer_of(memory: Any, writable: bool) -> pickle.PickleBuffer:
    """Return its memory for pickle; read-only memory would arrive read-only."""
    buffer = pickle.PickleBuffer(memory)
    raw = buffer.raw()
    if writable and raw.readonly:
        alias: Any = exporter_of(raw, memory, as_writable=True) if raw.nbytes else bytearray()
        return pickle.PickleBuffer(alias)
    return buffer


def _make_memoryview(buffer: Any, code: Any, shape: tuple[int, ...], readonly: bool) -> memoryview:
    view: memoryview = memoryview(buffer).cast("B")
    # Memoryviews cannot be cast to a shape that has a zero.
    view = view.cast(code) if 0 in shape else view.cast(code, shape)
    return view.toreadonly() if readonly else view


def reduce_array(array: Any, *, writable: bool) -> Any:
    """Reduce an array of numbers or times. NumPy can do this too, but its format takes three times as long to read."""
    kind = array.dtype.kind
    if kind not in "biufcmM":
        # Non-contiguous ones would be pickled as bytes, in the stream.
        is_readonly = writable and not array.flags.writeable
        if kind == "O" or (not is_readonly and (array.flags.c_contiguous or array.flags.f_contiguous)):
            return NotImplemented
        return array.copy(order="A").__reduce_ex__(5)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()
    order = "C" if array.flags.c_contiguous else "F"
    # Times have no buffer protocol.
    memory = array.view("i8") if kind in "mM" else array
    return make_array, (_buffer_of(memory, writable), array.dtype.str, array.shape, order)


def make_array(data: Any, dtype: str, shape: tuple[int, ...], order: Any) -> Any:
    import numpy

    return numpy.ndarray(shape, dtype, data, order=order)
