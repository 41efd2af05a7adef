"""Formats that are read in memory without FFmpeg, mostly in place: npy, npz, tar and WAV."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from spdl._numbers import as_bool, as_float, as_int, int_or_none
from spdl._reports import add_note
from spdl.io import _native
from spdl.io._errors import ArchiveError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from ._native import WAVArray, WAVHeader

#: Compression methods; section 4.4.5 of PKWARE's APPNOTE.
_STORED = 0
_DEFLATED = 8

#: Deflate expands two bits to at most 258 bytes.
_MAX_INFLATION = 1032

#: Compressed data goes to zlib in chunks of this size, so that the output of one stays in the CPU's caches.
_CHUNK_SIZE = 1 << 16

#: First bytes of npy files.
_NPY_MAGIC = b"\x93NUMPY"

_DEFAULT_LIMIT = 2**30


@dataclass(frozen=True, slots=True)
class _Entry:
    """Location of an entry's data, and its expected size and checksum."""

    offset: int
    compressed_size: int
    uncompressed_size: int
    method: int
    crc32: int | None


class NpzFile(Mapping[str, "NDArray[Any]"]):
    """Mapping from names to arrays, each made when it is accessed. ``load_npz`` makes one from a whole file.

    Names are accepted with and without ``.npy``. An entry that is not an npy file gives ``bytes``, as in NumPy. An
    array that is stored uncompressed is a view of ``data``, writable if ``data`` is; a deflated one is inflated at each
    access into its own writable memory. ``data`` can neither be freed nor resized while the mapping or a view exists.

    Args:
        data: Content of the archive, as a contiguous buffer.
        meta: Mapping from the name in the archive to ``(offset, compressed_size, uncompressed_size, method)``,
            where ``offset`` is that of the data itself and ``method`` is 0 (stored) or 8 (deflated). An optional fifth
            value is the CRC-32 to check.
        max_uncompressed_bytes: Largest total uncompressed size of all deflated entries, in bytes.

    Attributes:
        files: The names without ``.npy``, in the order of ``meta``.

    Raises:
        ValueError: ``meta`` is wrong: another number of values, a region outside ``data``, another method; or the
            deflated entries are larger than the limit, or the limit is negative.
        TypeError: ``data`` is not a contiguous buffer, or ``meta`` has values that are not integers.

    Reading an array raises ``KeyError`` for an unknown name, and ``ArchiveError`` if its data is damaged. The
    CRC-32 is checked at the first access. Thread-safe; inflating and checking release the GIL. Inflating uses
    libdeflate if the native part was built with it, as wheels are; otherwise the standard library's zlib, which takes
    twice as long. libdeflate inflates an array in one call, which cannot be interrupted.
    """

    def __init__(
        self,
        data: "Buffer | NDArray[Any]",
        meta: Mapping[str, tuple[int, int, int, int] | tuple[int, int, int, int, int | None]],
        *,
        max_uncompressed_bytes: int = _DEFAULT_LIMIT,
    ) -> None:
        max_uncompressed_bytes = as_int("max_uncompressed_bytes", max_uncompressed_bytes, 0)
        self._data = _as_bytes(data)
        self._entries = {name: _checked(name, entry, len(self._data)) for name, entry in meta.items()}
        inflated = sum(entry.uncompressed_size for entry in self._entries.values() if entry.method == _DEFLATED)
        if inflated > max_uncompressed_bytes:
            raise ValueError(
                f"the deflated entries have {inflated} bytes together, more than max_uncompressed_bytes"
                f" ({max_uncompressed_bytes}); raise the limit if the archive can be trusted"
            )
        # Each entry is checked once: changes through a writable view afterwards are not damage.
        self._checked: set[str] = set()
        self.files = [name.removesuffix(".npy") for name in self._entries]

    def __getitem__(self, key: str) -> "NDArray[Any]":
        name = key if key in self._entries else f"{key}.npy"
        if name not in self._entries:
            raise KeyError(f"{key} is not a file in the archive")
        entry = self._entries[name]
        data = self._data[entry.offset : entry.offset + entry.compressed_size]
        if entry.method == _DEFLATED:
            data = _inflate(name, entry, data)
        if entry.crc32 is not None and name not in self._checked:
            found = _crc32(data)
            if found != entry.crc32:
                raise _damage("zip", f"entry {name!r} has CRC-32 {found:08x} where {entry.crc32:08x} is stated")
            self._checked.add(name)
        if data[: len(_NPY_MAGIC)] != _NPY_MAGIC:  # whatever its name is
            return bytes(data)  # type: ignore[return-value]  # NumPy's stubs declare arrays alone, too
        try:
            return load_npy(data)
        except ArchiveError as exc:
            add_note(exc, f"in entry {name!r} of the archive")
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries or f"{key}.npy" in self._entries

    def __repr__(self) -> str:
        return f"NpzFile object with {len(self)} entries."


