"""``iter_tarfile``: iterate over the files of a tar archive, in memory (in place) or from a stream."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, overload

from spdl.io import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


class SupportsRead(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...


@overload
def iter_tarfile(src: SupportsRead, *, ignore_zeros: bool = False) -> Iterator[tuple[str, bytes]]: ...
@overload
def iter_tarfile(src: "Buffer | NDArray[Any]", *, ignore_zeros: bool = False) -> Iterator[tuple[str, memoryview]]: ...
def iter_tarfile(
    src: "Buffer | NDArray[Any] | SupportsRead", *, ignore_zeros: bool = False
) -> Iterator[tuple[str, memoryview]] | Iterator[tuple[str, bytes]]:
    """Iterate over the regular files of a tar archive. Experimental.

    Supports uncompressed POSIX (ustar, PAX), GNU and V7 archives. Directories, links and devices are skipped.

    Args:
        src: Archive: a contiguous buffer, or an object with ``read(size)``. A stream is not read beyond
            the end of the member that was yielded last, except for the zeros behind the last one, and must return as
            many bytes as requested (wrap other streams in ``io.BufferedReader``).
        ignore_zeros: Whether to read on behind the zeros that end an archive, as ``tar --ignore-zeros`` does: for
            archives that were joined with ``cat``. Otherwise a ``UserWarning`` says where an ignored archive begins.

    Returns:
        An iterator of ``(name, data)``, in the order of the archive. Names are unchanged, so they may be
        absolute or lead outside with ``..``; bytes that are not UTF-8 become surrogates, as in ``tarfile``.

        For a buffer, ``data`` is a ``memoryview`` of it, writable if the buffer is. While the iterator or a view
        exists, the buffer can neither be freed nor resized. For a stream, ``data`` is ``bytes``.

        An empty source has no members. An iterator is not thread-safe; different iterators are independent.

    Raises:
        TypeError: ``src`` is neither a buffer nor a stream, or ``read`` does not return bytes.
        ArchiveError: Raised while iterating, after all previous members were yielded: a header is damaged, a member is
            a sparse file, the source is not a tar archive (the message says what it looks like), or it ends early
            (``Failed to fetch data.``).

    The final blocks of zeros may be missing, because some writers omit them. A ``UserWarning`` after the last member
    says so: the archive may have been longer.

    The headers in a buffer are read ahead, without the GIL if there are many. Those in a stream are read one at a time.
    """
    try:
        memoryview(src)  # type: ignore[arg-type]  # raises TypeError for anything else
    except TypeError:
        if not callable(getattr(src, "read", None)):
            raise TypeError(
                f"src must be a contiguous buffer or have a method read(size), got {type(src).__name__}"
            ) from None
        return _native.core.TarStream(src, bool(ignore_zeros))
    return _native.core.TarMembers(src, bool(ignore_zeros))  # type: ignore[arg-type]  # it is a buffer
