"""Native part of spdl.io: buffers, and the formats that need no FFmpeg."""

from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

import numpy
import numpy.typing
from typing_extensions import Buffer

import spdl.io._images._applied
import spdl.io._types

class CPUBuffer:
    """
    An array in C order, in its own memory or in the caller's storage.

    Arrays made from it (``to_numpy``, ``to_torch``, ``memoryview``, DLPack) are views that keep it alive.

    It can be pickled, with all its attributes. From protocol 5 on its memory may travel out of band; the restored
    buffer is a view of the memory that arrived, read-only if that memory is.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost first."""

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """
        Type of the elements; AttributeError for bfloat16, which NumPy does not have.
        """

    @property
    def failures(self) -> tuple[spdl.io._types.LoadFailure, ...]:
        """
        The sources that could not be loaded, in order of ``index``; empty if all were loaded.
        """

    @property
    def origins(self) -> tuple[int | None, ...]:
        """
        The source of each image in a batch that was made with a transform; empty for every other buffer.

        The position of the image's source, or ``len(srcs) + k`` for spare ``k``; None for an image that is only zeros.
        """

    @property
    def excerpts(self) -> tuple[spdl.io._types.Excerpt | None, ...]:
        """
        For a batch of clips or sounds: the part of its source in each item, as an ``Excerpt``. ``None`` for zeros.
        """

    @property
    def applied(self) -> tuple[spdl.io._images._applied.AppliedTransform | None, ...]:
        """
        The geometry of each image in a batch that was made with a transform: one ``AppliedTransform`` each.

        None for an image that is only zeros. Empty for every other buffer. Computed on first access.
        """

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Version 3 of NumPy's array interface; AttributeError for bfloat16."""

    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    def __repr__(self) -> str: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class CPUStorage:
    """
    A block of memory for results, made by ``cpu_storage``.

    It is a writable buffer of bytes. A result stored in it is a view of it and keeps it alive; storing another result
    overwrites earlier ones.
    """

    def __len__(self) -> int:
        """Size in bytes."""

    def __repr__(self) -> str: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def new_storage(size: int) -> CPUStorage:
    """An uninitialized block of that many bytes."""

def set_origins(buffer: CPUBuffer, origins: tuple[int | None, ...]) -> None:
    """Set ``origins`` of a batch."""

def set_excerpts(buffer: CPUBuffer, excerpts: tuple[spdl.io._types.Excerpt | None, ...]) -> None:
    """Set ``excerpts`` of a batch."""

def new_buffer(shape: tuple[int, ...], typestr: str, storage: Buffer | numpy.typing.NDArray[Any] | None) -> CPUBuffer:
    """
    Make an uninitialized buffer.

    Args:
        shape: The sizes, any number of them, none negative.
        typestr: NumPy's type string of an integer or floating-point type, in the byte order of this machine; or "bfloat16",
            for which NumPy has no type string.
        storage: Writable memory for the array, or None for memory of its own.
    """

def restore_buffer(
    memory: Buffer,
    shape: tuple[int, ...],
    typestr: str,
    failures: tuple[spdl.io._types.LoadFailure, ...],
    origins: tuple[int | None, ...],
    plans: tuple[int, int, bytes] | None,
    excerpts: tuple[spdl.io._types.Excerpt | None, ...],
) -> CPUBuffer:
    """
    A CPUBuffer whose memory already holds the elements.

    Args:
        memory: A buffer of exactly the right size. The result keeps it alive, and is read-only if the buffer is.
        shape, typestr: As for ``new_buffer``.
        failures, origins: The values of these attributes.
        plans: What ``__reduce_ex__`` returned for ``applied``.
        excerpts: The value of this attribute.
    """

def large_memory() -> tuple[int, int]:
    """Number and total bytes of freed large blocks that are kept for reuse."""

def release_large_memory() -> None:
    """Free them."""

def large_memory_limit() -> int:
    """Limit on the bytes that are kept."""

def set_large_memory_limit(num_bytes: int | None) -> None:
    """
    Set the limit on the bytes that are kept; None restores the default. Excess memory is freed.
    """

