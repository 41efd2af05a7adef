"""``Demuxer``, ``probe``, ``demux_audio``, ``demux_video`` and ``demux_image``: read containers."""

from collections.abc import Iterator, Sequence, Set
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from spdl._numbers import MAX_INT, as_float, as_int, int_or_none
from spdl.io import _native
from spdl.io._errors import ConvertError
from spdl.io._source import is_remote, open_media
from spdl.io._trace import Event, traced
from spdl.io._types import Source, TimeWindow

from ._config import DemuxConfig, as_remote_config
from ._info import MediaInfo, info_of
from ._window import as_window

if TYPE_CHECKING:
    from spdl.io._native import AudioCodec, AudioPackets, ImageCodec, ImagePackets, VideoCodec, VideoPackets


class Demuxer:
    """Read packets from an open container.

    A context manager that closes the container at the end of the block. All methods that do I/O release the GIL.
    Not thread-safe: concurrent use from a second thread raises ``MediaError``.

    Args:
        src: One of these:

            - Path or URL.
            - Data in memory: any contiguous buffer of bytes, a one-dimensional ``uint8`` array, or a CPU tensor. It is
              read in place, kept alive, and cannot be resized until the demuxer is closed.
            - Object in a store (``s3://``, ``gs://``, ``az://``, ``spdl.remote.RemoteObject``): fetched whole if it
              has at most 8 MiB; otherwise only the needed blocks are read.
            - Binary file object. The whole file is read: ``BytesIO`` in place; an open file by its path, if the path
              still refers to the same file; any other file is read into memory.
            - File of fsspec, as returned by ``fsspec.open(...)``: read like an object in a store, unless it is
              compressed, local or cached.
        demux_config: Options for opening the source, from ``demux_config``.
        name: Name of the source in messages. Default: the path, or ``Bytes: 0x`` and the address.

    Raises:
        TypeError: The source is neither a path, a buffer of bytes nor a binary file object.
        SourceNotFoundError: The file does not exist.
        OpenError: The source cannot be read, is not media, or refers to other files or hosts: see ``demux_config``.
        SourceTimeoutError: Opening took longer than the timeout in ``demux_config``.
        DemuxError: The format, a protocol or an option in ``demux_config`` is unknown.
        spdl.remote.RemoteError: The source is in an object store and cannot be read.
    """

    @traced
    def __init__(self, src: Source, *, demux_config: DemuxConfig | None = None, name: str | None = None) -> None:
        if demux_config is not None and not isinstance(demux_config, DemuxConfig):
            raise TypeError(f"demux_config must be made by demux_config(), got {type(demux_config).__name__}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be str or None, got {type(name).__name__}")
        config = demux_config if demux_config is not None else DemuxConfig()
        if is_remote(src):
            config = as_remote_config(config)
        source, name = open_media(src, name)
        self._native = _native.media.Demuxer(
            source,
            name=name,
            format=config.format,
            format_options=dict(config.format_options),
            buffer_size=config.buffer_size,
            tolerate_errors=config.tolerate_errors,
            protocols=None if config.protocols is None else list(config.protocols),
            timeout=config.timeout,
        )

    def __enter__(self) -> Self:
        """Return the demuxer itself."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the demuxer."""
        self.close()

    def close(self) -> None:
        """Close the container and release the source. Using the demuxer after that raises ``ClosedError``.

        Packets that were already read stay valid. A second call does nothing.
        """
        self._native.close()

    @traced
    def demux_audio(
        self, window: TimeWindow | None = None, *, bsf: str | None = None, stream: int | None = None
    ) -> "AudioPackets":
        """Read the packets of an audio stream: the best stream, unless ``stream`` is given.

        Can be called any number of times, in any order with other methods; each call reads from the beginning.

        Args:
            window: Start and end in seconds, half open: samples with ``start <= time < end``. Numbers, ``Fraction``,
                ``Decimal``, or text such as ``"1/3"``. The result has the packets that overlap the window, and the
                packets before it that the decoder needs to produce the same samples as without a window. ``None``:
                everything.
            bsf: Bit stream filters for the packets, in FFmpeg's syntax.
            stream: Index of the stream in the container, as ``info`` and ``probe`` list them. ``None``: the best one.

        Returns:
            Packets that are independent of the demuxer. Their length is 0 if the window is empty or beyond the end.

        Raises:
            StreamNotFoundError: There is no audio stream, or ``stream`` is not one.
            DemuxError: The data is damaged or cannot be read.
            FilterError: A bit stream filter is unknown, or rejects the packets.
            TypeError, ValueError: The window is not a pair of numbers of seconds.
            OverflowError: A bound of the window is infinite.
            ClosedError: The demuxer was closed.
        """
        return cast(
            "AudioPackets",
            self._native.demux("audio", window=as_window(window, "window"), bsf=bsf, index=stream_of(stream)),
        )

    @traced
    def _demux_sound(
        self, window: tuple[float, float] | None, stream: int | None, from_first_sample: bool
    ) -> "AudioPackets":
        """``demux_audio`` for ``load_audio``, whose windows may count from the first sample of the sound."""
        return cast(
            "AudioPackets",
            self._native.demux(
                "audio", window=window, bsf=None, index=stream_of(stream), from_first_sample=from_first_sample
            ),
        )

    @traced
    def demux_video(
        self, window: TimeWindow | None = None, *, bsf: str | None = None, stream: int | None = None
    ) -> "VideoPackets":
        """Read the packets of a video stream: the best stream (never cover art), unless ``stream`` is given.

        Can be called any number of times, in any order with other methods; each call reads from the beginning. An
        image gives one packet.

        Args:
            window: Start and end in seconds, half open: frames with ``start <= time < end``. Numbers, ``Fraction``,
                ``Decimal``, or text such as ``"1/3"``. Packets from the last key frame at or before the start are kept
                for decoding; ``len`` does not count those before the window. ``None``: everything.
            bsf: Bit stream filters for the packets, in FFmpeg's syntax.
            stream: Index of the stream in the container, as ``info`` and ``probe`` list them. ``None``: the best one.

        Returns:
            Packets that are independent of the demuxer. Their length is 0 if the window is empty or beyond the end.

        Raises:
            StreamNotFoundError: There is no video stream, or ``stream`` is not one.
            DemuxError: The data is damaged or cannot be read.
            FilterError: A bit stream filter is unknown, or rejects the packets.
            TypeError, ValueError: The window is not a pair of numbers of seconds.
            OverflowError: A bound of the window is infinite.
            ClosedError: The demuxer was closed.
        """
        return cast(
            "VideoPackets",
            self._native.demux(
                "video", window=as_window(window, "window", of_pictures=True), bsf=bsf, index=stream_of(stream)
            ),
        )

    @traced
    def demux_image(self, *, bsf: str | None = None) -> "ImagePackets":
        """Read one image: an image file, the first frame of a video, or the cover art of a source without video.

        Args:
            bsf: Bit stream filters for the packet, in FFmpeg's syntax.

        Raises:
            StreamNotFoundError: There is no image.
            DemuxError: The data is damaged or cannot be read.
            FilterError: A bit stream filter is unknown, or rejects the packet.
            ClosedError: The demuxer was closed.
        """
        return cast("ImagePackets", self._native.demux("image", window=None, bsf=bsf))

    @overload
    def streaming_demux(
        self, indices: int | None = None, *, duration: float = -1, num_packets: int = -1
    ) -> "Iterator[AudioPackets | VideoPackets]": ...

    @overload
    def streaming_demux(
        self, indices: Sequence[int] | Set[int], *, duration: float = -1, num_packets: int = -1
    ) -> "Iterator[dict[int, AudioPackets | VideoPackets]]": ...

    def streaming_demux(
        self, indices: int | Sequence[int] | Set[int] | None = None, *, duration: float = -1, num_packets: int = -1
    ) -> "Iterator[AudioPackets | VideoPackets] | Iterator[dict[int, AudioPackets | VideoPackets]]":
        """Iterate over packets in chunks, from beginning to end, for long sources or several streams.

        Exactly one of ``duration`` and ``num_packets`` must be given. The packets have no codec: use ``video_codec`` or
        ``audio_codec``. Reading other packets from the demuxer ends the iteration with a ``MediaError``.

        Args:
            indices: Index of a stream, or a sequence or set of indices. With several, each chunk is a dict from index
                to packets, which omits streams without packets. ``None``: stream 0.
            duration: Minimum duration of a chunk, in seconds. A chunk continues to the end of a decodable group, so
                durations vary: the next chunk starts at a key frame of the video stream or, without a video stream, of
                the first of the streams.
            num_packets: Number of packets in a chunk. With several streams, a chunk ends when one stream has that many.

        Returns:
            An iterator of chunks. After the demuxer is closed, it raises ``ClosedError``.

        Raises:
            ValueError: Neither or both of the limits are given, or there is no index.
            TypeError: An index or limit is not a number.
            StreamNotFoundError: A stream does not exist, or is neither audio nor video.
            ClosedError: The demuxer was closed.
        """
        limits = _as_limits(duration, num_packets)
        index = 0 if indices is None else int_or_none(indices)
        if index is not None:
            return _Chunks(self._native, {index}, limits, index)
        if isinstance(indices, str | bytes) or not isinstance(indices, Sequence | Set):
            raise TypeError(f"indices must be int, a sequence or set of them or None, got {type(indices).__name__}")
        chosen = {as_int("indices", each) for each in indices}
        if not chosen:
            raise ValueError("indices must have at least one index, got none")
        return _Chunks(self._native, chosen, limits)

    @property
    def info(self) -> MediaInfo:
        """Metadata of the container and its streams, as returned by ``probe``."""
        return info_of(self._native)

    def __str__(self) -> str:
        return str(self.info)

    def codec(self, stream: int) -> "AudioCodec | VideoCodec":
        """Return the codec of a stream, for example for a ``Decoder`` of the packets of ``streaming_demux``.

        Args:
            stream: Index of the stream in the container.

        Raises:
            StreamNotFoundError: The stream does not exist, or is neither audio nor video.
            ClosedError: The demuxer was closed.
        """
        return self._native.codec_at(min(max(as_int("stream", stream), -1), MAX_INT))

    def has_audio(self) -> bool:
        """Whether there is an audio stream."""
        return self._native.has("audio")

    @property
    def audio_stream_index(self) -> int:
        """Index of the best audio stream; ``StreamNotFoundError`` if there is none."""
        return self._native.stream_index("audio")

    @property
    def video_stream_index(self) -> int:
        """Index of the best video stream; ``StreamNotFoundError`` if there is none."""
        return self._native.stream_index("video")

    @property
    def audio_codec(self) -> "AudioCodec":
        """Codec of the best audio stream; ``StreamNotFoundError`` if there is none."""
        return cast("AudioCodec", self._native.codec("audio"))

    @property
    def video_codec(self) -> "VideoCodec":
        """Codec of the best video stream; ``StreamNotFoundError`` if there is none."""
        return cast("VideoCodec", self._native.codec("video"))

    @property
    def image_codec(self) -> "ImageCodec":
        """Codec of the image that ``demux_image`` reads; ``StreamNotFoundError`` if there is none."""
        return cast("ImageCodec", self._native.codec("image"))


