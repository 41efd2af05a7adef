"""``load_image``: load one image into an array."""

from typing import TYPE_CHECKING, Any, overload

from spdl._numbers import MAX_INT, as_bool, as_int
from spdl.io import _native
from spdl.io._devices._cuda import CUDABuffer, CUDAConfig, as_device, on_device
from spdl.io._errors import MediaError, OpenError
from spdl.io._media._config import DecodeConfig, DemuxConfig, check_arguments, native_options
from spdl.io._media._convert import convert_frames
from spdl.io._media._filters import get_video_filter_desc
from spdl.io._source import as_native_source, open_source, rename
from spdl.io._trace import traced
from spdl.io._types import DEFAULT, MAX_PIXELS, Default, Source

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer


_NO_OPTIONS = native_options(None, None, ())


@overload
def load_image(
    src: Source,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: None = None,
    name: str | None = None,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> "CPUBuffer": ...
@overload
def load_image(
    src: Source,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: CUDAConfig,
    name: str | None = None,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> CUDABuffer: ...
@traced
def load_image(
    src: Source,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    device_config: CUDAConfig | None = None,
    name: str | None = None,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> "CPUBuffer | CUDABuffer":
    """Load one image into an array: an image of any format, the first frame of an animation or video, or cover art.

    .. code-block:: python

        array = to_numpy(load_image("photos/0.jpg"))  # (height, width, 3) uint8

    libjpeg-turbo decodes JPEG, as in ``load_image_batch``; libwebp decodes WebP, libheif HEIC and libtiff TIFF, if the
    build has them; FFmpeg decodes all other formats. With a filter or a configuration, FFmpeg also decodes JPEG. JPEGs
    that FFmpeg would decode to wrong colours then raise ``DecodeError``.

    Args:
        src: Path, URL, or data in memory: any contiguous buffer of bytes, or a one-dimensional ``uint8`` array.
        demux_config: Options for opening the source, from ``demux_config``.
        decode_config: Options for decoding, from ``decode_config``.
        filter_desc: FFmpeg filter chain, as made by ``get_video_filter_desc``. The default converts to ``rgb24``
            without scaling. ``None``: no filter; the result has the decoder's own pixel format, or for
            TIFF, PAM, PFM and OpenEXR in floating point, with a sign or with any channels, the stored samples
            ``(height, width, channels)``.
        device_config: CUDA device for the result, from ``cuda_config``. ``None``: the CPU.
        name: Name of the source in messages.
        orient: Whether to turn the image upright before filtering, according to its EXIF data or XMP (JPEG, PNG,
            WebP, TIFF) or image properties (AVIF). If these are missing or damaged, it is not turned. HEIC is always
            turned as its properties say.
        max_pixels: Largest number of pixels allowed. The default is Pillow's limit.

    Returns:
        C-contiguous; by default ``(height, width, 3)`` ``uint8``, without alpha.

    Raises:
        SourceNotFoundError: The file does not exist.
        OpenError: The source is not an image.
        StreamNotFoundError: The source contains no image.
        DemuxError, DecodeError: The source is damaged; or a format, decoder or option is unknown.
        ImageTooLargeError: The image has more than ``max_pixels`` pixels. Raised before memory is allocated.
        TypeError: ``orient`` is not a bool.
        ValueError: ``max_pixels`` is out of range.
        FilterError: The filter description is wrong.
        UnsupportedFormatError: The pixel format has no array layout.
        DeviceError: The device of ``device_config`` does not exist.

    Releases the GIL; safe to call from several threads.
    """
    check_arguments(demux_config, decode_config, filter_desc)
    readable = as_native_source(src)  # once, as a stream cannot be read again
    limit = as_int("max_pixels", max_pixels, 1, MAX_INT)
    orient = as_bool("orient", orient)
    device = as_device(device_config, "load an image")
    source, name = open_source(readable, name)
    if isinstance(filter_desc, Default):
        if demux_config is None and decode_config is None:
            return on_device(_load_plainly(source, name, limit, orient=orient), device)
        filter_desc = get_video_filter_desc()
    options = native_options(demux_config, decode_config, (src,))
    return on_device(_load_filtered(source, options, filter_desc, limit, orient=orient, name=name), device)


def _load_plainly(source: Any, name: str | None, max_pixels: int, *, orient: bool) -> "CPUBuffer":
    """Decode the image to RGB. JPEG in files and in memory does not load FFmpeg."""
    is_url = isinstance(source, str) and _native.core.is_url(source)
    if is_url and name is None:
        name = source
    try:
        data = _native.media.read_url(source) if is_url else source
    except MediaError as error:
        rename(error, name or source)
        raise
    jpeg = _native.core.load_jpeg(data, name=name, max_pixels=max_pixels, orient=orient)
    if jpeg is not None:
        return jpeg
    filter_desc = get_video_filter_desc()
    try:
        return _load_filtered(data, _NO_OPTIONS, filter_desc, max_pixels, orient=orient, name=name)
    except OpenError:
        if not is_url:
            raise
    # Some formats have no signature: only the suffix identifies them.
    return _load_filtered(source, _NO_OPTIONS, filter_desc, max_pixels, orient=orient, name=name)


def _load_filtered(
    source: Any, options: dict[str, Any], filter_desc: str | None, max_pixels: int, *, orient: bool, name: str | None
) -> "CPUBuffer":
    """Decode and filter the image with FFmpeg."""
    (outcome,) = _native.media.load_pictures(
        [source], name=name, filter=filter_desc, max_pixels=max_pixels, orient=orient, num_threads=0, **options
    )
    if isinstance(outcome, Exception):
        raise outcome
    return convert_frames(outcome)
