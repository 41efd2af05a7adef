"""``load_image_batch``: load images into one batch. The form with ``transform`` is in ``_load_transformed.py``."""

import atexit
import inspect
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, overload

from spdl._names import renamed
from spdl._numbers import MAX_INT, as_bool, as_int
from spdl.io import _native
from spdl.io._buffers import as_storage
from spdl.io._devices._cuda import CUDABuffer, CUDAConfig, as_device, on_device
from spdl.io._media._config import DecodeConfig, DemuxConfig, check_arguments, native_options
from spdl.io._media._filters import get_video_filter_desc
from spdl.io._source import Fetched, as_native_sources, as_sources, fetch_all
from spdl.io._trace import traced
from spdl.io._types import DEFAULT, MAX_PIXELS, Default, LoadFailure, Source

from ._applied import AppliedTransform
from ._image_transform import ImageTransform, LongerSide, native_transform
from ._load_transformed import load_transformed
from ._outcomes import (
    as_names,
    fallback_if_loaded,
    fallback_on_demand,
    report_failures,
    with_ffmpeg_on_demand,
    with_names,
)

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer, ImageFrames, Transform

#: Pixel formats that need no FFmpeg filter -> their colour formats.
PIX_FMTS: dict[str, Literal["rgb", "bgr", "gray"]] = {"rgb24": "rgb", "bgr24": "bgr", "gray": "gray"}


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
    names: Iterable[str | None] | None = None,
    num_threads: int = 0,
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
    names: Iterable[str | None] | None = None,
    num_threads: int = 0,
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
    missing: Literal["drop", "zero"] = "drop",
    spares: Iterable[Source] = (),
    storage: Any = None,
    max_pixels: int = MAX_PIXELS,
    names: Iterable[str | None] | None = None,
) -> "CPUBuffer": ...
@renamed(on_failure="missing")
@traced
def load_image_batch(
    srcs: Iterable[Source], *, transform: ImageTransform | None = None, **options: Any
) -> "CPUBuffer | CUDABuffer":
    """Load images into one contiguous batch, in one native call without the GIL.

    There are two forms. With ``width`` and ``height``, images are scaled to fit and centred, with black borders. With
    ``transform``, an ``ImageTransform`` crops, flips and resizes them, optionally at random with one seed per image. It
    also converts colours and normalises to floating point::

        batch = load_image_batch(paths, width=224, height=224)  # (len(paths), 224, 224, 3) uint8

        transform = ImageTransform(224, crop=RandomResizedCrop(), flip=0.5, dtype="float16", layout="NCHW")
        seeds = sample_seeds(seed=0, epoch=0, indices=range(len(paths)))
        batch = load_image_batch(paths, transform=transform, seeds=seeds)
        boxes = [applied.boxes([(10, 10, 30, 30)]) for applied in batch.applied]  # where this box is in each result

    The sources may mix all formats that FFmpeg decodes. JPEG is decoded by libjpeg-turbo, all other formats by FFmpeg.
    Each plane is resampled directly to its target size (in the form with width and height: bicubic, antialiased).
    FFmpeg is loaded when the first image needs it. If all images are JPEG, it is not loaded.

    In the form with width and height, a filter, a configuration, or a pixel format other than the three below sends
    all images through FFmpeg's filters instead. Placement and borders are the same; pixels differ slightly. The
    reference documentation says by how much.

    Args:
        srcs: Paths, URLs, or encoded data in memory, which is read in place and cannot be resized during the call.
            Objects in stores (``s3://``, ``gs://``, ``az://``, ``spdl.remote.RemoteObject``) are fetched first,
            ``num_threads`` at a time, but at least eight.
        storage: Memory for the batch: any writable C-contiguous buffer, array or CPU tensor that is large enough.
            The result is a view of it and keeps it alive. ``None``: memory is allocated.
        strict: Whether to raise if any image is missing (its source failed and no spare replaced it). With ``False``,
            see ``missing``.
        names: A name for each source, or ``None`` for a source that needs none. Errors, the log and ``failures`` show
            it instead of ``Bytes: 0x…``, so that sources in memory can be told apart.
        max_pixels: Largest number of pixels allowed per image. Larger images fail with ``ImageTooLargeError`` before
            memory is allocated. The default is Pillow's limit.
        num_threads: Number of threads that share the work, including the caller's thread; they take the largest
            sources first. 0 and 1: only the caller's thread. The result does not depend on it.
        width: Width of the batch, in pixels. ``None``: the width of the images; if the height is given, 0 and ``None``
            let FFmpeg choose. This and the next seven arguments belong to the form without ``transform``.
        height: Height of the batch, in pixels. ``None`` and 0 as for ``width``.
        pix_fmt: ``"rgb24"``, ``"bgr24"`` or ``"gray"``; or, through FFmpeg's filters, any format that
            ``convert_frames`` supports. ``None``: the pixel format of the images.
        demux_config: Options for opening the sources, from ``demux_config``.
        decode_config: Options for decoding, from ``decode_config``.
        filter_desc: FFmpeg filter chain for each image, which replaces scaling, padding and conversion; the size of
            the batch is then the filter's output size. ``None``: no filter.
        device_config: CUDA device for the batch, from ``cuda_config``. ``None``: the CPU. With a device, ``storage``
            is the intermediate CPU memory, preferably page-locked.
        orient: Whether to turn images upright before fitting, according to their EXIF data or XMP (JPEG,
            PNG, WebP, TIFF) or image properties (AVIF). HEIC is always turned.
        transform: Transform for each image. The arguments below require it.
        out: Array to fill, instead of ``storage``: a writable C-contiguous array or CPU tensor with exactly the dtype
            and shape of a whole batch, or a one-dimensional byte buffer of at least that size. The result is a view of
            it.
        seeds: Integers in ``[0, 2**64)``, one per source, as made by ``sample_seeds``. The geometry of an image
            depends only on its size, its seed and the transform. Required if the transform is random.
        replay: Geometry to apply again: ``applied`` of another batch, for masks or depth maps of the same images.
            Crop, size and flips come from it; everything else comes from the transform, whose ``size`` must be the
            same. An image whose upright size differs from the recorded size fails.
        missing: Policy for slots whose source failed, with ``strict=False``. ``"drop"``: the batch has fewer
            images, in the same order; it is never empty. ``"zero"``: their bytes are zero, even if all sources failed.
        spares: Sources to replace failed ones, in order: the first spare fills the first empty slot, and so on.
            They are loaded with the slot's seed. No more spares are taken than there are empty slots. If a spare also
            fails, this is recorded as a failure and the next spare is tried, up to a hundred per source.

    Returns:
        C-contiguous. With ``width`` and ``height``: ``uint8``, ``(images, height, width, channels)`` with 3 channels,
        or 1 for ``"gray"``; other formats have the layout of ``convert_frames``; without alpha. With ``transform``:
        ``(images, *transform.shape)``, with the transform's dtype.

        ``failures`` lists the sources that could not be loaded, and why; ``index`` is the position in ``srcs``, or
        ``len(srcs) + k`` for spare ``k``. For each image, ``origins`` has this index and ``applied`` an
        ``AppliedTransform``; both are ``None`` for zeros. ``applied`` is empty after FFmpeg's filters.

    Raises:
        ValueError: ``srcs`` is empty, a size is less than 1, or ``max_pixels`` is out of range. ``seeds`` are missing
            for a random transform. ``seeds`` or ``replay`` do not match the number of sources, both are given, or
            ``replay`` is for another size. ``out`` has another dtype or shape, is too small, or is given together with
            ``storage``.
        TypeError: A source is neither a path nor a buffer of bytes; memory is not writable or not contiguous; an
            argument belongs to the other form or has the wrong type; or ``width`` or ``height`` is missing without
            ``transform``.
        BatchLoadError: An image is missing and ``strict`` is set, or all are missing; ``.failures`` lists all failures.
        UnsupportedFormatError: ``pix_fmt`` has no array layout.
        ConvertError: The storage is too small; or the filter produced images of different sizes or formats.
        NativeLibraryError: The native part is missing, or FFmpeg is missing and all images need it.
        DeviceError: The device of ``device_config`` does not exist.

    Chroma sampling positions are those of ITU-T T.871. Safe to call from several threads. Ctrl-C interrupts the call
    between images.
    """
    if transform is not None:
        _require_form(
            options, _TRANSFORMED, "cannot be combined with transform: see ImageTransform for the same setting"
        )
        return load_transformed(srcs, transform=transform, **options)
    if not (_FITTED.issuperset(options) and "width" in options and "height" in options):
        _require_form(options, _FITTED, "requires transform: give transform=ImageTransform(...)")
        missing = [name for name in ("width", "height") if name not in options]
        raise TypeError(
            f"load_image_batch() is missing {' and '.join(missing)}: give width and height in pixels, or a transform"
        )
    return _load_fitted(srcs, **options)


