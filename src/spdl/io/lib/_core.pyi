"""Native part of spdl.io: buffers, and the formats that need no FFmpeg."""

from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

import numpy
import numpy.typing
from typing_extensions import Buffer

import spdl.io._applied
import spdl.io._types

class CPUBuffer:
    """
    An array in C order, in memory of its own or in storage of the caller's.

    Arrays made from it (``to_numpy``, ``to_torch``, ``memoryview``, DLPack) are views that keep it alive.

    It pickles, with all that it has. From protocol 5 on its memory may travel beside the pickle; what comes back is a
    view of the memory that came, read-only if that is.
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
        What could not be loaded, in order of ``index``; empty when all went well.
        """

    @property
    def origins(self) -> tuple[int | None, ...]:
        """
        Where each image of a batch that a transform made comes from; empty for every other buffer.

        The position of the image's source, or ``len(srcs) + k`` for spare ``k``; None for an image that is only zeros.
        """

    @property
    def applied(self) -> tuple[spdl.io._applied.AppliedTransform | None, ...]:
        """
        What became of each image of a batch that a transform made: one ``AppliedTransform`` each.

        None for an image that is only zeros. Empty for every other buffer. Made when it is first asked for.
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
    A block of memory to put results in; ``cpu_storage`` makes it.

    It is a writable buffer of bytes. What is put into it is a view of it and keeps it alive; putting in something else
    changes what earlier results show.
    """

    def __len__(self) -> int:
        """Size in bytes."""

    def __repr__(self) -> str: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def new_storage(size: int) -> CPUStorage:
    """A block of so many bytes, whose contents are undefined."""

def set_origins(buffer: CPUBuffer, origins: tuple[int | None, ...]) -> None:
    """What a batch is to have as ``origins``."""

def new_buffer(shape: tuple[int, ...], typestr: str, storage: Buffer | numpy.typing.NDArray[Any] | None) -> CPUBuffer:
    """
    A buffer whose elements are still to be written.

    Args:
        shape: Any number of sizes, none of them negative.
        typestr: NumPy's type string of an integer or a floating point type, in the byte order of this machine; or
            "bfloat16", which has none.
        storage: Writable memory for the array, or None for memory of its own.
    """

def restore_buffer(
    memory: Buffer,
    shape: tuple[int, ...],
    typestr: str,
    failures: tuple[spdl.io._types.LoadFailure, ...],
    origins: tuple[int | None, ...],
    plans: tuple[int, int, bytes] | None,
) -> CPUBuffer:
    """
    A CPUBuffer in memory that holds its elements already.

    Args:
        memory: A buffer of exactly so many bytes. The result keeps it, and is read-only if it is.
        shape, typestr: As for ``new_buffer``.
        failures, origins: What it is to have as these.
        plans: What ``__reduce_ex__`` gave for ``applied``.
    """

def large_memory() -> tuple[int, int]:
    """
    Large blocks of memory that were freed and are kept for reuse: their number, and their bytes.
    """

def release_large_memory() -> None:
    """Free them."""

def large_memory_limit() -> int:
    """How many bytes of them may be kept."""

def set_large_memory_limit(num_bytes: int | None) -> None:
    """
    Keep no more than that; None: as much as without this call. What is kept beyond it is freed.
    """

def set_large_memory_patience(seconds: float) -> None:
    """Free those that were kept so long, once others are made or freed."""

def memory_limit(root: str = "/") -> int:
    """
    How many bytes of memory this process can have, by what the system's files below ``root`` say.
    """

def set_memory_budget(num_bytes: int) -> int:
    """
    How much memory all threads together may use for decoding large pictures. Returns how much it was.
    """

def take_memory_peak() -> int:
    """How much of it was in use at most since this was last asked."""

class Transform:
    """
    What becomes of pictures: the native form of ``spdl.io.ImageTransform``, which checks its arguments.

    ``factor`` and ``summand`` make elements of levels (0 to 255), for each channel. Immutable.
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
        What it does with an upright picture of that size.

        Returns:
            Height and width of the picture; crop; height and width it becomes; window of that; top and left of the
            window; whether it is flipped, and vertically. Rectangles are top, left, height, width.

        Raises:
            DecodeError: A given crop leaves the picture.
        """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image."""

    @property
    def dtype(self) -> str:
        """Name of the elements' type."""

def new_batch(transform: Transform, count: int, storage: Buffer | numpy.typing.NDArray[Any] | None) -> CPUBuffer:
    """
    A batch for ``count`` images of that transform, whose elements are still to be written.

    Args:
        storage: Writable memory for the array, or None for memory of its own.
    """

def load_slots(
    buffer: CPUBuffer,
    slots: list[int],
    sources: list[str | Buffer | numpy.typing.NDArray[numpy.uint8]],
    labels: list[Any],
    *,
    first_index: int,
    transform: Transform,
    seeds: list[int] | None,
    replay: list[tuple[Any, ...]] | None,
    max_pixels: int,
    num_threads: int,
    general_way: object | str | None,
) -> tuple[spdl.io._types.LoadFailure, ...] | None:
    """
    Load pictures into slots of a batch: JPEG here, others by the general way.

    Args:
        buffer: From ``new_batch``.
        slots: For each source the position of its image. No slot twice.
        sources: For each picture a path, or encoded data as a contiguous buffer of bytes.
        labels: For each picture what its failure is to carry as ``source``.
        first_index: What the failure of the first source is to carry as ``index``.
        seeds: For each source 64 bits that decide what is random, or None for zeros.
        replay: For each source a plan (what ``Transform.plan`` gives) in place of one of its own, or None.
        max_pixels: How many of them a picture may have.
        num_threads: How many threads work, the caller's among them; 0 is that one alone.
        general_way: ``_media.general_way()``, or None; or why there is none, which is the reason of failures then.

    Returns:
        What could not be loaded. None if a source needs the general way and ``general_way`` is None.

    Releases the GIL; safe to call from several threads, for different slots.
    """