class _Chunks:
    """An iterator over the chunks of a demuxer: the packets of one stream or, without ``index``, of several."""

    def __init__(
        self, native: Any, streams: set[int], limits: tuple[float | None, int | None], index: int | None = None
    ) -> None:
        self._native = native
        self._reading = native.start_reading(streams)
        self._duration, self._num_packets = limits
        self._index = index

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        # Native code is also called after the last chunk, so that a closed demuxer raises.
        with Event("Demuxer.streaming_demux"):
            chunk = self._native.read_some(self._reading, duration=self._duration, num_packets=self._num_packets)
        if not chunk:
            raise StopIteration
        return chunk if self._index is None else chunk[self._index]


def _as_limits(duration: float, num_packets: int) -> tuple[float | None, int | None]:
    num_packets = as_int("num_packets", num_packets)
    seconds = as_float("duration", duration)
    if (seconds > 0) == (num_packets > 0) or seconds != seconds:  # NaN
        raise ValueError(
            "exactly one of duration and num_packets must be > 0,"
            f" got duration={duration!r} and num_packets={num_packets!r}"
        )
    if num_packets > 0:
        return None, min(num_packets, MAX_INT)
    return seconds, None


def stream_of(stream: int | None) -> int | None:
    """Check the argument ``stream``, an integer, and convert it for native code."""
    if stream is None:
        return None
    return min(max(as_int("stream", stream), -1), MAX_INT)  # native code has the message for numbers out of range