def set_large_memory_patience(seconds: float) -> None:
    """
    Set the age from which kept blocks are freed; checked when other blocks are allocated or freed.
    """

def memory_limit(root: str = "/") -> int:
    """
    Number of bytes of memory that this process can have, according to the system's files below ``root``.
    """

def set_memory_budget(num_bytes: int) -> int:
    """
    Set how much memory all threads together may use for decoding large pictures. Returns the previous limit.
    """

def take_memory_peak() -> int:
    """Peak of that memory since the last call."""

class Transform:
    """
    The native form of ``spdl.io.ImageTransform``, which checks the arguments.

    ``factor`` and ``summand`` convert levels (0 to 255) to elements, per channel. Immutable.
    """

    def __init__(
        self,
        *,
        height: int,
        width: int,
        resize: str,
        side: int,
        is_centered: bool,
        crop: str,
        scale: tuple[float, float],
        ratio: tuple[float, float],
        given: tuple[int, int, int, int],
        flip: float,
        vertical_flip: float,
        interpolation: str,
        color: str,
        dtype: str,
        layout: str,
        factor: tuple[float, float, float, float],
        summand: tuple[float, float, float, float],
        fill: tuple[int, int, int, int],
        orient: bool,
        exact: bool,
    ) -> None: ...
    def plan(
        self, height: int, width: int, seed: int
    ) -> tuple[
        int, int, tuple[int, int, int, int], tuple[int, int], tuple[int, int, int, int], tuple[int, int], bool, bool
    ]:
        """
        Return the plan for an upright picture of that size.

        Returns:
            The height and width of the picture; the crop; its height and width after resizing; the window of that; top and
            left of the window; whether it is flipped horizontally, and vertically. Rectangles are top, left, height, width.

        Raises:
            DecodeError: A given crop does not lie inside the picture.
        """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image."""

    @property
    def dtype(self) -> str:
        """Name of the elements' type."""

def new_batch(transform: Transform, count: int, storage: Buffer | numpy.typing.NDArray[Any] | None) -> CPUBuffer:
    """
    A batch with room for ``count`` images of that transform, uninitialized.

    Its ``origins`` assume one source per slot, in order.

    Args:
        storage: Writable memory for the array, or None for memory of its own.
    """

def load_slots(
    buffer: CPUBuffer,
    slots: list[int] | None,
    sources: list[str | Buffer | numpy.typing.NDArray[numpy.uint8]],
    labels: list[Any],
    *,
    first_index: int,
    transform: Transform,
    seeds: list[int] | None,
    replay: list[tuple[Any, ...]] | None,
    max_pixels: int,
    num_threads: int,
    fallback_loader: object | str | None,
) -> tuple[spdl.io._types.LoadFailure, ...] | None:
    """
    Load pictures into slots of a batch: JPEG with libjpeg-turbo, other formats with FFmpeg.

    Args:
        buffer: From ``new_batch``.
        slots: The slot of each source's image, without duplicates. None: the first slots, in order.
        sources: The pictures: a path each, or encoded data as a contiguous buffer of bytes.
        labels: The ``source`` attribute of each picture's ``LoadFailure``.
        first_index: The ``index`` attribute of a failure of the first source.
        seeds: The 64-bit seed of each source's random choices, or None for zeros.
        replay: The plan of each source, as ``Transform.plan`` returns it, used instead of a random one; or None.
        max_pixels: The largest number of pixels in a picture.
        num_threads: The number of threads, including the caller's; 0 means the caller's alone.
        fallback_loader: ``_media.fallback_loader()``, the loader for other formats; None; or why there is none, as text, which is
            then the reason of each failure.

    Returns:
        The failures. None if a source needs the other loader and ``fallback_loader`` is None.

    Releases the GIL; thread-safe for different slots.
    """

def are_plain(sources: list[Any]) -> bool:
    """
    Whether ``load_slots`` takes all sources as they are: data in memory, and paths that cannot be URLs.
    """

def is_url(path: str) -> bool:
    """
    Whether the text is a URL that FFmpeg can fetch, not the path of a file.
    """

