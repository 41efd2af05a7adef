"""``SharedPayload``: objects for several new processes, pickled once into memory that all of them map.

An unnamed file holds the pickle stream and, after it, every large buffer of the objects (arrays, tensors). Each
process maps it privately: its arrays and tensors are writable views of the mapping, and only pages that the process
writes to take extra memory. The memory is freed when the payload and the last process that has it mapped are gone.

Some objects cannot be pickled into memory, because each process needs its own file descriptor: locks, queues and
values of ``multiprocessing``, tensors in shared memory (which stay shared). They are sent as arguments of the process.

Source: PEP 574 for out-of-band buffers; mmap(2), ``MAP_PRIVATE``.
"""

from __future__ import annotations

import array
import copyreg
import functools
import mmap
import os
import pickle
import sys
import tempfile
import types
from collections.abc import Iterable
from multiprocessing import context, reduction
from typing import IO, Any, Final

from spdl._processes._main_module import can_import_main, check_importable, find_unpicklable
from spdl._processes._transport._pickling import MemoryPickler
from spdl._processes._transport._tensors import Tensors, collector, with_places

#: Alignment of buffers in bytes: a cache line, and enough for vector instructions.
_ALIGNMENT: Final = 64


#: Types that hold no file descriptor, although ``multiprocessing`` registers reducers for them.
_SELF_CONTAINED: Final = frozenset(
    {types.MethodType, types.BuiltinMethodType, type(list.append), type(int.__add__), functools.partial, array.array}
)


class UnpicklablePayloadError(TypeError):
    """An object cannot be pickled. The message names the object and the reason."""


class ForkedPayload:
    """The objects for forked processes, not pickled."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._objects = tuple(objects)

    def open(self) -> tuple[Any, ...]:
        """The objects."""
        return self._objects


class SharedPayload:
    """Objects pickled into shared memory. Picklable only as an argument of a process that is being started.

    Args:
        parts: Objects by their names in error messages.

    Raises:
        UnpicklablePayloadError: An object cannot be pickled.
        OSError: There is not enough memory, or no file descriptor.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self._names = list(parts)
        self._fd = _open_memory()
        self._apart: list[Any] = []
        #: Modules that unpickling imports.
        self.modules: frozenset[str] = frozenset()
        try:
            with open(self._fd, "wb", closefd=False) as file:
                pickler = _Pickler(file)
                try:
                    pickler.dump(tuple(parts.values()))
                except (OSError, MemoryError, KeyboardInterrupt):
                    raise
                except BaseException as exc:
                    raise UnpicklablePayloadError(_explain(parts, exc)) from exc
                self._table, buffers = pickler.tensors.finish(pickler.buffers)
                self._spans = _write(file, buffers)
                self._size = file.tell()
            self._apart = pickler.apart
            self.modules = frozenset(pickler.modules)
        except BaseException:
            self.close()
            raise

    @property
    def num_bytes(self) -> int:
        """Size of the memory that the processes share."""
        return self._size

    def close(self) -> None:
        """Release the memory in this process. Idempotent. Processes that were started keep it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self._apart = []

    def __enter__(self) -> SharedPayload:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return ", ".join(self._names)

    def __reduce__(self) -> Any:
        context.assert_spawning(self)
        return _Arrived, (reduction.DupFd(self._fd), self._size, self._spans, self._table, self._apart)


class _Arrived:
    """A payload in a new process."""

    def __init__(self, fd: Any, size: int, spans: list[tuple[int, int, bool]], table: bytes, apart: list[Any]) -> None:
        self._fd = fd
        self._size = size
        self._spans = spans
        self._table = table
        self._apart = apart

    def open(self) -> tuple[Any, ...]:
        """Unpickle the objects. May be called once. Exceptions of unpickling propagate."""
        fd = self._fd.detach()
        try:
            memory = mmap.mmap(fd, self._size, access=mmap.ACCESS_COPY)
        finally:
            os.close(fd)
        view = memoryview(memory)
        buffers = [view[at : at + size] for at, size, _ in self._spans]
        for position, (_, _, is_readonly) in enumerate(self._spans):
            if is_readonly:
                buffers[position] = buffers[position].toreadonly()
        objects: tuple[Any, ...] = _Unpickler(memory, with_places(self._table, buffers), self._apart).load()
        self._apart = []
        return objects


def _open_memory() -> int:
    """File descriptor of a new unnamed file, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("spdl-dataset")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(file: IO[bytes], buffers: list[Any]) -> list[tuple[int, int, bool]]:
    """Append buffers. Returns offset, size and whether it is read-only, for each buffer."""
    spans = []
    for each in buffers:
        buffer = pickle.PickleBuffer(each)
        at = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
        file.seek(at)
        with buffer.raw() as raw:
            file.write(raw)
            spans.append((at, raw.nbytes, raw.readonly))
        buffer.release()
    return spans