def empty_window_error(
    demuxer: Demuxer, kind: Literal["audio", "video"], window: tuple[float, float], stream: int | None = None
) -> ConvertError:
    """The error for a window that contains no sample or frame of a stream. Its message has the stream's time range."""
    start, end = window
    what = "samples" if kind == "audio" else "pictures"
    extent = demuxer._native.extent(kind, stream)
    reason = f"there are no {what} in [{start:g}, {end:g}) seconds"
    if extent is not None:
        reason += f"; the {kind} stream goes from {extent[0]:.6g} to {extent[1]:.6g}"
    action = f"load a window of {kind}"
    source = demuxer._native.name
    return ConvertError(f"cannot {action} of {source}: {reason}", action=action, source=source)


@traced
def probe(src: Source, *, demux_config: DemuxConfig | None = None, name: str | None = None) -> MediaInfo:
    """Read the metadata of a container and its streams. Nothing is decoded.

    .. code-block:: python

        info = probe("clips/video.mp4")
        print(info)  # the container and its streams, as a table
        info.duration, [stream.codec for stream in info.streams]

    Args:
        src: Source, as for ``Demuxer``.
        demux_config: Options for opening the source, from ``demux_config``.
        name: Name of the source in messages, and in the result.

    Returns:
        Duration, tags, and for each stream its codec, times and format. ``print(probe(src))`` shows all of it.

    Raises:
        SourceNotFoundError, OpenError, SourceTimeoutError, DemuxError, TypeError: As for ``Demuxer``.

    Reads the headers of the container and, if they are not sufficient, some of the first packets. Releases the GIL.
    """
    with Demuxer(src, demux_config=demux_config, name=name) as demuxer:
        return demuxer.info