def is_url(path: str) -> bool:
    """Whether it names something for FFmpeg to fetch, and no file."""

def load_jpeg(
    source: str | Buffer | numpy.typing.NDArray[numpy.uint8], *, name: str | None, max_pixels: int, orient: bool
) -> CPUBuffer | None:
    """
    Load one JPEG of its own size, as RGB.

    Args:
        source: A path, or encoded data as a contiguous buffer of bytes.
        name: What messages call it, or None for its path or address.
        max_pixels: How many of them it may have.
        orient: Whether to turn it upright.

    Returns:
        None for what is no JPEG, or one that libjpeg-turbo does not decode, and for a URL.

    Releases the GIL; safe to call from several threads.
    """

def keep_slots(buffer: CPUBuffer, slots: list[int]) -> None:
    """
    Move these images together, and shorten the batch to them.

    Args:
        slots: Ascending.
    """

def clear_slots(buffer: CPUBuffer, slots: list[int]) -> None:
    """Make these images all zero bytes, of which nothing is known."""

def set_failures(buffer: CPUBuffer, failures: tuple[spdl.io._types.LoadFailure, ...]) -> None:
    """
    What a batch that was put together elsewhere is to have as ``failures``.
    """

def decode_planes(data: Buffer) -> list[tuple[int, int]]:
    """
    Decode a JPEG to planes of its full size, drop them, and return their sizes.

    It is the part of loading that libjpeg-turbo alone does: the yardstick of benchmarks. Releases the GIL.
    """

def libjpeg_turbo_version() -> str:
    """Version of the libjpeg-turbo headers of this build."""

def libjpeg_turbo_path() -> str:
    """File that libjpeg-turbo was loaded from."""

def read_npy_header(data: Buffer | numpy.typing.NDArray[Any]) -> tuple[str, bool, tuple[int, ...], int]:
    """
    Read the header of an npy file in memory.

    Returns:
        dtype as NumPy's word for it (neither structured nor of objects), whether the order is Fortran's, shape, and the
        offset of the data. Whether the data is all there is for the caller to check.

    Raises:
        ArchiveError: It is none, or damaged.

    Looks at the header only, and holds the GIL meanwhile.
    """

def read_zip_directory(data: Buffer | numpy.typing.NDArray[Any]) -> list[tuple[str, int, int, int, int, int, bool]]:
    """
    Read the directory of a zip archive in memory.

    Returns:
        For each entry: name, offset of the data, compressed size, uncompressed size, method, CRC-32, whether it is
        encrypted. The data is inside of the archive, and no two entries share any.

    Raises:
        ArchiveError: It is none, or damaged.

    Releases the GIL.
    """

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
        kernels: One of ``instruction_sets()``; they all give the same result.
        interpolation: ``"nearest"``, ``"box"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
        exact: Whether in Pillow's way, bit for bit.
        crop: What of the plane is resampled, ``(top, left, height, width)``, or None for all of it.
        window: What of the result is wanted, ``(top, left, height, width)``, or None for all of it.
        flip, vertical_flip: Whether what is wanted is mirrored.

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
    Turn levels into ``level * factor + summand``, as elements of arrays.

    Args:
        levels: Levels of packed pixels; those of channel ``c`` are at ``len(factor) * i + c``.
        kernels: One of ``instruction_sets()``; they all give the same result.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        factor, summand: One of each channel; 1, 3 or 4 channels.

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

    Headers are read ahead, a growing number at a time; without the GIL where they are many. Releasing it for a few
    would cost threads that iterate side by side more than the reading does.
    """

    def __init__(self, src: Buffer | numpy.typing.NDArray[Any]) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, memoryview]: ...

class TarStream:
    """
    Iterates over the regular files of a tar archive that is read from a stream: name, data.

    Reads no further than the end of the member that it gave last.
    """

    def __init__(self, src: Any) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, bytes]: ...

class WAVHeader:
    """What a WAV file says of itself. Read only."""

    @property
    def audio_format(self) -> int:
        """1: PCM; 3: IEEE float; others are codings."""

    @property
    def num_channels(self) -> int: ...
    @property
    def sample_rate(self) -> int:
        """In Hz."""

    @property
    def byte_rate(self) -> int:
        """Bytes of a second, as the file states them."""

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
    Samples of a WAV file, ``(samples, channels)``, where the file has them in memory.

    Arrays made from it (``to_numpy``, ``to_torch``, ``numpy.asarray``) are views. It keeps the file's memory, which can
    neither be freed nor resized meanwhile, and they keep it.
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
    Read what a WAV file says of itself, whatever its coding.

    Args:
        data: The whole file, as a contiguous buffer.

    Raises:
        WAVError: The data is malformed or truncated. It is a ``ValueError``.

    Looks at a few dozen bytes, and holds the GIL meanwhile.
    """

def load_wav(
    data: Buffer | numpy.typing.NDArray[Any], time_offset_seconds: float | None, duration_seconds: float | None
) -> WAVArray:
    """
    View the samples of a WAV file in memory.

    Args:
        data: The whole file, as a contiguous buffer.
        time_offset_seconds: Where the view begins, or None for the beginning.
        duration_seconds: How long it is at most, or None for all of the rest.

    Raises:
        WAVError: As ``spdl.io.load_wav`` says.

    Looks at a few dozen bytes, and holds the GIL meanwhile.
    """