def load_jpeg(
    source: str | Buffer | numpy.typing.NDArray[numpy.uint8], *, name: str | None, max_pixels: int, orient: bool
) -> CPUBuffer | None:
    """
    Load one JPEG at full size, as RGB.

    Args:
        source: A path, or encoded data as a contiguous buffer of bytes.
        name: The name of the source in messages, or None for its path or address.
        max_pixels: The largest number of pixels that it may have.
        orient: Whether to apply the EXIF orientation.

    Returns:
        The image; None for a source that is not a JPEG, a JPEG that libjpeg-turbo does not decode, and a URL.

    Releases the GIL; thread-safe.
    """

def keep_slots(buffer: CPUBuffer, slots: list[int]) -> None:
    """
    Compact the batch: keep only the images in these slots.

    Args:
        slots: The slots to keep, in ascending order.
    """

def clear_slots(buffer: CPUBuffer, slots: list[int]) -> None:
    """Fill these images with zero bytes and clear what is recorded of them."""

def set_failures(buffer: CPUBuffer, failures: tuple[spdl.io._types.LoadFailure, ...]) -> None:
    """Set ``failures`` of a batch that was assembled elsewhere."""

def decode_planes(data: Buffer) -> list[tuple[int, int]]:
    """
    Decode a JPEG to planes of its full size, drop them, and return their sizes.

    This is the part of loading that libjpeg-turbo does, for benchmarks to compare with. Releases the GIL.
    """

def encode_gray_jpeg(
    pixels: Buffer | numpy.typing.NDArray[Any], *, height: int, width: int, qscale: int, name: str
) -> bytes:
    """
    Encode a gray picture as a JPEG of one component.

    Args:
        pixels: Rows without padding, one byte a pixel.
        height, width: The size.
        qscale: As for FFmpeg's encoder of JPEG, from 2, the best, to 31.
        name: The file in messages.

    Raises:
        EncodeError: libjpeg-turbo refuses the picture, such as for its size.

    Releases the GIL.
    """

def libjpeg_turbo_version() -> str:
    """Version of the libjpeg-turbo headers of this build."""

def libjpeg_turbo_path() -> str:
    """File that libjpeg-turbo was loaded from."""

def read_npy_header(data: Buffer | numpy.typing.NDArray[Any]) -> tuple[str, bool, tuple[int, ...], int]:
    """
    Read the header of an npy file in memory.

    Returns:
        The dtype as NumPy's type string (neither structured nor of objects), whether the array is in Fortran order, the
        shape, and the offset of the data. The caller has to check that the data is complete.

    Raises:
        ArchiveError: The data is of another format, or damaged.

    Reads the header only, and holds the GIL.
    """

def read_zip_directory(data: Buffer | numpy.typing.NDArray[Any]) -> list[tuple[str, int, int, int, int, int, bool]]:
    """
    Read the directory of a zip archive in memory.

    Returns:
        For each entry: name, offset of the data, compressed size, uncompressed size, method, CRC-32, whether it is
        encrypted. The data lies inside the archive, and no two entries overlap.

    Raises:
        ArchiveError: The data is of another format, or damaged.

    Releases the GIL.
    """

def inflate(data: Buffer, memory: Buffer) -> bool:
    """
    Inflate raw deflate data into memory of exactly the expected size.

    Returns:
        Whether the data gave exactly that many bytes. If not, use zlib, which reports the reason; always ``False`` if this
        build has no libdeflate.

    Releases the GIL.
    """

def crc32(data: Buffer) -> int | None:
    """
    CRC-32 of a buffer, as in zip archives; ``None`` if this build has no libdeflate.

    Releases the GIL if it takes long.
    """

def libdeflate_version() -> str | None:
    """
    Version of the libdeflate headers of this build; ``None`` if it has none.
    """

def libdeflate_path() -> str:
    """File that libdeflate was loaded from."""