@traced
def demux_audio(
    src: Source,
    *,
    timestamp: TimeWindow | None = None,
    demux_config: DemuxConfig | None = None,
    bsf: str | None = None,
    name: str | None = None,
) -> "AudioPackets":
    """Read the packets of the best audio stream of a source.

    Args:
        src: Source, as for ``Demuxer``.
        timestamp: Window, as for ``Demuxer.demux_audio``.
        demux_config: Options, as for ``Demuxer``.
        bsf: Bit stream filters, as for ``Demuxer.demux_audio``.
        name: Name in messages, as for ``Demuxer``.

    Returns:
        Packets that are independent of the source.

    Raises:
        The exceptions of ``Demuxer`` and ``Demuxer.demux_audio``.
    """
    window = as_window(timestamp, "timestamp")
    with Demuxer(src, demux_config=demux_config, name=name) as demuxer:
        return demuxer.demux_audio(window, bsf=bsf)


@traced
def demux_video(
    src: Source,
    *,
    timestamp: TimeWindow | None = None,
    demux_config: DemuxConfig | None = None,
    bsf: str | None = None,
    name: str | None = None,
) -> "VideoPackets":
    """Read the packets of the best video stream of a source.

    .. code-block:: python

        packets = demux_video("clips/video.mp4", timestamp=(0.5, 1.5))
        frames = decode_packets(packets, get_video_filter_desc(scale_width=112, scale_height=112))
        array = to_numpy(convert_frames(frames))  # (frames, 112, 112, 3) uint8

    Args:
        src: Source, as for ``Demuxer``.
        timestamp: Window, as for ``Demuxer.demux_video``.
        demux_config: Options, as for ``Demuxer``.
        bsf: Bit stream filters, as for ``Demuxer.demux_video``.
        name: Name in messages, as for ``Demuxer``.

    Returns:
        Packets that are independent of the source.

    Raises:
        The exceptions of ``Demuxer`` and ``Demuxer.demux_video``.
    """
    window = as_window(timestamp, "timestamp", of_pictures=True)
    with Demuxer(src, demux_config=demux_config, name=name) as demuxer:
        return demuxer.demux_video(window, bsf=bsf)


@traced
def demux_image(
    src: Source, *, demux_config: DemuxConfig | None = None, bsf: str | None = None, name: str | None = None
) -> "ImagePackets":
    """Read one image of a source, as chosen by ``Demuxer.demux_image``.

    Args:
        src: Source, as for ``Demuxer``.
        demux_config: Options, as for ``Demuxer``.
        bsf: Bit stream filters, as for ``Demuxer.demux_image``.
        name: Name in messages, as for ``Demuxer``.

    Returns:
        A packet that is independent of the source.

    Raises:
        The exceptions of ``Demuxer`` and ``Demuxer.demux_image``.
    """
    with Demuxer(src, demux_config=demux_config, name=name) as demuxer:
        return demuxer.demux_image(bsf=bsf)