def _explain(parts: dict[str, Any], error: BaseException) -> str:
    found = find_unpicklable(parts.items(), lambda part: _Pickler(_Nowhere()).dump(part))
    if found is not None:
        return f"{found[0]} cannot be sent to worker processes: {found[1]}"
    return f"{', '.join(parts)} cannot be sent to worker processes: {error} ({type(error).__name__})"


class _Nowhere:
    """A file that discards everything written to it."""

    def write(self, data: Any) -> int:
        return len(data)


# -- pickling


def _take_apart(number: int) -> Any:
    """Placeholder in the pickle stream for an object sent as an argument of the process."""
    raise AssertionError(f"part {number} is only found by the payload's own unpickler")


class _Pickler(MemoryPickler):
    keeps_readonly = True

    def __init__(self, file: Any) -> None:
        self.buffers: list[Any] = []
        self.tensors = Tensors()
        super().__init__(file, 5, buffer_callback=collector(self.buffers, self.tensors))
        self.apart: list[Any] = []
        self._can_import_main = can_import_main()
        self._kinds: dict[type, bool] = {}  # types seen, and whether their objects are sent as arguments of the process
        self._registered = _registered_kinds()
        self.modules: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        """Called by pickle for all objects that are not of its built-in types."""
        kind = type(obj)
        is_apart = self._kinds.get(kind)
        if is_apart is None:
            is_apart = self._kinds[kind] = self._goes_apart(kind)
        if is_apart and (not kind.__module__.startswith("torch") or _is_shared(obj)):
            self.apart.append(obj)
            return _take_apart, (len(self.apart) - 1,)
        if isinstance(obj, type | types.FunctionType) and isinstance(module := obj.__module__, str):
            if not self._can_import_main:
                check_importable(obj)
            self.modules.add(module)
        return super().reducer_override(obj)

    def _goes_apart(self, kind: type) -> bool:
        """Whether the type is of ``multiprocessing`` or registered with it. See ``_is_shared`` for torch."""
        if kind in _SELF_CONTAINED:
            return False
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(kind, torch.Tensor | torch.UntypedStorage | torch.TypedStorage):
            return kind.__module__.startswith("torch")
        return kind in self._registered or any(
            each.__module__ == "multiprocessing" or each.__module__.startswith("multiprocessing.")
            for each in kind.__mro__
        )


def _is_shared(obj: Any) -> bool:
    """Whether a tensor or a storage is in shared memory. Sparse and nested tensors are judged by their parts."""
    try:
        return bool(obj.is_shared())
    except NotImplementedError:  # it has no storage
        return False


def _registered_kinds() -> set[type]:
    """Types with a reducer registered with ``multiprocessing``."""
    table = reduction.ForkingPickler(_Nowhere()).dispatch_table
    return {kind for kind, reduce in table.items() if copyreg.dispatch_table.get(kind) is not reduce}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, buffers: list[Any], apart: list[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._apart = apart

    def find_class(self, module: str, name: str, /) -> Any:
        if module == __name__ and name == _take_apart.__name__:
            return self._apart.__getitem__
        return super().find_class(module, name)
