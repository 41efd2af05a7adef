"""From files to a batch in one call."""

import logging
import os
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import _native
from ._buffers import as_storage
from ._config import DecodeConfig, DemuxConfig
from ._errors import BatchLoadError, NativeLibraryError
from ._filters import get_video_filter_desc
from ._pictures import check_arguments, load_pictures, refuse_device
from ._source import as_native_source
from ._trace import traced
from ._types import DEFAULT, Default, LoadFailure, Source

if TYPE_CHECKING:
    from ._native import CPUBuffer, Transform

_LG = logging.getLogger(__name__)

#: What the short way gives, and its colour.
PIX_FMTS = {"rgb24": "rgb", "bgr24": "bgr", "gray": "gray"}


@traced
def load_image_batch(
    srcs: Iterable[Source],
    *,
    width: int | None,
    height: int | None,
    pix_fmt: str | None = "rgb24",
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: Any = None,
    storage: Any = None,
    strict: bool = True,
    orient: bool = False,
) -> "CPUBuffer":
    """Load images into one contiguous batch, scaled to fit, centred, with black borders.

    Pictures of every format that FFmpeg decodes, mixed as they come. With the default filter and no configurations, the
    whole batch is one native call without the GIL: JPEG is decoded by libjpeg-turbo, everything else by FFmpeg, to
    planes, which are resampled (bicubic, antialiased) straight to their target. FFmpeg is loaded when the first picture
    needs it, so never for JPEG alone.

    Any other filter, a configuration, or a pixel format that is none of the three below, sends every picture through
    FFmpeg's filters instead. Placement and borders are the same; pixels differ a little, as the reference documentation
    says.

    Args:
        srcs: Paths or URLs, or encoded data in memory, which is read in place and cannot be resized meanwhile.
        width: Width of the batch, in pixels. ``None``: that of the pictures; with the height given, 0 or ``None`` is
            FFmpeg's choice.
        height: Height of the batch, in pixels. Likewise.
        pix_fmt: ``"rgb24"``, ``"bgr24"`` or ``"gray"``; or, through FFmpeg's filters, any format that
            ``convert_frames`` takes. ``None``: that of the pictures.
        demux_config: How to open them; see ``demux_config``.
        decode_config: How to decode them; see ``decode_config``.
        filter_desc: FFmpeg's filters for each picture, in place of scaling, padding and conversion: the size of the
            batch is then what comes out of them. ``None``: none.
        device_config: Needs CUDA.
        storage: Where to put the batch: any writable C-contiguous buffer, array or CPU tensor that is large enough.
            The result is a view of it and keeps it alive. Without it, memory is allocated.
        strict: Whether one source that fails is an error. If not, the batch has fewer images, in the same order.
        orient: Whether to turn pictures upright, before they are fitted, as their EXIF data says (JPEG, PNG, WebP,
            TIFF), or the properties of the image (AVIF, HEIF).

    Returns:
        ``uint8``, C-contiguous, ``(images, height, width, channels)`` with 3 channels, or 1 for ``"gray"``; other
        formats as ``convert_frames`` gives them. Alpha is left out. Its ``failures`` tell what could not be loaded, and
        why.

    Raises:
        ValueError: ``srcs`` is empty, or a size is less than 1.
        TypeError: A source is neither a path nor a buffer of bytes; the storage is not writable or not contiguous.
        BatchLoadError: A source failed and ``strict`` is set, or none could be loaded; ``.failures`` has all of them.
        UnsupportedFormatError: ``pix_fmt`` has no array layout.
        ConvertError: The storage is too small; or filters left pictures of different sizes or formats.
        NativeLibraryError: The native part is missing, or FFmpeg where it is needed for all pictures.
        DeviceError: ``device_config`` is given.

    Sampling positions of chroma are those of ITU-T T.871. Safe to call from several threads at once.
    """
    check_arguments(demux_config, decode_config, filter_desc)
    for side, size in (("width", width), ("height", height)):
        if size is not None and size < 1:
            raise ValueError(f"{side} must be >= 1, got {size}")
    if isinstance(srcs, str | bytes | bytearray | memoryview | os.PathLike):
        raise TypeError(f"srcs must be a list of sources, got one of type {type(srcs).__name__}: put it in a list")
    sources = list(srcs)
    if not sources:
        raise ValueError("srcs must have at least one source, got none")
    is_plain = demux_config is None and decode_config is None and isinstance(filter_desc, Default)
    by_short_way = is_plain and width is not None and height is not None and pix_fmt in PIX_FMTS
    if isinstance(filter_desc, Default) and pix_fmt is not None and not by_short_way:
        _native.media.check_pix_fmt(pix_fmt, width or 2, height or 2)
    native_sources = [as_native_source(source) for source in sources]
    memory = None if storage is None else as_storage(storage)
    refuse_device(device_config, "load a batch")
    if by_short_way:
        assert width is not None
        assert height is not None
        assert pix_fmt is not None
        buffer = _load_by_short_way(native_sources, sources, width, height, pix_fmt, memory, orient=orient)
        _report(buffer.failures, len(sources), strict=strict)
        return buffer
    if isinstance(filter_desc, Default):
        filter_desc = get_video_filter_desc(scale_width=width, scale_height=height, pix_fmt=pix_fmt)
    outcomes = load_pictures(native_sources, demux_config, decode_config, filter_desc, orient=orient)
    failures = tuple(
        LoadFailure(index, source, outcome)
        for index, (source, outcome) in enumerate(zip(sources, outcomes, strict=True))
        if isinstance(outcome, Exception)
    )
    _report(failures, len(sources), strict=strict)
    frames = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    batch: CPUBuffer = _native.media.convert_frames(frames, is_batch=True, storage=memory)
    _native.core.set_failures(batch, failures)
    return batch