def resample(
    plane: numpy.typing.NDArray[numpy.uint8],
    *,
    width: int,
    height: int,
    kernels: str,
    interpolation: str = "bicubic",
    exact: bool = False,
    crop: tuple[int, int, int, int] | None = None,
    window: tuple[int, int, int, int] | None = None,
    flip: bool = False,
    vertical_flip: bool = False,
) -> bytes:
    """
    Resample one plane.

    Args:
        kernels: The instruction set, one of ``instruction_sets()``; all give the same result.
        interpolation: ``"nearest"``, ``"box"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
        exact: Whether to compute the same bytes as Pillow.
        crop: The part of the plane to resample, ``(top, left, height, width)``, or None for all of it.
        window: The part of the result to return, ``(top, left, height, width)``, or None for all of it.
        flip, vertical_flip: Whether to mirror the returned part.

    Returns:
        One byte per sample, row by row.
    """

def to_elements(
    levels: numpy.typing.NDArray[numpy.uint8],
    *,
    kernels: str,
    dtype: str,
    factor: Sequence[float],
    summand: Sequence[float],
) -> bytes:
    """
    Convert levels to array elements: ``level * factor + summand``.

    Args:
        levels: The levels of packed pixels; those of channel ``c`` are at ``len(factor) * i + c``.
        kernels: The instruction set, one of ``instruction_sets()``; all give the same result.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        factor, summand: One number for each channel; 1, 3 or 4 channels.

    Returns:
        The elements' bytes in the order of this machine.
    """

def instruction_sets() -> list[str]:
    """
    Names of the instruction sets with kernels that run here, slowest first.
    """

class TarMembers:
    """
    Iterates over the regular files of a tar archive in memory: name, view of the data.

    Headers are read ahead, a growing number at a time; without the GIL if they are many. Releasing it for a few
    would cost threads that iterate in parallel more than the reading itself.
    """

    def __init__(self, src: Buffer | numpy.typing.NDArray[Any], ignore_zeros: bool = False) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, memoryview]: ...

class TarStream:
    """
    Iterates over the regular files of a tar archive that is read from a stream: name, data.

    Never reads beyond the end of the member that it returned last; after the last one, it reads the zeros that follow.
    """

    def __init__(self, src: Any, ignore_zeros: bool = False) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, bytes]: ...

class WAVHeader:
    """The header of a WAV file. Read-only."""

    @property
    def audio_format(self) -> int:
        """1: PCM; 3: IEEE float; other values: a compressed coding."""

    @property
    def num_channels(self) -> int: ...
    @property
    def sample_rate(self) -> int:
        """In Hz."""

    @property
    def byte_rate(self) -> int:
        """Bytes per second, as stated in the file."""

    @property
    def block_align(self) -> int:
        """Bytes of one sample of all channels."""

    @property
    def bits_per_sample(self) -> int: ...
    @property
    def data_size(self) -> int:
        """Bytes of all samples."""

    def __repr__(self) -> str: ...

class WAVArray:
    """
    Samples of a WAV file, ``(samples, channels)``, as a view of the file in memory.

    Arrays made from it (``to_numpy``, ``to_torch``, ``numpy.asarray``) are views. It keeps the file's memory, which can be
    neither freed nor resized as long as it lives; the arrays keep it alive. Samples of 24 bits and big-endian ones are a copy
    in memory of its own.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """``(samples, channels)``."""

    @property
    def sample_rate(self) -> int:
        """In Hz."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Version 3 of NumPy's array interface."""

    def __repr__(self) -> str: ...

def parse_wav(data: Buffer | numpy.typing.NDArray[Any]) -> WAVHeader:
    """
    Read the header of a WAV file of any coding.

    Args:
        data: The whole file, as a contiguous buffer.

    Raises:
        WAVError: The data is malformed or truncated. It is a ``ValueError``.

    Reads a few dozen bytes, and holds the GIL.
    """

def load_wav(
    data: Buffer | numpy.typing.NDArray[Any], time_offset_seconds: float | None, duration_seconds: float | None
) -> WAVArray:
    """
    View the samples of a WAV file in memory.

    Args:
        data: The whole file, as a contiguous buffer.
        time_offset_seconds: The start of the view, or None for the beginning.
        duration_seconds: The maximum length of the view, or None for the rest of the file.

    Raises:
        WAVError: See ``spdl.io.load_wav``.

    Reads a few dozen bytes, and holds the GIL; copies samples without it.
    """