def load_npz(data: "Buffer | NDArray[Any]", *, max_uncompressed_bytes: int = _DEFAULT_LIMIT) -> NpzFile:
    """Open an npz file in memory as a mapping of names to arrays. Experimental.

    Args:
        data: Content of the file, as a contiguous buffer. Zip64 and bytes before the archive are supported.
        max_uncompressed_bytes: Largest total uncompressed size of all deflated arrays, in bytes.

    Returns:
        A mapping of names to arrays, which are made on access. See ``NpzFile``.

    Raises:
        ArchiveError: ``The data is not a valid zip file.``, ``Failed to locate the end of the central directory.``, or
            the directory is damaged. Damage inside an entry raises when the entry is accessed.
        ValueError: An entry is encrypted, or compressed by a method other than deflate, or the deflated entries are
            larger than the limit.
        TypeError: ``data`` is not a contiguous buffer.
    """
    meta: dict[str, tuple[int, int, int, int, int]] = {}
    for (
        name,
        offset,
        compressed_size,
        uncompressed_size,
        method,
        crc32,
        is_encrypted,
    ) in _native.core.read_zip_directory(data):
        if is_encrypted:
            raise ValueError(f"entry {name!r} is encrypted, which is not supported")
        meta[name] = offset, compressed_size, uncompressed_size, method, crc32
    return NpzFile(data, meta, max_uncompressed_bytes=max_uncompressed_bytes)


def load_npy(data: "Buffer | NDArray[Any]", *, copy: bool = False) -> "NDArray[Any]":
    """Return the array of an npy file in memory, without a copy.

    Args:
        data: Content of the file, as a contiguous buffer; bytes after the array are ignored. Versions 1 to 3.
        copy: Whether to copy the array to its own memory, writable and independent of ``data``.

    Returns:
        An array with the file's shape, dtype (including byte order) and memory order. Without ``copy`` it is a view,
        writable if ``data`` is, and ``data`` can neither be freed nor resized while the array or a view of it exists.

    Raises:
        ArchiveError: ``data`` is not an npy file, is damaged, ends early, or has an object or structured dtype.
        TypeError: ``data`` is not a contiguous buffer.

    Takes about two microseconds, plus the time of the copy, which releases the GIL if it is long.
    """
    import numpy as np

    copy = as_bool("copy", copy)
    descr, is_fortran_order, shape, offset = _native.core.read_npy_header(data)
    try:
        dtype = np.dtype(descr)
    except TypeError as exc:
        raise _damage("npy", f"its dtype {descr!r} is not known to NumPy") from exc
    if dtype.hasobject:
        raise _damage("npy", f"its dtype {descr!r} has Python objects, and loading those could run any code")
    # An array keeps its base alive, which is enough for bytes. Other buffers could be resized: `frombuffer` makes an
    # array that holds a buffer export, which `ndarray` does not.
    memory: Any = data
    if type(data) is not bytes:
        memory = np.frombuffer(memory, np.uint8)
    order: Literal["C", "F"] = "F" if is_fortran_order else "C"
    try:
        array: NDArray[Any] = np.ndarray(shape, dtype, memory, offset, None, order)
    except TypeError:  # NumPy raises it for memory that is too small
        needed, there = prod(shape) * dtype.itemsize, len(memory) - offset
        raise _damage(
            "npy", f"an array of shape {shape} and dtype {dtype} needs {needed} bytes, and the file has {there}"
        ) from None
    except ValueError as exc:
        raise _damage("npy", f"NumPy has no array of shape {shape} and dtype {dtype}: {exc}") from exc
    return array.copy(order) if copy else array


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


def load_wav(
    data: "Buffer | NDArray[Any]", time_offset_seconds: float | None = None, duration_seconds: float | None = None
) -> "WAVArray":
    """View the samples of a WAV file in memory, without a copy where dtype and byte order allow it.

    Args:
        data: Content of the whole file (RIFF, RIFX, RF64 or BW64), as a contiguous buffer.
        time_offset_seconds: Start of the view, in seconds; ``None``: the first sample. Sample ``k`` has the time
            ``k / sample_rate``, and is in the view if ``start <= time < end``.
        duration_seconds: Duration of the view, in seconds, cut at the end of the file. ``None``: up to the end.

    Returns:
        An object with an array interface, for ``numpy.asarray``, ``to_numpy`` and others, of shape
        ``(samples, channels)``: ``uint8``, ``int16`` or ``int32`` for PCM of 8, 16 or 32 bits, ``float32`` or
        ``float64`` for IEEE float; not scaled. It is writable if ``data`` is, and keeps ``data`` alive; ``data`` cannot
        be resized while it or an array made from it exists. PCM of 24 bits and big-endian samples (RIFX) are a copy
        instead: 24 bits as left-justified ``int32``. Its ``sample_rate`` is in Hz.

    Raises:
        WAVError: The data is malformed or truncated, or has another encoding (A-law, µ-law, ADPCM, 64-bit integers; the
            message names it); or a time is negative, not finite, or not before the end. Also a ``ValueError``.
        TypeError: ``data`` is not a contiguous buffer, or a time is not a number.

    Takes about a microsecond, whatever the size, unless it copies, which it does without the GIL. Safe to call from
    several threads.
    """
    start = _as_seconds("time_offset_seconds", time_offset_seconds)
    return _native.core.load_wav(data, start, _as_seconds("duration_seconds", duration_seconds))


