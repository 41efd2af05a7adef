"""``load_video_clips``: load clips of videos into one batch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from spdl._names import renamed
from spdl._numbers import MAX_INT, as_int, require_word
from spdl.io import _native
from spdl.io._images._image_transform import ImageTransform, native_transform
from spdl.io._images._load_transformed import NUM_BYTES, as_memory
from spdl.io._media._config import DecodeConfig, DemuxConfig, check_arguments, native_options
from spdl.io._media._demux import stream_of
from spdl.io._source import as_sources
from spdl.io._trace import traced
from spdl.io._types import MAX_PIXELS, Source

from ._batch import Loaded, Missing, Statuses, as_seeds, as_starts, finish

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer

_LAYOUTS = ("NTHWC", "NTCHW", "NCTHW")


@renamed(on_failure="missing")
@traced
def load_video_clips(
    srcs: Iterable[Source],
    *,
    num_frames: int = 8,
    stride: int = 1,
    start: float | Sequence[float] | Literal["random", "middle"] = "random",
    seed: SupportsIndex | None = None,
    seeds: Iterable[SupportsIndex] | None = None,
    size: int | tuple[int, int] | None = None,
    transform: ImageTransform | None = None,
    layout: Literal["NTHWC", "NTCHW", "NCTHW"] = "NCTHW",
    dtype: Literal["uint8", "float16", "bfloat16", "float32"] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    out: Any = None,
    storage: Any = None,
    num_threads: int = 0,
    strict: bool = True,
    missing: Missing = "drop",
    max_pixels: int = MAX_PIXELS,
    stream: int | None = None,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
) -> "CPUBuffer":
    """Load one clip from each of several videos into one batch, in one native call without the GIL.

    ::

        transform = ImageTransform(112, crop=RandomResizedCrop(), flip=0.5, dtype="float32", mean=0.45, std=0.225)
        seeds = sample_seeds(seed=0, epoch=0, indices=range(len(videos)))
        clips = load_video_clips(videos, num_frames=8, stride=4, transform=transform, seeds=seeds)

    A clip has every ``stride``-th frame of its video, in display order, from its first frame on. Only the groups of
    pictures that contain the clip are decoded, from the last key frame before it; non-reference frames that are not in
    the clip are skipped. MP4 and MOV files with a constant frame rate are also read only from that key frame on; all
    packets of other files are read. Frames are resampled from the decoder's planes directly to their size.

    If a video is too short for the clip, the clip begins at its first frame (with ``start`` in seconds: at that time),
    and its last available frame is repeated.

    Args:
        srcs: Paths, URLs, or encoded data in memory, which is read in place and cannot be resized during the call.
        num_frames: Number of frames of a clip.
        stride: Distance between the frames of a clip; 1 takes consecutive frames.
        start: ``"random"``: all first frames with which the clip fits are equally likely. ``"middle"``: the clip is in
            the middle of the video. Or a time in seconds, for all or one per source: the first frame is the one
            displayed at that time.
        seed: Seed for the random choices of the batch. Source ``i`` gets ``sample_seeds(seed, 0, [i])``.
        seeds: Integers in ``[0, 2**64)``, one per source, as made by ``sample_seeds``, instead of ``seed``. A start
            depends only on the seed and the number of frames; crop and flips depend only on the seed, the size and
            the transform.
        size: Height and width of the frames, or one number for both: whole frames are resized to it. For crops and
            everything else, use ``transform`` instead.
        transform: Transform of the frames: all frames of a clip get the same crop and flips. Unless its ``orient`` is
            off, frames are turned upright according to the container's display matrix. Its ``layout`` is not used.
        layout: Order of the axes: clips, frames (T), height, width and channels.
        dtype: Dtype of the batch; floats are normalised. ``None``: the dtype of ``transform``, or ``"uint8"``. This
            and the next two arguments override ``transform``.
        mean: Mean for the normalisation, as in ``ImageTransform``.
        std: Standard deviation for the normalisation, as in ``ImageTransform``.
        out: Array to fill, instead of ``storage``: a writable C-contiguous array or CPU tensor with exactly the dtype
            and shape of a whole batch, or a one-dimensional byte buffer of at least that size. The result is a view of
            it.
        storage: Memory for the batch: any writable C-contiguous buffer that is large enough.
        num_threads: Number of threads that share the work, including the caller's thread. 0 and 1: only the caller's
            thread. The result does not depend on it.
        strict: Whether to raise if any clip is missing. With ``False``, see ``missing``.
        missing: Policy for sources that failed, with ``strict=False``. ``"drop"``: the batch has fewer clips, in the
            same order; it is never empty. ``"zero"``: their bytes are zero, even if all sources failed.
        max_pixels: Largest number of pixels allowed per frame. Larger frames fail with ``ImageTooLargeError``.
        stream: Index of the stream in each container. ``None``: the best video stream.
        demux_config: Options for opening the sources, from ``demux_config``.
        decode_config: Options for decoding, from ``decode_config``. With ``tolerate_errors``, a frame that cannot be
            decoded is replaced by the one before it in the clip.

    Returns:
        C-contiguous, axes in the order of ``layout``. For each clip, ``excerpts`` has the time of its first frame and
        the number of frames that are not repeated; ``applied`` has the geometry of its frames, and ``origins`` the
        position of its source in ``srcs``. ``failures`` lists the sources that could not be loaded.

    Raises:
        ValueError: ``srcs`` is empty, a number is out of range, ``size`` and ``transform`` are both given or both
            missing, seeds are missing for random choices, or ``out`` has another dtype or shape.
        TypeError: An argument has the wrong type.
        BatchLoadError: A clip is missing and ``strict`` is set, or all are missing; ``.failures`` lists all failures.
            A source with no frame displayed at ``start`` fails.
        MemoryError: There is not enough memory.
        ConvertError: The storage is too small.

    Safe to call from several threads. Ctrl-C interrupts the call.
    """
    check_arguments(demux_config, decode_config, None)
    statuses = Statuses(strict, missing, num_threads)
    sources = as_sources("srcs", srcs)
    count = len(sources)
    frames, step = as_int("num_frames", num_frames, 1, MAX_INT), as_int("stride", stride, 1, MAX_INT)
    require_word("layout", layout, _LAYOUTS)
    applied = _as_transform(size, transform, layout, dtype, mean, std)
    where: Any = start
    if isinstance(start, str):
        if start not in ("random", "middle"):
            raise ValueError(f"start must be 'random', 'middle' or a number of seconds, got {start!r}")
    else:
        where = as_starts(start, count)
    is_random = isinstance(start, str) and start == "random"
    needed_for = "start='random'" if is_random else f"the random {applied!r}" if applied.is_random else None
    numbers = as_seeds(seed, seeds, count, needed_for=needed_for)
    native = native_transform(applied)
    memory = as_memory(out, storage, applied.dtype, _shape(applied, count, frames, layout), NUM_BYTES[applied.dtype])
    buffer = _native.media.new_clips(native, count, frames, layout, memory)

    def load(native_sources: list[Any]) -> Loaded:
        return _native.media.load_clips(
            buffer,
            list(range(count)),
            native_sources,
            sources,
            first_index=0,
            transform=native,
            num_frames=frames,
            stride=step,
            is_channels_first=layout == "NCTHW",
            starts=where,
            seeds=numbers,
            max_pixels=as_int("max_pixels", max_pixels, 1, MAX_INT),
            stream=stream_of(stream),
            **native_options(demux_config, decode_config, sources),
            num_threads=statuses.num_threads,
        )

    return finish(buffer, sources, statuses, load, kind="clip")


def _as_transform(size: Any, transform: Any, layout: str, dtype: Any, mean: Any, std: Any) -> ImageTransform:
    """The transform of one frame."""
    if (size is None) == (transform is None):
        raise ValueError(
            f"exactly one of size and transform must be given, got {'none' if size is None else 'both'}:"
            " size=(height, width) resizes whole frames, transform=ImageTransform(...) also crops and flips"
        )
    if transform is not None and not isinstance(transform, ImageTransform):
        raise TypeError(f"transform must be an ImageTransform, got {type(transform).__name__}")
    base = ImageTransform(size) if transform is None else transform
    given = {"dtype": dtype, "mean": mean, "std": std}
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(base, layout="NHWC" if layout == "NTHWC" else "NCHW", **changes)


def _shape(transform: ImageTransform, count: int, num_frames: int, layout: str) -> tuple[int, ...]:
    if layout == "NCTHW":
        channels, height, width = transform.shape
        return count, channels, num_frames, height, width
    return (count, num_frames, *transform.shape)
