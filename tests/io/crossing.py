"""Objects taken apart and put together as between two processes: pickle protocol 5, and the hook of frames."""

import io
import mmap
import pickle
from collections.abc import Callable
from typing import Any


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """What our transport does."""
        hook = getattr(type(obj), "__reduce_transport__", None)
        return NotImplemented if hook is None else hook(obj)


def apart(obj: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """The pickle, and the memory beside it."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=buffers.append).dump(obj)
    return stream.getvalue(), buffers


def mapped(buffer: Any) -> mmap.mmap:
    """A copy that begins with a page and, where its size is that of pages, has nothing mapped behind it, or something
    else. It can be closed once nothing refers to its memory."""
    raw = memoryview(buffer).cast("B")
    memory = mmap.mmap(-1, max(1, raw.nbytes))
    memory[: raw.nbytes] = raw
    return memory


def crossed(obj: Any, carry: Callable[[Any], Any] = lambda buffer: bytearray(buffer.raw())) -> Any:
    """The object as the other process has it; ``carry`` is what its memory goes through."""
    head, buffers = apart(obj)
    return pickle.loads(head, buffers=[carry(buffer) for buffer in buffers])


def is_held(memory: mmap.mmap) -> bool:
    """Whether anything refers to it; if not, it is closed."""
    try:
        memory.close()
    except BufferError:
        return True
    return False
