"""Convert the user's sources to the forms that native code accepts. Called by all functions that load media.

An object in a store (a URL such as ``s3://``, or an object of ``spdl.remote``) has a method ``__spdl_fetch__`` that
returns all bytes; ``str`` of it is its name in messages. Images are fetched with this method. For other media, the
object may also have a method ``__spdl_open__``. It returns either all bytes, or an object from which native code reads
the blocks that it needs (``SupportsBlocks``). ``spdl.remote`` is imported when the first such URL is opened. Files of
fsspec are converted to its objects.
"""

import io
import os
import re
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spdl._addresses import local_path, redacted, web_url

from ._errors import MediaError
from ._types import LoadFailure, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from ._types import SupportsBlocks

#: Protocols of FFmpeg that have URLs. Schemes that FFmpeg does not have are read by ``spdl.remote``.
_OF_FFMPEG = frozenset(
    (
        *("amqp", "async", "cache", "concat", "concatf", "crypto", "data", "fd", "ffrtmpcrypt", "ffrtmphttp", "file"),
        *("ftp", "gopher", "gophers", "hls", "http", "httpproxy", "https", "icecast", "ipfs", "ipns", "md5", "mmsh"),
        *("mmst", "pipe", "prompeg", "rist", "rtmp", "rtmpe", "rtmps", "rtmpt", "rtmpte", "rtmpts", "rtp", "rtsp"),
        *("sctp", "sdp", "sftp", "smb", "srt", "srtp", "subfile", "tcp", "tee", "tls", "udp", "udplite", "unix", "zmq"),
    )
)
_URL = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*)://")
#: Minimum number of threads that fetch the sources of a batch, even if fewer decode it: they wait for the network.
_FETCHING_THREADS = 8
# Types that native code accepts directly. Looking up the exact type is the fastest check.
_READY = frozenset((str, bytes, bytearray, memoryview))


def as_sources(name: str, sources: Any) -> list[Source]:
    """The sources as a list. Raises ``TypeError`` for a single source, and ``ValueError`` if there is none."""
    require_several(name, sources)
    found = list(sources)
    if not found:
        raise ValueError(f"{name} must have at least one source, got none")
    return found


def require_several(name: str, sources: object) -> None:
    """Raise ``TypeError`` for a single source."""
    if type(sources) is list:  # the usual case; the check below uses an abstract base class, which is slow
        return
    if isinstance(sources, str | bytes | bytearray | memoryview | os.PathLike):
        raise TypeError(f"{name} must be a list of sources, got one of type {type(sources).__name__}: put it in a list")
    if not hasattr(type(sources), "__iter__") and not hasattr(type(sources), "__getitem__"):
        raise TypeError(f"{name} must be a list of sources, got an object of type {type(sources).__name__}")


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
    """Return the source for native code, fetched if it is in an object store, and its name for messages."""
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


def is_remote(source: object) -> bool:
    """Whether a source is in an object store."""
    if isinstance(source, str):
        return _is_remote_url(source)
    return hasattr(type(source), "__spdl_fetch__") or (hasattr(source, "fs") and _has_ranges(source))


def _is_remote_url(text: str) -> bool:
    match = _URL.match(text)
    return match is not None and match[1].lower() not in _OF_FFMPEG and not os.path.exists(text)


def named(source: Any, name: str | None) -> str | None:
    """The name of a source in messages: of a URL without its query, which may be a signature."""
    if name is None and type(source) is str and "?" in source and source.startswith(("http://", "https://")):
        return redacted(source)
    return name


def _has_ranges(file: Any) -> bool:
    """Whether fsspec can read byte ranges of a file, open or not, directly from the file system.

    It cannot for files that are compressed, in memory, on a local disk, or copied by fsspec: these are read through the
    file object.
    """
    if not isinstance(getattr(file, "path", None), str) or not hasattr(file.fs, "cat_file"):
        return False
    if getattr(file, "mode", None) != "rb" or getattr(file, "compression", None) is not None:
        return False
    if isinstance(file, io.BytesIO) or getattr(file, "closed", False):
        return False
    protocol = file.fs.protocol
    protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    return not any(each in ("file", "local") or "cache" in each for each in protocols)


def located(source: Any) -> Any:
    """Convert a source for which ``is_remote`` is true: ``str`` of the result is its name.

    Files of fsspec become ``RemoteObject``.
    """
    if isinstance(source, str) or hasattr(type(source), "__spdl_fetch__"):
        return source
    from spdl.remote import RemoteObject

    return RemoteObject._of_file(source)


