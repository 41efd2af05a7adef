"""Convert the user's sources to the forms that native code accepts. Called by all functions that load media."""

import io
import os
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spdl._addresses import local_path, web_url

from ._remote import fetch, has_blocks, is_remote, located, named, open_blocks
from ._types import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

# Types that native code accepts directly. Looking up the exact type is the fastest check.
_READY = frozenset((str, bytes, bytearray, memoryview))


def as_sources(name: str, sources: Any) -> list[Source]:
    """The sources as a list.

    Raises:
        TypeError: ``sources`` is a single source: its characters or bytes are not sources.
    """
    require_several(name, sources)
    return list(sources)


def require_several(name: str, sources: object) -> None:
    """Raise ``TypeError`` for a single source."""
    if type(sources) is list:  # the usual case; the check below uses an abstract base class, which is slow
        return
    if isinstance(sources, str | bytes | bytearray | memoryview | os.PathLike):
        raise TypeError(f"{name} must be a list of sources, got one of type {type(sources).__name__}: put it in a list")


def as_native_sources(sources: "Iterable[Source]") -> "list[str | Buffer | NDArray[np.uint8]]":
    """Call ``as_native_source`` for each source; takes well below a microsecond per source for common types.

    Sources in object stores must have been fetched: see ``fetch_all``.
    """
    ready = _READY
    return [
        source  # type: ignore[misc]  # its type is in `ready`
        if type(source) in ready and not (type(source) is str and "://" in source)
        else as_native_source(source)
        for source in sources
    ]


def as_native_source(source: Source) -> "str | Buffer | NDArray[np.uint8]":
    """Convert a source for native code: a path to text, a file object to its path or content; a buffer is unchanged.

    Native code reads a buffer in place. Sources in object stores, and objects with blocks, are returned unchanged.

    Raises:
        TypeError: ``source`` is neither a path, a buffer nor a binary file object. Native code checks buffers.
    """
    if isinstance(source, str):
        return _as_native_text(source) if "://" in source else source
    if isinstance(source, (bytes, bytearray, memoryview)):  # a union would be built at each call
        return source
    # Same check as `isinstance(source, os.PathLike)`, which takes as long as the rest of the function.
    as_path = getattr(type(source), "__fspath__", None)
    if as_path is not None:
        path = os.fsdecode(as_path(source))
        # A path object is never a URL, whatever it starts with.
        return path if path.startswith("/") or ":" not in path else os.path.join(".", path)
    if is_remote(source) or has_blocks(source):
        return source  # type: ignore[return-value]
    try:
        memoryview(source)  # type: ignore[arg-type]  # NumPy's stubs declare buffers from Python 3.12 on
    except TypeError:
        if callable(getattr(source, "numpy", None)):  # a torch tensor
            return source.numpy()  # type: ignore[no-any-return, union-attr]
        if callable(getattr(source, "read", None)):
            return _content_of(source)
        if callable(getattr(source, "open", None)) and hasattr(source, "fs"):
            with source as file:  # type: ignore[union-attr]  # from fsspec.open(), which opens the file only here
                return _content_of(file)
        raise TypeError(
            "a source must be str, a path-like, bytes, bytearray, memoryview, a one-dimensional uint8 array or a binary"
            " file object,"
            f" got {type(source).__name__}"
        ) from None
    return source  # type: ignore[return-value]  # not a path


def _as_native_text(text: str) -> str:
    """A URL as native code takes it: the path of a ``file`` URL, and web URLs percent-encoded."""
    if text.startswith("file://"):
        return os.path.join(".", local_path(text))
    return web_url(text) if text.startswith(("http://", "https://")) and not os.path.exists(text) else text


def open_source(source: Source, name: str | None) -> "tuple[str | Buffer | NDArray[np.uint8], str | None]":
    """Return the source for native code, fetched if it is in an object store, and its name for messages.

    Raises:
        TypeError: As for ``as_native_source``.
        spdl.remote.RemoteError: The source is in an object store and cannot be read.
    """
    if is_remote(source):
        return fetch(source), str(located(source)) if name is None else name
    return as_native_source(source), named(source, name)


def open_media(source: Source, name: str | None) -> "tuple[Any, str | None]":
    """Same as ``open_source``, but a large object becomes an object from which native code reads blocks."""
    if is_remote(source):
        return open_blocks(source), str(located(source)) if name is None else name
    return as_native_source(source), named(source, name)


def _content_of(file: Any) -> "str | Buffer":
    """The whole content of a binary file object: its path, if the path still refers to the same file, or its bytes.

    A file that cannot seek is read from its current position. The position of a file that can seek is restored.
    """
    if isinstance(file, io.BytesIO):
        return file.getbuffer()
    raw = getattr(file, "raw", file)
    # Only these types: others, such as gzip's, have the descriptor of a file whose content they decode.
    if isinstance(raw, io.FileIO) and isinstance(raw.name, str | os.PathLike):
        path = os.path.abspath(os.fsdecode(raw.name))
        try:
            if os.path.samestat(os.stat(path), os.fstat(raw.fileno())) and stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                if file.writable():
                    file.flush()
                return path
        except OSError:
            pass  # the path was removed or replaced, so the open file is read
    can_seek = callable(getattr(file, "seekable", None)) and file.seekable()
    position = file.tell() if can_seek else 0
    if can_seek:
        file.seek(0)
    try:
        content = file.read()
    finally:
        if can_seek:
            file.seek(position)
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"a file object must be opened in binary mode: its read() returned {type(content).__name__}")
    return content