def _report(failures: tuple[LoadFailure, ...], num_sources: int, *, strict: bool) -> None:
    """Log what failed, and raise if that is too much."""
    for failure in failures:
        _LG.error("Image %d of a batch of %d: %s", failure.index, num_sources, failure.error)
    if failures and (strict or len(failures) == num_sources):
        raise BatchLoadError(_summary(failures, num_sources), failures=failures)


def _load_by_short_way(
    native_sources: list[Any],
    sources: list[Source],
    width: int,
    height: int,
    pix_fmt: str,
    storage: Any,
    *,
    orient: bool,
) -> "CPUBuffer":
    """The batch with what could be loaded. FFmpeg is loaded once a source needs it; where all are JPEG, never."""
    transform = _fit(width, height, pix_fmt, orient=orient)
    batch = _native.core.new_batch(transform, len(sources), storage)

    def load(general_way: object) -> "tuple[LoadFailure, ...] | None":
        return _native.core.load_slots(
            batch,
            list(range(len(sources))),
            native_sources,
            sources,
            first_index=0,
            transform=transform,
            seeds=None,
            replay=None,
            num_threads=0,
            general_way=general_way,
        )

    failures = load(_native.media.general_way() if "media" in vars(_native) else None)
    if failures is None:
        try:
            general_way = _native.media.general_way()
        except NativeLibraryError as error:
            general_way = str(error)
        failures = load(general_way)
        assert failures is not None
    if failures:
        failed = {failure.index for failure in failures}
        _native.core.keep_slots(batch, [slot for slot in range(len(sources)) if slot not in failed])
        _native.core.set_failures(batch, failures)
    return batch


@lru_cache(maxsize=64)
def _fit(width: int, height: int, pix_fmt: str, *, orient: bool) -> "Transform":
    """Scaled to fit, centred, on black."""
    return _native.core.Transform(
        height=height,
        width=width,
        resize="fit",
        side=0,
        is_centered=True,
        crop="none",
        scale=(1, 1),
        ratio=(1, 1),
        given=(0, 0, 1, 1),
        flip=0,
        vertical_flip=0,
        interpolation="bicubic",
        color=PIX_FMTS[pix_fmt],
        dtype="uint8",
        layout="NHWC",
        factor=(1, 1, 1, 1),
        summand=(0, 0, 0, 0),
        fill=(0, 0, 0, 0),
        orient=orient,
        exact=False,
    )


def _summary(failures: tuple[LoadFailure, ...], num_sources: int) -> str:
    shown = 3
    lines = [f"  [{failure.index}] {failure.error}" for failure in failures[:shown]]
    if len(failures) > shown:
        lines.append(f"  and {len(failures) - shown} more, in .failures")
    return "\n".join([f"Failed to load some images. ({len(failures)} of {num_sources})", *lines])