def _require_form(options: dict[str, Any], form: frozenset[str], why_not: str) -> None:
    """Raise ``TypeError`` for an argument that only the other form has, or none."""
    wrong = [name for name in options if name not in form]
    foreign = [name for name in wrong if name in _FITTED | _TRANSFORMED]
    if foreign:
        raise TypeError(f"load_image_batch() got {foreign[0]!r}, which {why_not}")
    if wrong:
        raise TypeError(
            f"load_image_batch() got an unexpected argument {wrong[0]!r}; did you mean width/height or transform?"
        )


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
    names: Iterable[str | None] | None = None,
    num_threads: int = 0,
) -> "CPUBuffer | CUDABuffer":
    """Load a batch in the form with width and height."""
    strict, orient = as_bool("strict", strict), as_bool("orient", orient)
    is_plain = demux_config is None and decode_config is None and filter_desc is DEFAULT
    if is_plain and device_config is None and storage is None and names is None and type(srcs) is list and srcs:
        try:
            usual = _usual_call(width, height, pix_fmt, max_pixels, num_threads, orient)
        except (TypeError, ValueError):  # the checks below raise with a better message
            usual = None
        if usual is not None:
            sources: list[Any] = srcs.copy()
            if _native.core.are_plain(sources):
                return _load_usual(sources, usual, strict=strict)
    check_arguments(demux_config, decode_config, filter_desc)
    width = None if width is None else as_int("width", width, 1, MAX_INT)
    height = None if height is None else as_int("height", height, 1, MAX_INT)
    if pix_fmt is not None and not isinstance(pix_fmt, str):
        raise TypeError(f"pix_fmt must be the name of a pixel format or None, got {pix_fmt!r}")
    sources = as_sources("srcs", srcs)
    given_names = as_names(names, len(sources))
    limit, num_threads = as_int("max_pixels", max_pixels, 1, MAX_INT), as_int("num_threads", num_threads, 0, MAX_INT)
    memory = None if storage is None else as_storage(storage)
    native_sources = as_native_sources(sources)
    device = as_device(device_config, "load a batch")
    most_missing = 0 if strict else len(sources) - 1
    if is_plain and width is not None and height is not None and pix_fmt in PIX_FMTS:
        transform = _fit(width, height, pix_fmt, orient=orient)
        fetched = fetch_all(native_sources, num_threads)
        buffer = _native.core.new_batch(transform, len(sources), memory)
        load = partial(_load_slots, buffer, fetched.sources, sources, transform, limit, num_threads)
        failures = with_names([fetched.failure(each) for each in with_ffmpeg_on_demand(load)], given_names)
        if failures:
            _leave_out(buffer, len(sources), failures)
        report_failures(failures, len(sources), len(failures), most_missing=most_missing)
        return on_device(buffer, device)
    if isinstance(filter_desc, Default):
        if pix_fmt is not None:
            _native.media.check_pix_fmt(pix_fmt, width or 2, height or 2)
        filter_desc = get_video_filter_desc(scale_width=width, scale_height=height, pix_fmt=pix_fmt)
    pictures, failed = _load_filtered(
        sources,
        fetch_all(native_sources, num_threads),
        filter=filter_desc,
        max_pixels=limit,
        orient=orient,
        num_threads=num_threads,
        **native_options(demux_config, decode_config, sources),
    )
    failures = with_names(failed, given_names)
    report_failures(failures, len(sources), len(failures), most_missing=most_missing)
    buffer = _native.media.convert_frames(pictures, is_batch=True, storage=memory)
    _set_outcome(buffer, len(sources), failures)
    return on_device(buffer, device)


