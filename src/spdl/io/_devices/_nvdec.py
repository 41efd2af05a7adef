"""Video decoding on NVIDIA GPUs. This version has no GPU decoder: arguments are checked, then DeviceError is raised."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from spdl.io import _native
from spdl.io._errors import NoCodecError
from spdl.io._source import as_native_source

from ._cuda import check_int
from ._cuda_buffers import CUDABuffer, CUDAConfig, check_device_config
from ._gpu_decoding import check_crop, check_pix_fmt, check_scale, refuse

if TYPE_CHECKING:
    from spdl.io._native import VideoCodec, VideoPackets
    from spdl.io._types import Source

_DECODER: Final = "NVDEC decoder (spdl.io.utils.built_with_nvcodec() is False)"
_DECODE: Final = (
    "decode on the CPU and transfer: load_video(..., device_config=...), or decode_packets and transfer_buffer"
)
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
    if not isinstance(packets, _native.VideoPackets):
        raise TypeError(f"packets must be VideoPackets, got {type(packets).__qualname__}")
    config = check_device_config(device_config)
    check_pix_fmt(pix_fmt)
    codec = packets.codec
    if codec is None:
        raise NoCodecError(
            "cannot decode packets without a codec: those of a streaming demuxer have none. Make a decoder with"
            " nvdec_decoder(device_config, demuxer.video_codec)",
            action="decode",
        )
    check_crop(codec.width, codec.height, left=crop_left, top=crop_top, right=crop_right, bottom=crop_bottom)
    check_scale(scale_width=scale_width, scale_height=scale_height)
    refuse("decode video", _DECODER, _DECODE, config)


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
    config = check_device_config(cuda_config)
    if not isinstance(codec, _native.VideoCodec):
        raise TypeError(f"codec must be a VideoCodec, got {type(codec).__qualname__}")
    check_crop(codec.width, codec.height, left=crop_left, top=crop_top, right=crop_right, bottom=crop_bottom)
    check_scale(scale_width=scale_width, scale_height=scale_height)
    refuse("make a video decoder", _DECODER, _DECODE, config)


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
    as_native_source(src)
    config = check_device_config(device_config)
    check_int("num_frames", num_frames, 1)
    if post_processing_params is not None:
        _check_post_processing(post_processing_params)
    refuse(
        "load video",
        _DECODER,
        "demux in chunks and decode on the CPU: Demuxer.streaming_demux, Decoder and transfer_buffer",
        config,
    )


def _check_post_processing(params: Mapping[str, Any]) -> None:
    if not isinstance(params, Mapping):
        raise TypeError(f"post_processing_params must be a dict, got {type(params).__qualname__}")
    unknown = [name for name in params if name not in _POST_PROCESSING]
    if unknown:
        raise TypeError(f"post_processing_params may have {', '.join(_POST_PROCESSING)}; got {unknown[0]!r}")
    sides = {name: params.get(f"crop_{name}", 0) for name in ("left", "top", "right", "bottom")}
    check_crop(None, None, **sides)
    check_scale(**{name: value for name, value in params.items() if name.startswith("scale_")})


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
    _convert(buffers, device_config, coeff)


def nv12_to_bgr(buffers: CUDABuffer, *, device_config: CUDAConfig, coeff: int = 1, sync: bool = False) -> CUDABuffer:
    """Same as :func:`nv12_to_rgb`, with channels in the order BGR."""
    _convert(buffers, device_config, coeff)


def _convert(buffers: CUDABuffer, device_config: CUDAConfig, coeff: int) -> NoReturn:
    interface = getattr(buffers, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        raise TypeError(f"buffers must be a CUDABuffer, got {type(buffers).__qualname__}")
    shape, typestr = tuple(interface["shape"]), interface["typestr"]
    if typestr != "|u1" or len(shape) != 3 or shape[1] % 3 or shape[2] % 2:
        raise ValueError(f"buffers must be uint8, (frames, height * 3 // 2, width), got {typestr}, {shape}")
    config = check_device_config(device_config)
    check_int("coeff", coeff, 1)
    if coeff not in _COEFFICIENTS:
        raise ValueError(f"coeff must be one of {_COEFFICIENTS}, got {coeff}")
    refuse(
        "convert NV12 frames",
        "converter of its own for frames on a GPU",
        "decode on the CPU with a filter that converts (get_video_filter_desc(pix_fmt='rgb24')) and transfer",
        config,
    )
