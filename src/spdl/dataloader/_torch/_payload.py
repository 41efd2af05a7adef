"""``SharedPayload``: objects that several new processes get, pickled once into memory that all of them map.

A file without a name holds the pickle stream and, behind it, every large buffer of the objects (arrays, tensors). Each
process maps it privately: its arrays and tensors are views of the mapping, writable, and a page costs memory of its own
only in the process that writes to it. The memory goes with the last process that has it mapped, and with the payload.

Some objects cannot be pickled into memory, because a descriptor has to go along to each process: locks, queues and
values of ``multiprocessing``, tensors in shared memory (which stay shared). They travel as arguments of the process.

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

from spdl._processes._main_module import can_import_main, refusal
from spdl._processes._transport._pickling import LARGE, MemoryPickler

__all__ = ["ForkedPayload", "SharedPayload", "UnpicklablePayloadError"]

#: Where a buffer begins: a multiple of a cache line, and of what vector instructions want.
_ALIGNMENT: Final = 64


#: ``multiprocessing`` registers reducers for these too, though they hold no descriptor.
_SELF_CONTAINED: Final = frozenset(
    {types.MethodType, types.BuiltinMethodType, type(list.append), type(int.__add__), functools.partial, array.array}
)


class UnpicklablePayloadError(TypeError):
    """One of the objects cannot be pickled. The message names it and says why."""


class ForkedPayload:
    """The same for processes that are forked: the objects themselves."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._objects = tuple(objects)

    def open(self) -> tuple[Any, ...]:
        """The objects."""
        return self._objects


class SharedPayload:
    """Picklable only as an argument of a process that is being started.

    Args:
        parts: The objects by what they are called in errors.

    Raises:
        UnpicklablePayloadError: One of them does not pickle.
        OSError: There is no memory, or no descriptor, for them.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        self._names = list(parts)
        self._fd = _open_memory()
        self._apart: list[Any] = []
        #: Modules that whoever unpickles it imports.
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
                self._spans = _write(file, pickler.buffers)
                self._size = file.tell()
            self._apart = pickler.apart
            self.modules = frozenset(pickler.modules)
        except BaseException:
            self.close()
            raise

    @property
    def num_bytes(self) -> int:
        """Of the memory that the processes share."""
        return self._size

    def close(self) -> None:
        """Let go of the memory in this process. Idempotent. Those that were started keep it."""
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
        return _Arrived, (reduction.DupFd(self._fd), self._size, self._spans, self._apart)


class _Arrived:
    """A payload in a new process."""

    def __init__(self, fd: Any, size: int, spans: list[tuple[int, int, bool]], apart: list[Any]) -> None:
        self._fd = fd
        self._size = size
        self._spans = spans
        self._apart = apart

    def open(self) -> tuple[Any, ...]:
        """Put the objects together. Once. Raises what unpickling raises."""
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
        objects: tuple[Any, ...] = _Unpickler(memory, buffers, self._apart).load()
        self._apart = []
        return objects


def _open_memory() -> int:
    """Descriptor of a new file without a name, in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("spdl-dataset")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(file: IO[bytes], buffers: list[pickle.PickleBuffer]) -> list[tuple[int, int, bool]]:
    """Append buffers; for each its offset, its size, and whether it is read-only."""
    spans = []
    for buffer in buffers:
        at = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
        file.seek(at)
        with buffer.raw() as raw:
            file.write(raw)
            spans.append((at, raw.nbytes, raw.readonly))
        buffer.release()
    return spans


def _explain(parts: dict[str, Any], error: BaseException) -> str:
    for name, part in parts.items():
        try:
            _Pickler(_Nowhere()).dump(part)
        except BaseException as exc:  # noqa: BLE001 - pickling runs the user's code, which may ask for an exit
            return f"{name} cannot be sent to worker processes: it cannot be pickled: {exc} ({type(exc).__name__})"
    return f"{', '.join(parts)} cannot be sent to worker processes: {error} ({type(error).__name__})"


class _Nowhere:
    """A file that forgets."""

    def write(self, data: Any) -> int:
        return len(data)


# -- pickling


def _take_apart(number: int) -> Any:
    """Stands in the pickle stream for what travels apart."""
    raise AssertionError(f"part {number} is only found by the payload's own unpickler")


class _Pickler(MemoryPickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, 5, buffer_callback=self._collect)
        self.buffers: list[pickle.PickleBuffer] = []
        self.apart: list[Any] = []
        self._can_import_main = can_import_main()
        self._kinds: dict[type, bool] = {}  # those seen, and whether they travel apart
        self._registered = _registered_kinds()
        self.modules: set[str] = set()

    def _collect(self, buffer: pickle.PickleBuffer) -> bool:
        """True: pickle writes it into the stream."""
        try:
            if buffer.raw().nbytes < LARGE:
                return True
        except BufferError:  # it is not contiguous: pickle says so
            return True
        self.buffers.append(buffer)
        return False

    def reducer_override(self, obj: Any) -> Any:
        """Called for all that pickle does not know itself."""
        kind = type(obj)
        is_apart = self._kinds.get(kind)
        if is_apart is None:
            is_apart = self._kinds[kind] = self._goes_apart(kind)
        if is_apart and (not kind.__module__.startswith("torch") or _is_shared(obj)):
            self.apart.append(obj)
            return _take_apart, (len(self.apart) - 1,)
        if isinstance(obj, type | types.FunctionType) and isinstance(module := obj.__module__, str):
            if module == "__main__" and not self._can_import_main:
                raise pickle.PicklingError(refusal(obj.__qualname__))
            self.modules.add(module)
        return super().reducer_override(obj)

    def _goes_apart(self, kind: type) -> bool:
        """It is of ``multiprocessing``, or somebody has told ``multiprocessing`` how to send it; maybe, if of torch."""
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
    """Whether a tensor or a storage is in shared memory. One of several parts (sparse, nested) goes by its parts."""
    try:
        return bool(obj.is_shared())
    except NotImplementedError:  # it has no storage
        return False


def _registered_kinds() -> set[type]:
    """Types that ``multiprocessing`` was told how to send."""
    table = reduction.ForkingPickler(_Nowhere()).dispatch_table
    return {kind for kind, reduce in table.items() if copyreg.dispatch_table.get(kind) is not reduce}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, buffers: list[memoryview], apart: list[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._apart = apart

    def find_class(self, module: str, name: str, /) -> Any:
        if module == __name__ and name == _take_apart.__name__:
            return self._apart.__getitem__
        return super().find_class(module, name)