def fetch(source: Any) -> "Buffer":
    """Fetch the bytes of a source in an object store, or raise ``spdl.remote.RemoteError``."""
    if isinstance(source, str):
        from spdl.remote import RemoteObject

        source = RemoteObject.of(source)
    data: Buffer = located(source).__spdl_fetch__()
    return data


def open_blocks(source: Any) -> "Buffer | SupportsBlocks":
    """Open media in an object store: return its bytes, or an object from which native code reads blocks."""
    if isinstance(source, str):
        from spdl.remote import RemoteObject

        source = RemoteObject.of(source)
    source = located(source)
    open_it = getattr(source, "__spdl_open__", None)
    opened: Buffer | SupportsBlocks = source.__spdl_fetch__() if open_it is None else open_it()
    return opened


def has_blocks(source: object) -> bool:
    """Whether native code reads a source in blocks: it has the methods of ``SupportsBlocks``."""
    return hasattr(type(source), "__spdl_block__")


@dataclass(frozen=True, slots=True)
class Fetched:
    """The sources of a batch as native code reads them, with those in object stores fetched.

    Attributes:
        sources: The sources; empty data for those that could not be fetched.
        names: Position -> name in messages, for sources that were fetched.
        errors: Position -> error, for sources that could not be fetched.
    """

    sources: list[Any]
    names: dict[int, str]
    errors: dict[int, Exception]

    def failure(self, failure: LoadFailure, first_index: int = 0) -> LoadFailure:
        """The failure of a source, with its fetch error and its name instead of those that native code reports."""
        position = failure.index - first_index
        if position in self.errors:
            return LoadFailure(failure.index, failure.source, self.errors[position])
        if position in self.names:
            rename(failure.error, self.names[position])
        return failure


def fetch_all(
    sources: list[Any], num_threads: int = 0, *, fetch: "Callable[[Any], Buffer | SupportsBlocks]" = fetch
) -> Fetched:
    """Fetch the sources of a batch that are in object stores, several at a time.

    Args:
        sources: From ``as_native_sources``. Not called here, because argument errors come before those of devices; and
            it is called once, because a stream that cannot seek cannot be read again.
        fetch: ``fetch``, or ``open_blocks`` for media that native code may read in blocks.
    """
    remote = [
        index
        for index, source in enumerate(sources)
        if (":" in source and _is_remote_url(source) if type(source) is str else is_remote(source))  # the usual path
    ]
    names = {index: name for index, each in enumerate(sources) if (name := named(each, None)) is not None}
    if not remote:
        return Fetched(sources, names, {})
    fetched, errors = list(sources), dict[int, Exception]()
    outcomes = _fetch_several([sources[index] for index in remote], max(num_threads, _FETCHING_THREADS), fetch)
    for index, outcome in zip(remote, outcomes, strict=True):
        if isinstance(outcome, Exception):
            fetched[index], errors[index] = b"", outcome
        else:
            fetched[index], names[index] = outcome, str(located(sources[index]))
    return Fetched(fetched, names, errors)


def rename(error: Exception, name: str) -> None:
    """Name the source in an error by its URL instead of its address in memory."""
    known = getattr(error, "source", None)
    if isinstance(error, MediaError) and known and error.args:
        error.args = (str(error.args[0]).replace(str(known), name), *error.args[1:])
        error.source = name


def _fetch_several(
    sources: list[Any], num_threads: int, fetch: "Callable[[Any], Buffer | SupportsBlocks]"
) -> "list[Buffer | SupportsBlocks | Exception]":
    if len(sources) == 1:
        return [_outcome(fetch, sources[0])]
    pool = ThreadPoolExecutor(min(num_threads, len(sources)), thread_name_prefix="spdl-fetch")
    is_done = False
    try:
        outcomes = list(pool.map(partial(_outcome, fetch), sources))
        is_done = True
        return outcomes
    finally:  # Ctrl-C does not wait for requests
        pool.shutdown(wait=is_done, cancel_futures=True)


def _outcome(fetch: "Callable[[Any], Buffer | SupportsBlocks]", source: Any) -> "Buffer | SupportsBlocks | Exception":
    try:
        return fetch(source)
    except Exception as exc:  # noqa: BLE001  # one source of a batch
        return exc