def _load_filtered(
    sources: list[Source], fetched: Fetched, **options: Any
) -> "tuple[list[ImageFrames], list[LoadFailure]]":
    """Decode and filter the images with FFmpeg: those that could be loaded, and why others could not."""
    outcomes = _native.media.load_pictures(fetched.sources, name=None, **options)
    pictures, failed = [], []
    for index, (source, outcome) in enumerate(zip(sources, outcomes, strict=True)):
        if isinstance(outcome, Exception):
            failed.append(fetched.failure(LoadFailure(index, source, outcome)))
        else:
            pictures.append(outcome)
    return pictures, failed


class _UsualCall(NamedTuple):
    """The arguments of a native call without filters, except the sources."""

    transform: "Transform"
    max_pixels: int
    num_threads: int


def _load_usual(sources: list[Any], call: _UsualCall, *, strict: bool) -> "CPUBuffer":
    """Load a batch of sources that native code reads directly.

    This path calls as few Python functions as possible. Before each call for a batch, native code has filled the CPU
    caches with its own data for milliseconds. So each Python function takes several microseconds, and other threads
    wait for the GIL during that time.
    """
    core, count = _native.core, len(sources)
    transform, max_pixels, num_threads = call
    buffer = core.new_batch(transform, count, None)
    failures = _load_slots(buffer, sources, sources, transform, max_pixels, num_threads, fallback_if_loaded())
    if failures is None:
        failures = _load_slots(buffer, sources, sources, transform, max_pixels, num_threads, fallback_on_demand())
    if failures:
        _leave_out(buffer, count, failures)
        report_failures(failures, count, len(failures), most_missing=0 if strict else count - 1)
    return buffer


