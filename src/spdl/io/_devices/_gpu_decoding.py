"""Decoding on NVIDIA's GPUs. This version has no such decoder: calls check their arguments, and raise DeviceError."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from spdl._numbers import as_int
from spdl.io import _native
from spdl.io._errors import DeviceError, NoCodecError
from spdl.io._source import as_native_source, as_native_sources

from ._cuda import CUDABuffer, CUDAConfig, check_device_config, what_is_missing

if TYPE_CHECKING:
    from spdl.io._native import VideoCodec, VideoPackets
    from spdl.io._types import Source

#: What is missing, and what to do instead.
_NVDEC: Final = "NVDEC decoder (spdl.io.utils.built_with_nvcodec() is False)"
_NVJPEG: Final = "nvJPEG decoder (spdl.io.utils.built_with_nvjpeg() is False)"
_DECODE: Final = (
    "decode on the CPU and transfer: load_video(..., device_config=...), or decode_packets and transfer_buffer"
)
_REFUSALS: Final = {
    "decode video": (_NVDEC, _DECODE),
    "make a video decoder": (_NVDEC, _DECODE),
    "load video": (
        _NVDEC,
        "demux in chunks and decode on the CPU: Demuxer.streaming_demux, Decoder and transfer_buffer",
    ),
    "convert NV12 frames": (
        "converter of its own for frames on a GPU",
        "decode on the CPU with a filter that converts (get_video_filter_desc(pix_fmt='rgb24')) and transfer",
    ),
    "decode JPEG": (_NVJPEG, "load_image(..., device_config=...) decodes on the CPU and transfers"),
    "load JPEGs": (_NVJPEG, "load_image_batch(..., device_config=...) decodes on the CPU and transfers"),
}
#: Matrix coefficients of ITU-T H.273, table 4, that NVIDIA's converters support.
_COEFFICIENTS: Final = (1, 4, 5, 6, 7, 8, 9, 10)
#: Keys of ``post_processing_params``.
_POST_PROCESSING: Final = ("crop_left", "crop_top", "crop_right", "crop_bottom", "scale_width", "scale_height")


class NvDecDecoder(Protocol):
    """The decoder from :func:`nvdec_decoder`. Frames are NV12: ``uint8``, ``(frames, height * 3 // 2, width)``."""

    def init_decoder(
        self,
        device_config: CUDAConfig,
        codec: "VideoCodec",
        *,
        crop_left: int = 0,
        crop_top: int = 0,
        crop_right: int = 0,
        crop_bottom: int = 0,
        scale_width: int = -1,
        scale_height: int = -1,
    ) -> None:
        """Set the codec of a new video."""

    def decode_packets(self, packets: "VideoPackets") -> CUDABuffer:
        """Decode all packets of a video. H.264 and HEVC must be in Annex B form: see :func:`apply_bsf`."""
        ...

    def init_buffer(self, num_frames: int) -> None:
        """Set the number of frames in each buffer of ``streaming_decode_packets``."""

    def streaming_decode_packets(self, packets: "VideoPackets") -> Iterator[CUDABuffer]:
        """Decode more packets and yield the full buffers."""
        ...

    def flush(self) -> Iterator[CUDABuffer]:
        """Yield the remaining frames."""
        ...


def decode_packets_nvdec(
    packets: "VideoPackets",
    *,
    device_config: CUDAConfig,
    pix_fmt: str = "rgb",
    crop_left: int = 0,
    crop_top: int = 0,
    crop_right: int = 0,
    crop_bottom: int = 0,
    scale_width: int = -1,
    scale_height: int = -1,
) -> CUDABuffer:
    """Decode a video on the GPU. Not part of this version: the arguments are checked, and ``DeviceError`` is raised.

    Args:
        packets: Packets from :func:`demux_video`.
        device_config: Device, from :func:`cuda_config`.
        pix_fmt: ``"rgb"`` or ``"bgr"``.
        crop_left, crop_top, crop_right, crop_bottom: Pixels to crop from each side, before scaling.
        scale_width, scale_height: Size of the frames; -1: not scaled.

    Returns:
        ``uint8``, ``(frames, 3, height, width)``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        NoCodecError: The packets carry no codec, as those of a streaming demuxer; also a ``ValueError``.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    _refuse("decode video", locals())


def nvdec_decoder(
    cuda_config: CUDAConfig,
    codec: "VideoCodec",
    *,
    use_cache: bool = True,
    crop_left: int = 0,
    crop_top: int = 0,
    crop_right: int = 0,
    crop_bottom: int = 0,
    scale_width: int = -1,
    scale_height: int = -1,
) -> NvDecDecoder:
    """Make a decoder on the GPU. Not part of this version: the arguments are checked, and ``DeviceError`` is raised.

    Args:
        cuda_config: Device, from :func:`cuda_config`.
        codec: Codec of the video, such as ``demuxer.video_codec``.
        use_cache: Whether to reuse the decoder of this thread. It is never reused when frames are cropped.
        crop_left, crop_top, crop_right, crop_bottom: Pixels to crop from each side, before scaling.
        scale_width, scale_height: Size of the frames; -1: not scaled.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    _refuse("make a video decoder", locals())


def streaming_load_video_nvdec(
    src: "Source",
    device_config: CUDAConfig,
    *,
    num_frames: int,
    post_processing_params: Mapping[str, int] | None = None,
    use_cache: bool = True,
) -> Iterator[CUDABuffer]:
    """Load a video on the GPU, in chunks of frames. Not part of this version: the call checks the arguments and raises
    ``DeviceError``.

    Args:
        src: Path, URL or data.
        device_config: Device, from :func:`cuda_config`.
        num_frames: Number of frames in each buffer except the last.
        post_processing_params: Arguments of :func:`nvdec_decoder` for cropping and scaling.
        use_cache: Whether to reuse the decoder of this thread, as for :func:`nvdec_decoder`.

    Returns:
        Buffers of NV12 frames: ``uint8``, ``(frames, height * 3 // 2, width)``.

    Raises:
        TypeError: An argument is of the wrong type, or ``post_processing_params`` has an unknown key.
        ValueError: An argument is out of range.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    as_native_source(src)  # one video, and no list of images
    _refuse("load video", locals())


def nv12_to_rgb(buffers: CUDABuffer, *, device_config: CUDAConfig, coeff: int = 1, sync: bool = False) -> CUDABuffer:
    """Convert NV12 frames on the GPU. Not part of this version: arguments are checked, and ``DeviceError`` is raised.

    Args:
        buffers: NV12 frames from an NVDEC decoder: ``uint8``, ``(frames, height * 3 // 2, width)``.
        device_config: Device, from :func:`cuda_config`.
        coeff: Matrix coefficients by their number in ITU-T H.273: 1 (BT.709), 4 (FCC), 5 (BT.470BG), 6 (BT.601),
            7 (SMPTE 240M), 8 (YCgCo), 9 and 10 (BT.2020).
        sync: Whether to wait for completion.

    Returns:
        ``uint8``, ``(frames, 3, height, width)``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``coeff`` is not one of these, or ``buffers`` has another shape or dtype.
        DeviceError: The device or the converter does not exist; the message says what is missing.
    """
    _refuse("convert NV12 frames", locals())


def nv12_to_bgr(buffers: CUDABuffer, *, device_config: CUDAConfig, coeff: int = 1, sync: bool = False) -> CUDABuffer:
    """Same as :func:`nv12_to_rgb`, with channels in the order BGR."""
    _refuse("convert NV12 frames", locals())


def decode_image_nvjpeg(
    src: "Source | Sequence[Source]",
    *,
    device_config: CUDAConfig | None = None,
    scale_width: int = -1,
    scale_height: int = -1,
    pix_fmt: str = "rgb",
) -> CUDABuffer:
    """Decode a JPEG on the GPU. Not part of this version: the arguments are checked, and ``DeviceError`` is raised.

    Args:
        src: Path or data, or a list of them for a batch, which requires ``scale_width`` and ``scale_height``.
        device_config: Device, from :func:`cuda_config`. Required.
        scale_width, scale_height: Size of the image; -1: not scaled.
        pix_fmt: ``"rgb"`` or ``"bgr"``.

    Returns:
        ``uint8``, ``(3, height, width)``; for a batch ``(images, 3, height, width)``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or ``device_config`` is not given.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    if device_config is None:
        raise ValueError("device_config must be given: cuda_config(device_index=...) makes one")
    _refuse("decode JPEG", locals())


def load_image_batch_nvjpeg(
    srcs: "Sequence[Source]", *, device_config: CUDAConfig, width: int, height: int, pix_fmt: str = "rgb"
) -> CUDABuffer:
    """Decode JPEGs on the GPU into a batch. Not part of this version: the arguments are checked, and ``DeviceError`` is
    raised.

    Args:
        srcs: Paths or data.
        device_config: Device, from :func:`cuda_config`.
        width, height: Size of all images.
        pix_fmt: ``"rgb"`` or ``"bgr"``.

    Returns:
        ``uint8``, ``(images, 3, height, width)``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    _refuse("load JPEGs", locals())


def _refuse(action: str, arguments: dict[str, Any]) -> NoReturn:
    """Check the arguments by their names, and raise ``DeviceError`` for all that is missing."""
    for name, value in arguments.items():
        if (check := _CHECKS.get(name)) is not None:
            check(name, value)
    packets = arguments.get("packets")
    codec = arguments.get("codec") if packets is None else packets.codec
    if packets is not None and codec is None:
        raise NoCodecError(
            "cannot decode packets without a codec: those of a streaming demuxer have none. Make a decoder with"
            " nvdec_decoder(device_config, demuxer.video_codec)",
            action="decode",
        )
    if codec is not None:
        for size, sides in ((codec.width, ("crop_left", "crop_right")), (codec.height, ("crop_top", "crop_bottom"))):
            first, second = (arguments[name] for name in sides)
            if size and first + second >= size:
                raise ValueError(
                    f"{' and '.join(sides)} must leave at least 1 of {size} pixels, got {first} and {second}"
                )
    if action == "decode JPEG" and isinstance(arguments["src"], list | tuple):
        width, height = arguments["scale_width"], arguments["scale_height"]
        if min(width, height) < 1:
            raise ValueError(
                "scale_width and scale_height must be given for a batch, whose images all have the same size; got"
                f" {width} and {height}"
            )
    index = arguments["cuda_config" if "cuda_config" in arguments else "device_config"].device_index
    needs, instead = _REFUSALS[action]
    missing = f"this version of spdl has no {needs}"
    if (no_device := what_is_missing(index)) is not None:
        missing = f"{no_device}; also, {missing}"
    raise DeviceError(f"cannot {action} on cuda:{index}: {missing}. Instead, {instead}", action=action)


def _check_packets(name: str, value: Any) -> None:
    if not isinstance(value, _native.VideoPackets):
        raise TypeError(f"{name} must be VideoPackets, got {type(value).__qualname__}")


def _check_codec(name: str, value: Any) -> None:
    if not isinstance(value, _native.VideoCodec):
        raise TypeError(f"{name} must be a VideoCodec, got {type(value).__qualname__}")


def _check_sources(name: str, value: Any) -> None:
    if name == "srcs" and isinstance(value, str | bytes | bytearray | memoryview):
        raise TypeError(f"srcs must be a sequence of sources, got one {type(value).__name__}")
    if name == "src" and not isinstance(value, list | tuple):
        as_native_source(value)  # raises for anything that is not a source
    elif not as_native_sources(value):
        raise ValueError(f"{name} must have at least one image, got none")


def _check_scale(name: str, value: Any) -> None:
    if as_int(name, value, -1) == 0:
        raise ValueError(f"{name} must be >= 1, or -1 for the size of the source; got 0")


def _check_pix_fmt(name: str, value: Any) -> None:
    if value not in ("rgb", "bgr"):
        raise ValueError(f"{name} must be 'rgb' or 'bgr', got {value!r}")


def _check_frames(name: str, value: Any) -> None:
    interface = getattr(value, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        raise TypeError(f"{name} must be a CUDABuffer, got {type(value).__qualname__}")
    shape, typestr = tuple(interface["shape"]), interface["typestr"]
    if typestr != "|u1" or len(shape) != 3 or shape[1] % 3 or shape[2] % 2:
        raise ValueError(f"{name} must be uint8, (frames, height * 3 // 2, width), got {typestr}, {shape}")


def _check_coefficients(name: str, value: Any) -> None:
    if as_int(name, value, 1) not in _COEFFICIENTS:
        raise ValueError(f"{name} must be one of {_COEFFICIENTS}, got {value}")


def _check_post_processing(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, got {type(value).__qualname__}")
    if unknown := [key for key in value if key not in _POST_PROCESSING]:
        raise TypeError(f"{name} may have {', '.join(_POST_PROCESSING)}; got {unknown[0]!r}")
    for key, number in value.items():
        _CHECKS[key](key, number)


#: Argument -> its check, which raises ``TypeError`` or ``ValueError``.
_CHECKS: Final[dict[str, Callable[[str, Any], object]]] = {
    "packets": _check_packets,
    "codec": _check_codec,
    "src": _check_sources,
    "srcs": _check_sources,
    "buffers": _check_frames,
    "cuda_config": lambda _, value: check_device_config(value),
    "device_config": lambda _, value: check_device_config(value),
    "pix_fmt": _check_pix_fmt,
    "coeff": _check_coefficients,
    "post_processing_params": _check_post_processing,
    **dict.fromkeys(("num_frames", "width", "height"), lambda name, value: as_int(name, value, 1)),
    **dict.fromkeys(_POST_PROCESSING[:4], lambda name, value: as_int(name, value, 0)),
    **dict.fromkeys(_POST_PROCESSING[4:], _check_scale),
}
