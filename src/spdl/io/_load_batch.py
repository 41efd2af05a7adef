"""From files to a batch in one call."""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from . import _native
from ._applied import AppliedTransform
from ._buffers import as_storage
from ._config import DecodeConfig, DemuxConfig
from ._crops import LongerSide
from ._cuda_buffers import CUDABuffer, CUDAConfig, as_device, on_device
from ._filters import get_video_filter_desc
from ._image_transform import ImageTransform, native_transform
from ._load_transformed import load_transformed
from ._max_pixels import MAX_PIXELS, as_max_pixels
from ._outcomes import as_sources, report, with_general_way
from ._pictures import check_arguments, load_pictures
from ._source import as_native_sources
from ._trace import traced
from ._types import DEFAULT, Default, LoadFailure, Source

if TYPE_CHECKING:
    from ._native import CPUBuffer

#: What the short way gives, and its colour.
PIX_FMTS: dict[str, Literal["rgb", "bgr", "gray"]] = {"rgb24": "rgb", "bgr24": "bgr", "gray": "gray"}

# Keywords of one form alone, and of both.
_OF_FITTED = frozenset(
    ("width", "height", "pix_fmt", "demux_config", "decode_config", "filter_desc", "device_config", "orient")
)
_OF_TRANSFORM = frozenset(("out", "num_threads", "seeds", "replay", "on_failure", "spares"))
_OF_BOTH = frozenset(("strict", "storage", "max_pixels"))