def _load_slots(
    buffer: "CPUBuffer",
    sources: list[Any],
    labels: list[Any],
    transform: "Transform",
    max_pixels: int,
    num_threads: int,
    fallback_loader: object,
) -> tuple[LoadFailure, ...] | None:
    """Load all slots of a batch."""
    return _native.core.load_slots(
        buffer,
        None,
        sources,
        labels,
        first_index=0,
        transform=transform,
        seeds=None,
        replay=None,
        max_pixels=max_pixels,
        num_threads=num_threads,
        fallback_loader=fallback_loader,
    )


@lru_cache(maxsize=64, typed=True)
def _usual_call(
    width: Any, height: Any, pix_fmt: Any, max_pixels: Any, num_threads: Any, orient: Any
) -> _UsualCall | None:
    """The native form of these options; ``None`` if one of them needs FFmpeg's filters or a fetch."""
    if not (type(width) is type(height) is int and type(orient) is bool and pix_fmt in PIX_FMTS):
        return None
    return _UsualCall(
        _fit(width, height, pix_fmt, orient=orient),
        as_int("max_pixels", max_pixels, 1, MAX_INT),
        as_int("num_threads", num_threads, 0, MAX_INT),
    )


def _leave_out(buffer: "CPUBuffer", num_sources: int, failures: tuple[LoadFailure, ...]) -> None:
    """Drop the slots of images that could not be loaded."""
    _native.core.keep_slots(buffer, list(_origins(num_sources, failures)))
    _set_outcome(buffer, num_sources, failures)


def _origins(num_sources: int, failures: tuple[LoadFailure, ...]) -> tuple[int, ...]:
    if not failures:
        return tuple(range(num_sources))
    failed = {failure.index for failure in failures}
    return tuple(index for index in range(num_sources) if index not in failed)


def _set_outcome(buffer: "CPUBuffer", num_sources: int, failures: tuple[LoadFailure, ...]) -> None:
    """Record on the batch which images it contains and which sources failed."""
    _native.core.set_failures(buffer, failures)
    _native.core.set_origins(buffer, _origins(num_sources, failures))


@lru_cache(maxsize=64)
def _fit(width: int, height: int, pix_fmt: str, *, orient: bool) -> "Transform":
    """The native transform that scales to fit, centred on black."""
    fit = ImageTransform(
        (height, width), resize=LongerSide(), interpolation="bicubic", color=PIX_FMTS[pix_fmt], orient=orient
    )
    return native_transform(fit)


#: The arguments of each form.
_FITTED = frozenset(inspect.signature(_load_fitted).parameters) - {"srcs"}
_TRANSFORMED = frozenset(inspect.signature(load_transformed).parameters) - {"srcs", "transform"}


def _signature_of_both_forms() -> inspect.Signature:
    """The signature that ``help`` and editors show: the arguments of both forms.

    The default ``...`` marks an argument that is required in the form that has it.
    """
    parameters: dict[str, inspect.Parameter] = {}
    for form in (_load_fitted, load_transformed):
        for parameter in inspect.signature(form).parameters.values():
            is_needed = parameter.default is parameter.empty and parameter.name != "srcs"
            parameters.setdefault(parameter.name, parameter.replace(default=...) if is_needed else parameter)
    return inspect.Signature(list(parameters.values()), return_annotation="CPUBuffer | CUDABuffer")


load_image_batch.__signature__ = _signature_of_both_forms()  # type: ignore[attr-defined]

atexit.register(_usual_call.cache_clear)
atexit.register(_fit.cache_clear)  # as for `native_transform`: nanobind reports objects that are left at exit