def parse_wav(data: "Buffer | NDArray[Any]") -> "WAVHeader":
    """Read the header of a WAV file in memory, even if ``load_wav`` does not support its encoding.

    Args:
        data: Content of the whole file (RIFF, RIFX, RF64 or BW64), as a contiguous buffer.

    Returns:
        ``audio_format`` (1: PCM, 3: IEEE float, 65534: WAVE_FORMAT_EXTENSIBLE, others are other encodings),
        ``num_channels``, ``sample_rate`` in Hz, ``byte_rate`` and ``block_align`` as the file states them,
        ``bits_per_sample``, and ``data_size`` in bytes: of what is there, if the file does not state it.

    Raises:
        WAVError: The data is malformed or truncated. Also a ``ValueError``.
        TypeError: ``data`` is not a contiguous buffer.
    """
    return _native.core.parse_wav(data)


def _as_seconds(name: str, value: Any) -> float | None:
    return None if value is None else as_float(name, value)  # native code refuses what is not finite


def _as_bytes(data: "Buffer | NDArray[Any]") -> memoryview:
    import numpy as np

    view = memoryview(data)  # type: ignore[arg-type]  # NumPy's stubs declare buffers from Python 3.12 on
    if not view.c_contiguous:
        raise TypeError("data must be a C-contiguous buffer")
    if view.format == "B" and view.ndim == 1:
        return view
    # NumPy can view any buffer as bytes, memoryview.cast only some.
    return np.frombuffer(view, np.uint8).data if view.nbytes else memoryview(b"")


def _checked(name: str, entry: tuple[int | None, ...], num_bytes: int) -> _Entry:
    if len(entry) not in (4, 5):
        raise ValueError(f"entry {name!r} must have 4 or 5 values, got {len(entry)}")
    numbers = [int_or_none(value) for value in entry[:4]]
    if None in numbers:
        raise TypeError(f"entry {name!r} must have integers, got {type(entry[numbers.index(None)]).__name__}")
    offset, compressed_size, uncompressed_size, method = numbers
    crc32 = entry[4] if len(entry) == 5 else None
    checked = _Entry(offset, compressed_size, uncompressed_size, method, crc32)  # type: ignore[arg-type]  # as checked
    if min(checked.offset, checked.compressed_size, checked.uncompressed_size) < 0:
        raise ValueError(f"entry {name!r} has a negative offset or size")
    if checked.offset + checked.compressed_size > num_bytes:
        raise ValueError(f"entry {name!r} is not inside the data")
    if checked.method not in (_STORED, _DEFLATED):
        raise ValueError(
            f"entry {name!r} is compressed by method {method}, which is not supported; stored (0) and deflated (8) are"
        )
    if checked.method == _STORED and checked.compressed_size != checked.uncompressed_size:
        raise ValueError(f"entry {name!r} is stored, and its two sizes differ")
    return checked


def _crc32(data: memoryview) -> int:
    found = _native.core.crc32(data)
    return zlib.crc32(data) if found is None else found


def _inflate(name: str, entry: _Entry, compressed: memoryview) -> memoryview:
    """Inflate the data into memory of the size in the entry. Never allocates more, whatever the data contains.

    libdeflate, if the native part has it, takes half the time of zlib, but reports only success or failure. After a
    failure, zlib reads the data again to find the reason. So results and messages are the same with and without it.
    """
    import numpy as np

    size = entry.uncompressed_size
    if size > len(compressed) * _MAX_INFLATION:
        raise _damage(
            "zip", f"entry {name!r} cannot have {size} bytes: {len(compressed)} compressed ones are too few for that"
        )
    memory = np.empty(size, np.uint8).data
    if _native.core.inflate(compressed, memory):
        return memory
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    filled = 0
    try:
        for start in range(0, len(compressed), _CHUNK_SIZE):
            # Asking for one byte more than fits detects data that is too long.
            part = inflater.decompress(compressed[start : start + _CHUNK_SIZE], size - filled + 1)
            if len(part) > size - filled:
                raise _damage("zip", f"entry {name!r} has more than the {size} bytes it states")
            memory[filled : filled + len(part)] = part
            filled += len(part)
    except zlib.error as exc:
        raise _damage("zip", f"entry {name!r} is not valid deflate data: {exc}") from exc
    if filled != size or not inflater.eof:
        raise _damage("zip", f"entry {name!r} ends after {filled} bytes of {size}")
    return memory


def _damage(kind: str, reason: str) -> ArchiveError:
    action = f"read the {kind} data"
    return ArchiveError(f"cannot {action}: {reason}", action=action)
