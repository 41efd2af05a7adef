"""Sources in object stores: ``s3://`` URLs and the like, and objects of stores.

The protocol for objects is a method ``__spdl_fetch__`` that returns all bytes, and ``str``, which gives the name for
messages. Images are fetched so. For other media, there may be a method ``__spdl_open__``, which returns either that, or
something of which native code reads the parts that it needs (``SupportsBlocks``). Objects of ``spdl.remote`` have both.
That package is imported when the first such URL is opened. Files of fsspec become such objects, too.
"""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ._errors import MediaError
from ._types import LoadFailure, Source

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._types import SupportsBlocks

#: Schemes that FFmpeg does not have. All others, HTTP among them, remain FFmpeg's.
_SCHEMES = ("s3://", "s3a://", "gs://", "az://", "azure://", "adl://", "abfs://", "abfss://")
#: Threads that fetch the sources of a batch, if fewer threads decode it: they wait for the network.
_FETCHING_THREADS = 8


def is_remote(source: object) -> bool:
    """Whether a source is in an object store."""
    if isinstance(source, str):
        return source.startswith(_SCHEMES)
    return hasattr(type(source), "__spdl_fetch__") or (hasattr(source, "fs") and _has_ranges(source))


def _has_ranges(file: Any) -> bool:
    """Whether fsspec reads parts of a file, opened by it or to be opened, as they are in the file system.

    Others are read through the file: those that are compressed, in memory, on a local disk, or copied by fsspec.
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
    """A source for which ``is_remote`` is true; ``str`` of it is its name. Files of fsspec become ``RemoteObject``."""
    if isinstance(source, str) or hasattr(type(source), "__spdl_fetch__"):
        return source
    from spdl.remote import RemoteObject

    return RemoteObject._of_file(source)


def fetch(source: Any) -> "Buffer":
    """The bytes of a source in an object store.

    Raises:
        spdl.remote.RemoteError: It cannot be read.
    """
    if isinstance(source, str):
        from spdl.remote import RemoteObject

        source = RemoteObject.of(source)
    data: Buffer = located(source).__spdl_fetch__()
    return data


def open_blocks(source: Any) -> "Buffer | SupportsBlocks":
    """A source of media in an object store: its bytes, or what native code reads parts of.

    Raises:
        spdl.remote.RemoteError: It cannot be read.
    """
    if isinstance(source, str):
        from spdl.remote import RemoteObject

        source = RemoteObject.of(source)
    source = located(source)
    open_it = getattr(source, "__spdl_open__", None)
    opened: Buffer | SupportsBlocks = source.__spdl_fetch__() if open_it is None else open_it()
    return opened


def has_blocks(source: object) -> bool:
    """Whether native code reads parts of a source, as ``SupportsBlocks`` says."""
    return hasattr(type(source), "__spdl_block__")


@dataclass(frozen=True, slots=True)
class Fetched:
    """The sources of a batch, with those in object stores fetched.

    Attributes:
        sources: The sources; empty data for those that could not be fetched.
        names: What messages call the fetched ones, by position.
        errors: Why others could not be fetched, by position.
    """

    sources: Sequence[Source]
    names: dict[int, str]
    errors: dict[int, Exception]

    def failure(self, failure: LoadFailure, first_index: int = 0) -> LoadFailure:
        """The failure of a source, as it would be if native code fetched and named it."""
        position = failure.index - first_index
        if position in self.errors:
            return LoadFailure(failure.index, failure.source, self.errors[position])
        if position in self.names:
            rename(failure.error, self.names[position])
        return failure

    def outcome(self, position: int, outcome: Any) -> Any:
        """The same for a result that is the exception, if there is one."""
        if position in self.errors:
            return self.errors[position]
        if isinstance(outcome, MediaError) and position in self.names:
            rename(outcome, self.names[position])
        return outcome


def fetch_all(
    sources: Sequence[Source], num_threads: int = 0, *, fetch: "Callable[[Any], Buffer | SupportsBlocks]" = fetch
) -> Fetched:
    """Fetch those sources of a batch that are in object stores, several at a time.

    Args:
        fetch: ``fetch``, or ``open_blocks`` for sources of which native code may read parts.
    """
    remote = [
        index
        for index, source in enumerate(sources)
        if (source.startswith(_SCHEMES) if type(source) is str else is_remote(source))  # saves a call for each path
    ]
    if not remote:
        return Fetched(sources, {}, {})
    outcomes = _fetch_several([sources[index] for index in remote], max(num_threads, _FETCHING_THREADS), fetch)
    fetched: list[Any] = list(sources)
    names: dict[int, str] = {}
    errors: dict[int, Exception] = {}
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
    sources: Sequence[Any], num_threads: int, fetch: "Callable[[Any], Buffer | SupportsBlocks]"
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
