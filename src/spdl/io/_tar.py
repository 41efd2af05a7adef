"""Members of tar archives, from memory in place or from a stream."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, overload

from . import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


class SupportsRead(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...


@overload
def iter_tarfile(src: SupportsRead) -> Iterator[tuple[str, bytes]]: ...
@overload
def iter_tarfile(src: "Buffer | NDArray[Any]") -> Iterator[tuple[str, memoryview]]: ...
def iter_tarfile(
    src: "Buffer | NDArray[Any] | SupportsRead",
) -> Iterator[tuple[str, memoryview]] | Iterator[tuple[str, bytes]]:
    """Iterate over the regular files of a tar archive. Experimental.

    POSIX (ustar, PAX), GNU and V7 archives, not compressed. Directories, links and devices are passed over.

    Args:
        src: The archive: a contiguous buffer, or an object with ``read(size)``. Such a stream is read no further than
            the end of the member that was given last, and has to give as many bytes as it was asked for
            (``io.BufferedReader`` makes that of streams that do not).

    Returns:
        An iterator of ``(name, data)``, in the order of the archive. Names are as the archive has them, which may be
        absolute or lead outside with ``..``; bytes that are not UTF-8 become surrogates, as in ``tarfile``.

        For a buffer, ``data`` is a ``memoryview`` of it, writable if the buffer is. While the iterator or a view lives,
        the buffer can neither be freed nor resized. For a stream, ``data`` is ``bytes``.

        An empty source has no members. One thread at a time may take from it; different iterators are independent.

    Raises:
        TypeError: ``src`` is neither, or ``read`` gives something else than bytes.
        ArchiveError: While iterating, when all that comes before has been given: a header is damaged, a member is a
            sparse file, the source is not a tar archive (the message says what it looks like), or it ends early
            (``Failed to fetch data.``). A buffer may lack the blocks of zeros at the end, as some writers leave them
            out; a stream may not, as its end may be that of a connection.

    The headers of a buffer are read ahead, without the GIL where they are many. A stream's are read one at a time.
    """
    try:
        memoryview(src)  # type: ignore[arg-type]  # asked to find out
    except TypeError:
        if not callable(getattr(src, "read", None)):
            raise TypeError(
                f"src must be a contiguous buffer or have a method read(size), got {type(src).__name__}"
            ) from None
        return _native.core.TarStream(src)
    return _native.core.TarMembers(src)  # type: ignore[arg-type]  # it is a buffer