@overload
def load_image_batch(
    srcs: Iterable[Source],
    *,
    width: int | None,
    height: int | None,
    pix_fmt: str | None = "rgb24",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: None = None,
    storage: Any = None,
    strict: bool = True,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> "CPUBuffer": ...
@overload
def load_image_batch(
    srcs: Iterable[Source],
    *,
    width: int | None,
    height: int | None,
    pix_fmt: str | None = "rgb24",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: CUDAConfig,
    storage: Any = None,
    strict: bool = True,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> CUDABuffer: ...
@overload
def load_image_batch(
    srcs: Iterable[Source],
    *,
    transform: ImageTransform,
    out: Any = None,
    num_threads: int = 0,
    seeds: Iterable[SupportsIndex] | None = None,
    replay: Iterable[AppliedTransform | None] | None = None,
    strict: bool = True,
    on_failure: Literal["drop", "zero"] = "drop",
    spares: Iterable[Source] = (),
    storage: Any = None,
    max_pixels: int = MAX_PIXELS,
) -> "CPUBuffer": ...
@traced
def load_image_batch(
    srcs: Iterable[Source], *, transform: ImageTransform | None = None, **options: Any
) -> "CPUBuffer | CUDABuffer":
    """Load images into one contiguous batch by one native call without the GIL: fitted, or transformed.

    In the form with ``width`` and ``height``, pictures are scaled to fit, centred, with black borders. In the form with
    ``transform``, they become what an ``ImageTransform`` says: cut, flipped and resized, at random from a seed for
    each, in other colours, as normalised floating point numbers::

        train = ImageTransform(224, crop=RandomResizedCrop(), flip=0.5, dtype="float16", layout="NCHW")
        batch = load_image_batch(paths, transform=train, seeds=sample_seeds(run, epoch, indices), out=slot)
        boxes = [applied.boxes(boxes_of[k]) for k, applied in zip(batch.origins, batch.applied)]

    Pictures of every format that FFmpeg decodes, mixed as they come. JPEG is decoded by libjpeg-turbo, everything else
    by FFmpeg, to planes, which are resampled straight to their target (in the form with width and height: bicubic,
    antialiased). FFmpeg is loaded when the first picture needs it, so never for JPEG alone.

    In the form with width and height, any other filter, a configuration, or a pixel format that is none of the three
    below, sends every picture through FFmpeg's filters instead. Placement and borders are the same; pixels differ a
    little, as the reference documentation says.

    Args:
        srcs: Paths or URLs, or encoded data in memory, which is read in place and cannot be resized meanwhile.
        storage: Where to put the batch: any writable C-contiguous buffer, array or CPU tensor that is large enough.
            The result is a view of it and keeps it alive. Without it, memory is allocated.
        strict: Whether one source that fails is an error (and no spare took its place). If not, see ``on_failure``.
        max_pixels: How many pixels a picture may have: larger ones fail with ``ImageTooLargeError`` before memory is
            taken for them. Pillow refuses more than the default, too.
        width: Width of the batch, in pixels. ``None``: that of the pictures; with the height given, 0 or ``None`` is
            FFmpeg's choice. This and the next seven are of the form without ``transform``.
        height: Height of the batch, in pixels. Likewise.
        pix_fmt: ``"rgb24"``, ``"bgr24"`` or ``"gray"``; or, through FFmpeg's filters, any format that
            ``convert_frames`` takes. ``None``: that of the pictures.
        demux_config: How to open them; see ``demux_config``.
        decode_config: How to decode them; see ``decode_config``.
        filter_desc: FFmpeg's filters for each picture, in place of scaling, padding and conversion: the size of the
            batch is then what comes out of them. ``None``: none.
        device_config: Which CUDA device to put the batch on, as ``cuda_config`` makes it. ``None``: on the CPU.
            ``storage`` is then what it passes through, best page-locked.
        orient: Whether to turn pictures upright, before they are fitted, as their EXIF data says (JPEG, PNG, WebP,
            TIFF), or the properties of the image (AVIF, HEIF).
        transform: What is to become of each picture. All that follows goes with it only.
        out: The array to fill, instead of ``storage``: array or CPU tensor of exactly the type and shape of a whole
            batch; or plain bytes, one-dimensional, as many or more. Writable and C-contiguous. The result is a view of
            it.
        num_threads: How many threads share the work. The caller's is one of them; 0 and 1: it is the only one. The
            result is the same with any number.
        seeds: An integer in ``[0, 2**64)`` for each source, as ``sample_seeds`` makes them. What becomes of a picture
            depends on its size and seed alone. Needed where the transform is random.
        replay: What to do with each picture again: ``applied`` of another batch, for masks or depth maps of the same
            pictures. Crop, size and flips are from there, all else from the transform, whose ``size`` must agree. A
            picture whose upright size is another than the recorded one fails.
        on_failure: What becomes of slots whose source failed, where ``strict`` is not set: ``"drop"``: the batch has
            fewer images, in the same order, at least one; ``"zero"``: their bytes are zero, even if all failed.
        spares: Sources to take for those that fail, in order: the first for the first slot that is empty, and so on.
            They are loaded with the slot's seed. No more are taken than there are empty slots; a spare that fails too
            is a failure, and the next one is tried, but no more than a hundred for each source.

    Returns:
        C-contiguous. With ``width`` and ``height``: ``uint8``, ``(images, height, width, channels)`` with 3 channels,
        or 1 for ``"gray"``; other formats as ``convert_frames`` gives them; alpha is left out. With ``transform``: of
        its type, ``(images, *transform.shape)``.

        ``failures`` tell what could not be loaded, and why; their ``index`` is the position in ``srcs``, or
        ``len(srcs) + k`` for spare ``k``. For each image ``origins`` have this index, and ``applied`` an
        ``AppliedTransform``; both are ``None`` for zeros. ``applied`` is empty after FFmpeg's filters.

    Raises:
        ValueError: ``srcs`` is empty, a size is less than 1, or ``max_pixels`` is out of range. ``seeds`` are missing
            where the transform is random. ``seeds`` or ``replay`` are not as many as the sources, both are given, or of
            another size. ``out`` is of another type or shape, or too small, or comes with ``storage``.
        TypeError: A source is neither a path nor a buffer of bytes; memory is not writable or not contiguous; or an
            argument is of the other form, or of the wrong type, or ``width`` or ``height`` is missing without
            ``transform``.
        BatchLoadError: An image is missing and ``strict`` is set, or all of them are; ``.failures`` has all failures.
        UnsupportedFormatError: ``pix_fmt`` has no array layout.
        ConvertError: The storage is too small; or filters left pictures of different sizes or formats.
        NativeLibraryError: The native part is missing, or FFmpeg where it is needed for all pictures.
        DeviceError: ``device_config`` is given, and there is no such device.

    Sampling positions of chroma are those of ITU-T T.871. Safe to call from several threads at once. Ctrl-C is heard
    between pictures.
    """
    if transform is not None:
        _refuse(options, _OF_FITTED, "does not go with transform, which says it: see ImageTransform")
        _refuse(options, options.keys() - _OF_TRANSFORM - _OF_BOTH, "is no argument of load_image_batch")
        return load_transformed(srcs, transform=transform, **options)
    _refuse(options, _OF_TRANSFORM, "goes with transform only: give transform=ImageTransform(...)")
    _refuse(options, options.keys() - _OF_FITTED - _OF_BOTH, "is no argument of load_image_batch")
    missing = [name for name in ("width", "height") if name not in options]
    if missing:
        raise TypeError(
            f"load_image_batch() is missing {' and '.join(missing)}: give both, of the batch in pixels, or a transform"
        )
    return _load_fitted(srcs, **options)


def _refuse(options: dict[str, Any], names: Iterable[str], why: str) -> None:
    refused = [name for name in options if name in names]
    if refused:
        raise TypeError(f"load_image_batch() got {refused[0]!r}, which {why}")


def _load_fitted(
    srcs: Iterable[Source],
    *,
    width: int | None,
    height: int | None,
    pix_fmt: str | None = "rgb24",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: CUDAConfig | None = None,
    storage: Any = None,
    strict: bool = True,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> "CPUBuffer | CUDABuffer":
    """The form with width and height."""
    check_arguments(demux_config, decode_config, filter_desc)
    for side, size in (("width", width), ("height", height)):
        if size is not None and size < 1:
            raise ValueError(f"{side} must be >= 1, got {size}")
    sources = as_sources("srcs", srcs)
    if not sources:
        raise ValueError("srcs must have at least one source, got none")
    is_plain = demux_config is None and decode_config is None and isinstance(filter_desc, Default)
    by_short_way = is_plain and width is not None and height is not None and pix_fmt in PIX_FMTS
    if isinstance(filter_desc, Default) and pix_fmt is not None and not by_short_way:
        _native.media.check_pix_fmt(pix_fmt, width or 2, height or 2)
    limit = as_max_pixels(max_pixels)
    native_sources = as_native_sources(sources)
    memory = None if storage is None else as_storage(storage)
    device = as_device(device_config, "load a batch")
    if by_short_way:
        assert width is not None
        assert height is not None
        assert pix_fmt is not None
        buffer = _load_by_short_way(native_sources, sources, width, height, pix_fmt, memory, limit, orient=orient)
        report(buffer.failures, len(sources), len(buffer.failures), most_missing=0 if strict else len(sources) - 1)
        return on_device(buffer, device)
    if isinstance(filter_desc, Default):
        filter_desc = get_video_filter_desc(scale_width=width, scale_height=height, pix_fmt=pix_fmt)
    outcomes = load_pictures(native_sources, demux_config, decode_config, filter_desc, max_pixels=limit, orient=orient)
    failures = tuple(
        LoadFailure(index, source, outcome)
        for index, (source, outcome) in enumerate(zip(sources, outcomes, strict=True))
        if isinstance(outcome, Exception)
    )
    report(failures, len(sources), len(failures), most_missing=0 if strict else len(sources) - 1)
    frames = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    batch: CPUBuffer = _native.media.convert_frames(frames, is_batch=True, storage=memory)
    _tell(batch, len(sources), failures)
    return on_device(batch, device)


def _load_by_short_way(
    native_sources: list[Any],
    sources: list[Source],
    width: int,
    height: int,
    pix_fmt: str,
    storage: Any,
    max_pixels: int,
    *,
    orient: bool,
) -> "CPUBuffer":
    """The batch with what could be loaded. FFmpeg is loaded once a source needs it; where all are JPEG, never."""
    transform = native_transform(_fit(width, height, pix_fmt, orient=orient))
    buffer = _native.core.new_batch(transform, len(sources), storage)
    slots = list(range(len(sources)))

    def load(general_way: object) -> tuple[LoadFailure, ...] | None:
        return _native.core.load_slots(
            buffer,
            slots,
            native_sources,
            sources,
            first_index=0,
            transform=transform,
            seeds=None,
            replay=None,
            max_pixels=max_pixels,
            num_threads=0,
            general_way=general_way,
        )

    failures = with_general_way(load)
    if failures:
        _native.core.keep_slots(buffer, list(_origins(len(sources), failures)))
    _tell(buffer, len(sources), failures)
    return buffer


def _origins(num_sources: int, failures: tuple[LoadFailure, ...]) -> tuple[int, ...]:
    failed = {failure.index for failure in failures}
    return tuple(index for index in range(num_sources) if index not in failed)


def _tell(buffer: "CPUBuffer", num_sources: int, failures: tuple[LoadFailure, ...]) -> None:
    """What the batch is to know of its images."""
    _native.core.set_failures(buffer, failures)
    _native.core.set_origins(buffer, _origins(num_sources, failures))


@lru_cache(maxsize=64)
def _fit(width: int, height: int, pix_fmt: str, *, orient: bool) -> ImageTransform:
    """Scaled to fit, centred, on black."""
    return ImageTransform(
        (height, width), resize=LongerSide(), interpolation="bicubic", color=PIX_FMTS[pix_fmt], orient=orient
    )
