"""``load_audio`` and ``load_video``: demux, decode, filter and convert a stream to an array in one call."""

from typing import TYPE_CHECKING, Literal, overload

from spdl._numbers import as_bool
from spdl.io._devices._cuda import CUDABuffer, CUDAConfig, as_device, on_device
from spdl.io._errors import ConvertError
from spdl.io._source import as_native_source
from spdl.io._trace import traced
from spdl.io._types import DEFAULT, Default, Source, TimeWindow

from ._config import DecodeConfig, DemuxConfig, check_arguments
from ._decode import decode_array
from ._demux import Demuxer, empty_window_error
from ._filters import turned
from ._sound import is_stream_clock, load_sound
from ._window import as_window

if TYPE_CHECKING:
    from spdl.io._native import AudioPackets, CPUBuffer, VideoPackets


@overload
def load_audio(
    src: Source,
    timestamp: TimeWindow | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    sample_rate: int | None = None,
    num_channels: int | None = None,
    num_samples: int | None = None,
    dtype: Literal["float32", "float64", "int16", "int32"] | None = None,
    stream: int | None = None,
    origin: Literal["first_sample", "stream"] = "first_sample",
    device_config: None = None,
    name: str | None = None,
) -> "CPUBuffer": ...
@overload
def load_audio(
    src: Source,
    timestamp: TimeWindow | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    sample_rate: int | None = None,
    num_channels: int | None = None,
    num_samples: int | None = None,
    dtype: Literal["float32", "float64", "int16", "int32"] | None = None,
    stream: int | None = None,
    origin: Literal["first_sample", "stream"] = "first_sample",
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
@traced
def load_audio(
    src: Source,
    timestamp: TimeWindow | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    sample_rate: int | None = None,
    num_channels: int | None = None,
    num_samples: int | None = None,
    dtype: Literal["float32", "float64", "int16", "int32"] | None = None,
    stream: int | None = None,
    origin: Literal["first_sample", "stream"] = "first_sample",
    device_config: CUDAConfig | None = None,
    name: str | None = None,
) -> "CPUBuffer | CUDABuffer":
    """Load an audio stream of a source into an array: the best stream, unless ``stream`` is given.

    ::

        second = load_audio("clips/music.flac", (0.5, 1.5), sample_rate=16000, num_channels=1)  # (1, 16000) float32

    Args:
        src: Path, URL, or data in memory: any contiguous buffer of bytes, or a one-dimensional ``uint8`` array.
        timestamp: Start and end in seconds, half open: samples with ``start <= time < end``, where sample ``k`` of all
            that ``load_audio`` returns without a window, at the same rate, has the time ``k / rate``. So the result is
            ``whole[:, ceil(start * rate) : ceil(end * rate)]``. The end may be infinite. ``None``: everything.
        demux_config: Options for opening the source, from ``demux_config``.
        decode_config: Options for decoding, from ``decode_config``.
        filter_desc: FFmpeg filter chain, as made by ``get_audio_filter_desc``. The default converts to ``fltp``.
            ``None``: no filter; the result has the decoder's own sample format. The output is trimmed to the window,
            unless the chain has filters that may change timestamps, such as ``atrim``, ``apad`` and ``atempo``.
        sample_rate: Sample rate of the result, in Hz. This and the next three arguments replace ``filter_desc``.
            ``None``: the rate of the source. Resampled by libswresample, with its default filter.
        num_channels: Number of channels of the result. ``None``: the channels of the source. One channel is the mean of
            those of the source, and each of several is a copy of a single one; FFmpeg mixes other numbers.
        num_samples: Number of samples of the result, from the start of the window on. Further samples are cut off.
            Before the first and after the last sample of the source there is silence.
        dtype: Dtype of the result; floats go from -1 to 1. ``None``: ``"float32"``.
        stream: Index of the stream in the container, as ``probe`` lists them.
        origin: What ``timestamp`` is counted from. ``"first_sample"``: the first sample of the sound. ``"stream"``: the
            zero of the container's clock, as for video; streams may begin before or after it.
        device_config: CUDA device for the result, from ``cuda_config``. ``None``: the CPU.
        name: Name of the source in messages.

    Returns:
        C-contiguous; by default ``(channels, samples)`` ``float32``, at the sample rate of the source, which is
        ``probe(src).audio.sample_rate``. For a window inside the stream, the samples are exactly those that
        ``timestamp`` defines, at any rate: the same as resampling the whole stream and then cutting.

    Raises:
        SourceNotFoundError: The file does not exist.
        OpenError: The source is not media.
        StreamNotFoundError: The source has no audio stream, or ``stream`` is not one.
        DemuxError, DecodeError: The source is damaged; or a format, decoder or option is unknown.
        FilterError: The filter description is wrong.
        ConvertError: The window contains no sample.
        TypeError, ValueError: The window is not a pair of numbers of seconds; a rate or number is not an integer, is
            out of range, or is given together with ``filter_desc``.
        OverflowError: The start of the window is infinite.
        UnsupportedFormatError: The sample format has no array layout.
        DeviceError: The device of ``device_config`` does not exist.

    Releases the GIL; safe to call from several threads.
    """
    by_stream_clock = is_stream_clock(origin)
    if (sample_rate, num_channels, num_samples, dtype) != (None, None, None, None):
        if not isinstance(filter_desc, Default):
            raise ValueError(
                "filter_desc and sample_rate, num_channels, num_samples or dtype exclude each other:"
                " get_audio_filter_desc makes a description with all of them"
            )
        check_arguments(demux_config, decode_config, filter_desc)
        window = as_window(timestamp, "timestamp", may_be_endless=True)
        source = as_native_source(src)  # once, as a stream cannot be read again
        device = as_device(device_config, "load audio")
        return on_device(
            load_sound(
                source,
                window,
                sample_rate=sample_rate,
                num_channels=num_channels,
                num_samples=num_samples,
                dtype=dtype,
                stream=stream,
                by_stream_clock=by_stream_clock,
                demux_config=demux_config,
                decode_config=decode_config,
                name=name,
            ),
            device,
        )
    return _load(
        "audio",
        src,
        timestamp,
        demux_config,
        decode_config,
        filter_desc,
        device_config,
        name,
        stream,
        from_first_sample=not by_stream_clock,
    )


@overload
def load_video(
    src: Source,
    timestamp: TimeWindow | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    stream: int | None = None,
    orient: bool = False,
    device_config: None = None,
    name: str | None = None,
) -> "CPUBuffer": ...
@overload
def load_video(
    src: Source,
    timestamp: TimeWindow | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    stream: int | None = None,
    orient: bool = False,
    device_config: CUDAConfig,
    name: str | None = None,
) -> CUDABuffer: ...
@traced
def load_video(
    src: Source,
    timestamp: TimeWindow | None = None,
    *,
    demux_config: DemuxConfig | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
    stream: int | None = None,
    orient: bool = False,
    device_config: CUDAConfig | None = None,
    name: str | None = None,
) -> "CPUBuffer | CUDABuffer":
    """Load the frames of a video stream of a source into an array: the best stream, unless ``stream`` is given.

    .. code-block:: python

        array = to_numpy(load_video("clips/video.mp4", (0.5, 1.5)))  # (frames, height, width, 3) uint8

    Args:
        src: Path, URL, or data in memory: any contiguous buffer of bytes, or a one-dimensional ``uint8`` array.
        timestamp: Start and end in seconds, half open: frames with ``start <= time < end``. ``None``: everything.
        demux_config: Options for opening the source, from ``demux_config``.
        decode_config: Options for decoding, from ``decode_config``.
        filter_desc: FFmpeg filter chain, as made by ``get_video_filter_desc``. The default converts to ``rgb24``.
            ``None``: no filter; the result has the decoder's own pixel format.
        stream: Index of the stream in the container, as ``probe`` lists them.
        orient: Whether to turn and mirror frames for display, according to the container, before they are filtered.
            With ``False``, they stay as stored.
        device_config: CUDA device for the result, from ``cuda_config``. ``None``: the CPU.
        name: Name of the source in messages.

    Returns:
        C-contiguous; by default ``(frames, height, width, 3)`` ``uint8``. An image has one frame.

    Raises:
        SourceNotFoundError: The file does not exist.
        OpenError: The source is not media.
        StreamNotFoundError: The source has no video stream, or ``stream`` is not one.
        DemuxError, DecodeError: The source is damaged; or a format, decoder or option is unknown.
        FilterError: The filter description is wrong.
        ConvertError: The window contains no frame.
        TypeError, ValueError: The window is not a pair of numbers of seconds; ``orient`` is not a bool.
        OverflowError: A bound of the window is infinite.
        UnsupportedFormatError: The pixel format has no array layout.
        DeviceError: The device of ``device_config`` does not exist.

    Releases the GIL; safe to call from several threads.
    """
    orient = as_bool("orient", orient)
    return _load("video", src, timestamp, demux_config, decode_config, filter_desc, device_config, name, stream, orient)


def _load(
    kind: Literal["audio", "video"],
    src: Source,
    timestamp: TimeWindow | None,
    demux_config: DemuxConfig | None,
    decode_config: DecodeConfig | None,
    filter_desc: str | Default | None,
    device_config: CUDAConfig | None,
    name: str | None,
    stream: int | None,
    orient: bool = False,
    from_first_sample: bool = False,
) -> "CPUBuffer | CUDABuffer":
    check_arguments(demux_config, decode_config, filter_desc)
    source = as_native_source(src)  # once, as a stream cannot be read again
    window = as_window(timestamp, "timestamp", may_be_endless=kind == "audio", of_pictures=kind == "video")
    device = as_device(device_config, f"load {kind}")
    with Demuxer(source, demux_config=demux_config, name=name) as demuxer:
        if kind == "audio":
            packets: AudioPackets | VideoPackets = demuxer._demux_sound(window, stream, from_first_sample)
        else:
            packets = demuxer.demux_video(window, stream=stream)
        if kind == "audio":
            # Packets tell their times, which need not be those of the samples: only decoding tells what the window has.
            try:
                return on_device(decode_array(packets, filter_desc, decode_config), device)
            except ConvertError as error:
                if window is None or "there are no samples" not in str(error):
                    raise
                raise empty_window_error(demuxer, kind, window, stream) from None
        if window is not None and len(packets) == 0:
            raise empty_window_error(demuxer, kind, window, stream)
        if orient:
            filter_desc = turned(filter_desc, demuxer._native.orientation(stream))
    return on_device(decode_array(packets, filter_desc, decode_config), device)
