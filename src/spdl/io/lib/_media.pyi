"""Native part of spdl.io: everything that needs FFmpeg."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn, SupportsIndex, overload

import numpy
import numpy.typing
from typing_extensions import Buffer

import spdl.io._errors
import spdl.io._types
import spdl.io.lib._core

def libraries() -> list[tuple[str, tuple[int, int, int], str]]:
    """
    The FFmpeg libraries in use: name, version, and the file each was loaded from, "" if unknown.
    """

def libheif_version() -> str | None:
    """Version of libheif; ``None`` if this build has none."""

def libheif_path() -> str:
    """File that libheif was loaded from."""

def libheif_reads_hevc() -> bool:
    """Whether libheif has a decoder for HEVC, as HEIC needs."""

def libwebp_version() -> str | None:
    """Version of libwebp; ``None`` if this build has none."""

def libwebp_path() -> str:
    """File that libwebp was loaded from."""

def libtiff_version() -> str | None:
    """Version of libtiff; ``None`` if this build has none."""

def libtiff_path() -> str:
    """File that libtiff was loaded from."""

def version() -> str:
    """Version of FFmpeg."""

def license() -> str:
    """Licence of this build of FFmpeg."""

def configuration() -> str:
    """Options that FFmpeg was configured with."""

def filters() -> list[str]:
    """Names of all filters."""

def decoders(codec: str) -> list[str]:
    """
    Names of the decoders for a codec, the default one first; empty for a codec that FFmpeg does not know.
    """

def encoders(codec: str) -> list[str]:
    """
    Names of the encoders for a codec, the default one first; empty for a codec that FFmpeg does not know.
    """

def require_filter(name: str) -> None:
    """Raise FilterError if this FFmpeg has no such filter."""

def log_level() -> int:
    """FFmpeg's log level during calls of this library."""

def set_log_level(level: int) -> None:
    """Set FFmpeg's log level for the whole process."""

class SharedBytes:
    """
    Memory of packets or frames in transport to another process: a read-only buffer of bytes.
    """

    def __buffer__(self, flags: int, /) -> memoryview: ...

class AudioCodec:
    """Codec parameters of an audio stream. Immutable."""

    @property
    def name(self) -> str:
        """FFmpeg's name of the codec, such as ``"h264"``."""

    @property
    def time_base(self) -> tuple[int, int]:
        """Unit of time stamps in seconds: numerator and denominator."""

    def __repr__(self) -> str: ...
    @property
    def sample_rate(self) -> int:
        """In Hz."""

    @property
    def num_channels(self) -> int: ...
    @property
    def sample_fmt(self) -> str:
        """FFmpeg's name of the sample format."""

    @property
    def channel_layout(self) -> str:
        """
        The channel layout as filters take it: ``"0x3"``, the mask of stereo; ``"2c"`` if only the number is known.
        """

class VideoCodec:
    """Codec parameters of a video stream. Immutable."""

    @property
    def name(self) -> str:
        """FFmpeg's name of the codec, such as ``"h264"``."""

    @property
    def time_base(self) -> tuple[int, int]:
        """Unit of time stamps in seconds: numerator and denominator."""

    def __repr__(self) -> str: ...
    @property
    def width(self) -> int:
        """In pixels."""

    @property
    def height(self) -> int:
        """In pixels."""

    @property
    def pix_fmt(self) -> str:
        """FFmpeg's name of the pixel format; ``"none"`` if it is not known."""

    @property
    def sample_aspect_ratio(self) -> tuple[int, int]:
        """
        Width to height of one pixel: numerator and denominator; ``(0, 1)`` if it is not known.
        """

    @property
    def frame_rate(self) -> tuple[int, int]:
        """
        Frames per second: numerator and denominator; ``(0, 1)`` if it is not known.
        """

class ImageCodec:
    """Codec parameters of an image. Immutable."""

    @property
    def name(self) -> str:
        """FFmpeg's name of the codec, such as ``"h264"``."""

    @property
    def time_base(self) -> tuple[int, int]:
        """Unit of time stamps in seconds: numerator and denominator."""

    def __repr__(self) -> str: ...
    @property
    def width(self) -> int:
        """In pixels."""

    @property
    def height(self) -> int:
        """In pixels."""

    @property
    def pix_fmt(self) -> str:
        """FFmpeg's name of the pixel format; ``"none"`` if it is not known."""

    @property
    def sample_aspect_ratio(self) -> tuple[int, int]:
        """
        Width to height of one pixel: numerator and denominator; ``(0, 1)`` if it is not known.
        """

class AudioPackets:
    """
    Encoded audio of one stream, the input of a decoder.

    ``len()`` counts packets; with a window, those that overlap it. Decoding consumes packets: using them again
    raises ``ConsumedError``. Two clones may be used by two threads.
    """

    @property
    def codec(self) -> AudioCodec | None:
        """Codec parameters; ``None`` for packets from streaming."""

    @property
    def num_errors(self) -> int:
        """
        Number of read errors that were skipped: 0 unless ``tolerate_errors`` is set.
        """

    def clone(self) -> AudioPackets:
        """
        A clone of the packets, which is consumed on its own. The encoded data is shared, not copied.
        """

    def __getstate__(self) -> bytes:
        """The packets as bytes, for ``deserialize``."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    @staticmethod
    def deserialize(data: bytes) -> AudioPackets:
        """
        Restore packets from the bytes that ``__getstate__`` returned, without a copy; the packets keep the bytes alive.

        Raises:
            MediaError: The bytes are not serialized packets, or packets of another media type.
        """

    @staticmethod
    def deserialize_view(data: Buffer) -> AudioPackets:
        """
        Restore packets whose encoded data stays in a buffer, such as shared memory.

        The packets keep the buffer alive; it must not change. A clone has its own memory.

        Raises:
            TypeError: The argument is not a contiguous buffer.
            MediaError: The bytes are not serialized packets, or packets of another media type.
        """

    def __repr__(self) -> str: ...
    @property
    def timestamp(self) -> tuple[float, float] | None:
        """The window: start and end in seconds; ``None`` without one."""

    def __len__(self) -> int: ...
    @property
    def sample_rate(self) -> int:
        """In Hz."""

    @property
    def num_channels(self) -> int: ...

class VideoPackets:
    """
    Encoded pictures of one stream, the input of a decoder.

    ``len()`` counts packets; with a window, those in it, without the ones from the preceding key frame on, which decoding
    needs too. Decoding consumes packets: using them again raises ``ConsumedError``. Two clones may be used by two
    threads.
    """

    @property
    def codec(self) -> VideoCodec | None:
        """Codec parameters; ``None`` for packets from streaming."""

    @property
    def num_errors(self) -> int:
        """
        Number of read errors that were skipped: 0 unless ``tolerate_errors`` is set.
        """

    def clone(self) -> VideoPackets:
        """
        A clone of the packets, which is consumed on its own. The encoded data is shared, not copied.
        """

    def __getstate__(self) -> bytes:
        """The packets as bytes, for ``deserialize``."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    @staticmethod
    def deserialize(data: bytes) -> VideoPackets:
        """
        Restore packets from the bytes that ``__getstate__`` returned, without a copy; the packets keep the bytes alive.

        Raises:
            MediaError: The bytes are not serialized packets, or packets of another media type.
        """

    @staticmethod
    def deserialize_view(data: Buffer) -> VideoPackets:
        """
        Restore packets whose encoded data stays in a buffer, such as shared memory.

        The packets keep the buffer alive; it must not change. A clone has its own memory.

        Raises:
            TypeError: The argument is not a contiguous buffer.
            MediaError: The bytes are not serialized packets, or packets of another media type.
        """

    def __repr__(self) -> str: ...
    @property
    def timestamp(self) -> tuple[float, float] | None:
        """The window: start and end in seconds; ``None`` without one."""

    def __len__(self) -> int: ...
    @property
    def width(self) -> int:
        """In pixels."""

    @property
    def height(self) -> int:
        """In pixels."""

    @property
    def pix_fmt(self) -> str:
        """FFmpeg's name of the pixel format; ``"none"`` if it is not known."""

    @property
    def frame_rate(self) -> tuple[int, int]:
        """
        Frames per second: numerator and denominator; ``(0, 1)`` if it is not known.
        """

    @property
    def time_base(self) -> tuple[int, int]:
        """Unit of time stamps in seconds: numerator and denominator."""

    def get_timestamps(self, *, raw: bool = False) -> list[float]:
        """
        Presentation times in seconds, in display order, of the packets in the window.

        Args:
            raw: Whether to return those of all packets instead, in decoding order.
        """

def deserialize(data: Buffer, *others: Buffer) -> AudioPackets | VideoPackets | ImagePackets:
    """
    Restore packets of any media type from the bytes that their ``__getstate__`` or ``__reduce_ex__`` returned.
    """

class ImagePackets:
    """
    One encoded picture, the input of a decoder.

    Decoding consumes packets: using them again raises ``ConsumedError``. Two clones may be used by two threads.
    """

    @property
    def codec(self) -> ImageCodec | None:
        """Codec parameters; ``None`` for packets from streaming."""

    @property
    def num_errors(self) -> int:
        """
        Number of read errors that were skipped: 0 unless ``tolerate_errors`` is set.
        """

    def clone(self) -> ImagePackets:
        """
        A clone of the packets, which is consumed on its own. The encoded data is shared, not copied.
        """

    def __getstate__(self) -> bytes:
        """The packets as bytes, for ``deserialize``."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    @staticmethod
    def deserialize(data: bytes) -> ImagePackets:
        """
        Restore packets from the bytes that ``__getstate__`` returned, without a copy; the packets keep the bytes alive.

        Raises:
            MediaError: The bytes are not serialized packets, or packets of another media type.
        """

    @staticmethod
    def deserialize_view(data: Buffer) -> ImagePackets:
        """
        Restore packets whose encoded data stays in a buffer, such as shared memory.

        The packets keep the buffer alive; it must not change. A clone has its own memory.

        Raises:
            TypeError: The argument is not a contiguous buffer.
            MediaError: The bytes are not serialized packets, or packets of another media type.
        """

    def __repr__(self) -> str: ...
    @property
    def width(self) -> int:
        """In pixels."""

    @property
    def height(self) -> int:
        """In pixels."""

    @property
    def pix_fmt(self) -> str:
        """FFmpeg's name of the pixel format; ``"none"`` if it is not known."""

class Demuxer:
    """
    An open container; see ``spdl.io.Demuxer``.

    Data in memory is read in place and kept alive until ``close()``. All methods release the GIL. One thread at a time:
    a call from a second thread raises ``MediaError``.
    """

    def __init__(
        self,
        source: str | Buffer | numpy.typing.NDArray[numpy.uint8],
        *,
        name: str | None,
        format: str | None,
        format_options: dict[str, str],
        buffer_size: int,
        tolerate_errors: bool,
        protocols: list[str] | None,
        timeout: float | None,
    ) -> None: ...
    def close(self) -> None:
        """Close the container and release the source. Idempotent."""

    def demux(
        self,
        kind: str,
        *,
        window: tuple[float, float] | None,
        bsf: str | None,
        index: int | None = None,
        from_first_sample: bool = False,
    ) -> AudioPackets | VideoPackets | ImagePackets:
        """
        Read the packets of the best stream of a media type.

        Args:
            kind: The media type: ``"audio"``, ``"video"`` or ``"image"``.
            window: The start and end in seconds.
            from_first_sample: For audio, whether the window is from the first sample on, and not by the container's clock.
            bsf: The description of bit stream filters.
            index: The stream, instead of the best one.
        """

    def has(self, kind: str) -> bool:
        """Whether there is a stream of that media type."""

    def stream_index(self, kind: str) -> int:
        """Index of the best stream of that media type."""

    def orientation(self, stream: int | None) -> int:
        """
        Orientation for display of pictures of that video stream, or of the best one, numbered as in EXIF.
        """

    def extent(self, kind: str, index: int | None = None) -> tuple[float, float] | None:
        """
        Start and end of the best stream of that media type, or of that stream, in seconds; None if the container does not state them.
        """

    def facts(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """
        Information on the container and on each stream; see ``spdl.io.probe``.
        """

    def codec_at(self, index: int) -> AudioCodec | VideoCodec:
        """Codec of a stream of audio or video."""

    @property
    def name(self) -> str:
        """Name of the source in messages."""

    def codec(self, kind: str) -> AudioCodec | VideoCodec | ImageCodec:
        """Codec of the best stream of that media type."""

    def start_reading(self, streams: Set[int]) -> int:
        """
        Seek to the beginning, to read these streams incrementally; pass the result to ``read_some``.
        """

    def read_some(
        self, reading: int, *, duration: float | None, num_packets: int | None
    ) -> dict[int, AudioPackets | VideoPackets]:
        """
        Read the next packets of each stream; none at the end of the data.

        Args:
            reading: The return value of ``start_reading``.
            duration: The minimum duration in seconds. Reading continues to the end of a decodable group.
            num_packets: The number of packets of one stream after which to stop.
        """

class BSF:
    """A chain of bit stream filters. ``spdl.io.BSF`` says more."""

    def __init__(self, codec: AudioCodec | VideoCodec | ImageCodec, bsf: str) -> None: ...
    def filter(
        self, packets: AudioPackets | VideoPackets | ImagePackets, flush: bool
    ) -> AudioPackets | VideoPackets | ImagePackets | None:
        """
        Filter packets. With ``flush``, return the filter's remaining packets as well.
        """

    def flush(self) -> AudioPackets | VideoPackets | ImagePackets | None:
        """Return the filter's remaining packets."""

def apply_bsf(
    packets: AudioPackets | VideoPackets | ImagePackets, bsf: str
) -> AudioPackets | VideoPackets | ImagePackets | None:
    """Apply bit stream filters to packets, in one call."""

class AudioFrames:
    """
    Decoded samples.

    Converting, filtering and encoding consume the frames: using them again raises ``ConsumedError``. ``clone()`` shares
    the data and is consumed on its own.
    """

    @property
    def num_errors(self) -> int:
        """
        Number of errors that the decoder skipped, if ``decode_config`` has ``tolerate_errors=True``.
        """

    def clone(self) -> AudioFrames:
        """New frames that share the data and are consumed on their own."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn: ...
    def __reduce_transport__(self) -> tuple[Any, ...]:
        """
        Like ``__reduce__``, but for transport to another process of the same program.

        Returns a function and its arguments: ``pickle.PickleBuffer`` objects that refer to the planes, without a copy. The
        frames are not consumed.

        Raises:
            UnsupportedFormatError: The frames are in GPU memory.
        """

    def __len__(self) -> int: ...
    @property
    def num_frames(self) -> int:
        """Samples per channel."""

    @property
    def sample_rate(self) -> int:
        """In Hz; 0 without samples."""

    @property
    def num_channels(self) -> int:
        """0 without samples."""

    @property
    def sample_fmt(self) -> str:
        """Name of the sample format; ``"none"`` without samples."""

    def __repr__(self) -> str: ...

class VideoFrames:
    """
    Decoded pictures, in display order.

    ``frames[i]`` is an ``ImageFrames``; ``frames[start:stop:step]`` and ``frames[[i, ...]]`` are ``VideoFrames`` (any
    order, repeats allowed). All of them share the data.

    Converting, filtering and encoding consume the frames: using them again raises ``ConsumedError``. Clones and slices
    are consumed on their own.
    """

    @property
    def num_errors(self) -> int:
        """
        Number of errors that the decoder skipped, if ``decode_config`` has ``tolerate_errors=True``.
        """

    def clone(self) -> VideoFrames:
        """New frames that share the data and are consumed on their own."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn: ...
    def __reduce_transport__(self) -> tuple[Any, ...]:
        """
        Like ``__reduce__``, but for transport to another process of the same program.

        Returns a function and its arguments: ``pickle.PickleBuffer`` objects that refer to the planes, without a copy. The
        frames are not consumed.

        Raises:
            UnsupportedFormatError: The frames are in GPU memory.
        """

    @property
    def num_planes(self) -> int:
        """
        Planes of one picture as it lies in memory: 1 for ``rgb24``, 3 for ``yuv420p``. 0 without pictures.
        """

    @property
    def width(self) -> int:
        """In pixels; 0 without pictures."""

    @property
    def height(self) -> int:
        """In pixels; 0 without pictures."""

    @property
    def pix_fmt(self) -> str:
        """Name of the pixel format; ``"none"`` without pictures."""

    def __len__(self) -> int: ...
    @property
    def num_frames(self) -> int:
        """Pictures."""

    @property
    def time_base(self) -> tuple[int, int]:
        """Unit of ``get_pts()`` in seconds: numerator and denominator."""

    def get_timestamps(self) -> list[float]:
        """
        Presentation time of each picture in seconds; NaN if the source has none.
        """

    def get_pts(self) -> list[int]:
        """Presentation time of each picture in ticks of ``time_base``."""

    @overload
    def __getitem__(self, key: int, /) -> ImageFrames: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | numpy.typing.NDArray[numpy.integer[Any]], /) -> VideoFrames: ...
    def __iter__(self) -> Iterator[ImageFrames]: ...
    def __repr__(self) -> str: ...

class ImageFrames:
    """
    One decoded picture.

    Converting, filtering and encoding consume it: using it again raises ``ConsumedError``. ``clone()`` shares the data
    and is consumed on its own.
    """

    @property
    def num_errors(self) -> int:
        """
        Number of errors that the decoder skipped, if ``decode_config`` has ``tolerate_errors=True``.
        """

    def clone(self) -> ImageFrames:
        """New frames that share the data and are consumed on their own."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn: ...
    def __reduce_transport__(self) -> tuple[Any, ...]:
        """
        Like ``__reduce__``, but for transport to another process of the same program.

        Returns a function and its arguments: ``pickle.PickleBuffer`` objects that refer to the planes, without a copy. The
        frames are not consumed.

        Raises:
            UnsupportedFormatError: The frames are in GPU memory.
        """

    @property
    def num_planes(self) -> int:
        """
        Planes of one picture as it lies in memory: 1 for ``rgb24``, 3 for ``yuv420p``. 0 without pictures.
        """

    @property
    def width(self) -> int:
        """In pixels; 0 without pictures."""

    @property
    def height(self) -> int:
        """In pixels; 0 without pictures."""

    @property
    def pix_fmt(self) -> str:
        """Name of the pixel format; ``"none"`` without pictures."""

    @property
    def metadata(self) -> dict[str, str]:
        """
        Metadata of the picture from the decoder or the file, such as EXIF or PNG text.
        """

    @property
    def pts(self) -> float:
        """Presentation time in the source, in seconds; NaN if it has none."""

    def __repr__(self) -> str: ...

def restore_frames(data: Buffer, *others: Buffer) -> AudioFrames | VideoFrames | ImageFrames:
    """
    Restore frames from the buffers of ``__reduce_transport__``, without copying planes.
    """

def decode_packets(
    packets: AudioPackets | VideoPackets | ImagePackets,
    filter_desc: str | None,
    decoder: str | None,
    options: Mapping[str, str],
    tolerate_errors: bool,
    num_frames: int | None,
    cuts_sound: bool,
) -> AudioFrames | VideoFrames | ImageFrames:
    """
    Decode packets of any media type, which are consumed. See ``spdl.io.decode_packets``.
    """

def decode_array(
    packets: AudioPackets | VideoPackets | ImagePackets,
    filter_desc: str | None,
    decoder: str | None,
    options: Mapping[str, str],
    tolerate_errors: bool,
    cuts_sound: bool,
) -> spdl.io.lib._core.CPUBuffer:
    """
    Decode packets to an array: ``decode_packets`` and ``convert_frames`` in one call, without frames in between if possible.
    """

class PictureTimes:
    """When the pictures of packets are on screen."""

    def __len__(self) -> int: ...
    @property
    def extent(self) -> tuple[int, int] | None:
        """
        The first start and the end of the last picture in ticks; ``None`` without pictures.
        """

    def indices_at(self, ticks: Sequence[int]) -> list[int | None]:
        """
        Index of the picture on screen at each tick; ``None`` before the first and after the end of the last.
        """

def picture_times(
    packets: VideoPackets, *, by_decoding: bool, decoder: str | None, options: Mapping[str, str], tolerate_errors: bool
) -> PictureTimes | None:
    """
    Find the times of the pictures of packets, which are not consumed.

    Args:
        by_decoding: Whether to decode the packets; otherwise, only they are looked at.

    Returns:
        The times; ``None`` if packets do not tell.
    """

def sample_video(
    packets: VideoPackets,
    indices: Sequence[int],
    *,
    by_decoding: bool,
    filter_desc: str | None,
    decoder: str | None,
    options: Mapping[str, str],
    tolerate_errors: bool,
) -> list[ImageFrames] | int | None:
    """
    Decode some pictures of a video. See ``spdl.io.sample_decode_video``.

    Args:
        packets: The packets, which are consumed unless there is no picture for an index.
        indices: Positions in the ``PictureTimes`` that were found in the same way, ascending.
        by_decoding: Whether to decode all packets and to count; otherwise, only the groups of pictures that they need.

    Returns:
        The pictures. If one is missing: the number of pictures with ``by_decoding``, otherwise ``None``.
    """

class AudioFramesIterator:
    """Frames of a decoder, batch by batch."""

    def __iter__(self) -> AudioFramesIterator: ...
    def __next__(self) -> AudioFrames: ...

@overload
def make_decoder(
    codec: AudioCodec, filter_desc: str | None, decoder: str | None, options: Mapping[str, str], tolerate_errors: bool
) -> AudioDecoder: ...
@overload
def make_decoder(
    codec: VideoCodec, filter_desc: str | None, decoder: str | None, options: Mapping[str, str], tolerate_errors: bool
) -> VideoDecoder:
    """A decoder for packets that arrive incrementally."""

class AudioDecoder:
    """
    Decodes the packets of a stream as they arrive. Made by ``spdl.io.Decoder``.

    One thread at a time may use a decoder and its iterators.
    """

    def streaming_decode_packets(self, packets: AudioPackets) -> AudioFramesIterator:
        """
        Give packets to the decoder, and iterate over the frames that are ready after them.

        Args:
            packets: The packets, which are consumed. They are decoded as the iterator advances. If it is dropped before its
                end, the next iterator of this decoder continues there.

        Returns:
            Iterator of frames: one batch, none if no frame is ready yet, or several batches where a buffer size is set.

        Raises:
            ClosedError: The decoder was flushed.
            DecodeError: While iterating: the data is damaged. The rest of the packets is dropped.
        """

    def flush(self) -> AudioFramesIterator:
        """
        Signal the end of the packets to the decoder, and iterate over the remaining frames.

        A second flush returns no frames.
        """

class VideoFramesIterator:
    """Frames of a decoder, batch by batch."""

    def __iter__(self) -> VideoFramesIterator: ...
    def __next__(self) -> VideoFrames: ...

class VideoDecoder:
    """
    Decodes the packets of a stream as they arrive. Made by ``spdl.io.Decoder``.

    One thread at a time may use a decoder and its iterators.
    """

    def streaming_decode_packets(self, packets: VideoPackets) -> VideoFramesIterator:
        """
        Give packets to the decoder, and iterate over the frames that are ready after them.

        Args:
            packets: The packets, which are consumed. They are decoded as the iterator advances. If it is dropped before its
                end, the next iterator of this decoder continues there.

        Returns:
            Iterator of frames: one batch, none if no frame is ready yet, or several batches where a buffer size is set.

        Raises:
            ClosedError: The decoder was flushed.
            DecodeError: While iterating: the data is damaged. The rest of the packets is dropped.
        """

    def flush(self) -> VideoFramesIterator:
        """
        Signal the end of the packets to the decoder, and iterate over the remaining frames.

        A second flush returns no frames.
        """

    def set_buffer_size(self, buffer_size: int) -> None:
        """
        Limit the number of frames in a batch, which limits the memory for decoded pictures.

        Args:
            buffer_size: The largest number of frames in a batch. 0, the default, means no limit.
        """

class FilterGraph:
    """
    A graph of FFmpeg's filters, with any number of inputs and outputs.

    Inputs are the nodes ``buffer`` (pictures) and ``abuffer`` (samples), outputs ``buffersink`` and ``abuffersink``;
    write ``buffer@name`` to name one. :func:`get_buffer_desc` and :func:`get_abuffer_desc` write inputs for the frames
    of a decoder. A graph may turn samples into pictures. It runs in the thread that calls it.

    .. code-block:: python

       graph = FilterGraph(f"{get_buffer_desc(codec)},hflip,buffersink")
       graph.add_frames(frames)
       graph.flush()
       flipped = graph.get_frames()

    Args:
        filter_desc: The description, in FFmpeg's syntax.

    Raises:
        FilterError: FFmpeg rejects the description; the message ends with FFmpeg's own.

    Releases the GIL. A call while another thread is using the graph raises ``MediaError``.
    """

    def __init__(self, filter_desc: str) -> None: ...
    def add_frames(self, frames: AudioFrames | VideoFrames | ImageFrames, *, key: str | None = None) -> None:
        """
        Pass frames to an input.

        Args:
            frames: Frames that match the input: in size and pixel format, or in sample rate, channels and sample format.
                They are consumed. Their timestamps are converted to the time base of the input.
            key: The name of the input, such as ``buffer@in0``; required if there are several.

        Raises:
            UnknownNodeError: There is no such input; the message lists the existing ones.
            FilterError: The frames do not match; the graph was flushed; there are several inputs and no key.
            ConsumedError: The frames were already consumed.
        """

    def get_frames(self, *, key: str | None = None) -> AudioFrames | VideoFrames | None:
        """
        Return the frames that are ready at an output.

        Args:
            key: The name of the output, such as ``buffersink@out1``; required if there are several.

        Returns:
            ``AudioFrames`` or ``VideoFrames``; ``None`` if nothing is ready, which after :meth:`flush` means the end.
            A graph can output more frames than it got, even without end: one call returns at most 256 frames, and 16
            more for each frame that was added. Call until ``None`` to get all.

        Raises:
            UnknownNodeError: There is no such output; the message lists the existing ones.
            FilterError: A filter failed; there are several outputs and no key.
        """

    def flush(self) -> None:
        """
        Signal the end of the inputs, so that the graph outputs its remaining frames.
        """

    def dump(self) -> str:
        """
        FFmpeg's text diagram of the graph: nodes, links, and the format of each link.
        """

    def __repr__(self) -> str: ...

def convert_frames(
    frames: list[AudioFrames] | list[VideoFrames] | list[ImageFrames],
    *,
    is_batch: bool,
    storage: Buffer | numpy.typing.NDArray[Any] | None,
) -> spdl.io.lib._core.CPUBuffer:
    """
    Copy frames into one array.

    Args:
        frames: Frames of one class; all are consumed.
        is_batch: Whether the array gets a leading axis for the frames; if not, there must be exactly one.
        storage: Writable memory for the array, or None for memory of its own.

    Releases the GIL; thread-safe.
    """

def create_reference_pictures(
    array: numpy.typing.NDArray[Any],
    *,
    element: tuple[str, int],
    shape: tuple[int, ...],
    pix_fmt: str,
    frame_rate: tuple[int, int],
    pts: int,
) -> VideoFrames:
    """
    Make frames of pictures whose planes are the array's memory.

    Args:
        array: The C-contiguous array.
        element: The kind and size of its elements, as NumPy's ``dtype.kind`` and ``dtype.itemsize``.
        shape: The shape of the array.
    """

def create_reference_samples(
    array: numpy.typing.NDArray[Any],
    *,
    element: tuple[str, int],
    shape: tuple[int, ...],
    sample_fmt: str,
    sample_rate: int,
    pts: int,
) -> AudioFrames:
    """
    Make frames of samples whose planes are the array's memory; arguments as for pictures.
    """

class VideoEncodeConfig:
    """The native form of ``spdl.io.VideoEncodeConfig``."""

    def __init__(
        self,
        *,
        height: int,
        width: int,
        frame_rate: tuple[int, int] | None,
        pix_fmt: str,
        bit_rate: int | None,
        compression_level: int | None,
        qscale: int | None,
        gop_size: int | None,
        max_b_frames: int | None,
        colorspace: str | None,
        color_primaries: str | None,
        color_trc: str | None,
    ) -> None: ...

class AudioEncodeConfig:
    """The native form of ``spdl.io.AudioEncodeConfig``."""

    def __init__(
        self,
        *,
        num_channels: int,
        sample_rate: int,
        sample_fmt: str,
        bit_rate: int | None,
        compression_level: int | None,
        qscale: int | None,
    ) -> None: ...

class VideoEncoder:
    """
    Turns pictures into packets of one stream; made by ``Muxer.add_encode_stream``.

    It is independent of the muxer once made. One thread at a time: a call from a second thread raises ``MediaError``.
    """

    def encode(self, frames: VideoFrames | ImageFrames) -> VideoPackets | None:
        """
        Encode pictures.

        Args:
            frames: The pictures, of the encoder's size and pixel format. Consumed, even if encoding fails.
                Timestamps are rounded to multiples of ``1 / frame_rate`` and must increase by at least one of them.
                ``VideoFrames`` without timestamps, and ``ImageFrames``, follow the previous frame.

        Returns:
            ``VideoPackets`` with the codec, which can be written, decoded or remuxed; or None, as encoders look ahead.

        Raises:
            EncodeError: The frames differ in size or format from what the encoder was made for (the message names both,
                and none of them was encoded), timestamps do not increase, the encoder was flushed, or it fails.
            ConsumedError: The frames were already consumed.
            TypeError: The frames are not pictures.

        Releases the GIL.
        """

    def flush(self) -> VideoPackets | None:
        """
        Return the remaining packets of the encoder, or None. A second call returns None.

        Raises:
            EncodeError: The encoder fails.

        Releases the GIL.
        """

class AudioEncoder:
    """
    Turns samples into packets of one stream; made by ``Muxer.add_encode_stream``.

    It is independent of the muxer once made. One thread at a time: a call from a second thread raises ``MediaError``.
    """

    def encode(self, frames: AudioFrames) -> AudioPackets | None:
        """
        Encode samples.

        Args:
            frames: The samples, in the encoder's sample format, sample rate and number of channels; any number of them,
                which are regrouped if the encoder takes a fixed number at a time. Consumed, even if encoding fails. Frames
                without timestamps follow the previous samples. A gap in the timestamps becomes a gap between packets, after
                silence up to the end of a packet; an overlap is an error. Rounding is neither.

        Returns:
            ``AudioPackets`` with the codec, which can be written, decoded or remuxed; or None, as encoders look ahead.

        Raises:
            EncodeError: The frames differ from what the encoder was made for (the message names both, and none of them
                was encoded), timestamps overlap, the encoder was flushed, or it fails.
            ConsumedError: The frames were already consumed.
            TypeError: The frames are not samples.

        Releases the GIL.
        """

    def flush(self) -> AudioPackets | None:
        """
        Return the remaining packets of the encoder, or None. A second call returns None.

        Raises:
            EncodeError: The encoder fails.

        Releases the GIL.
        """

    @property
    def frame_size(self) -> int:
        """
        Samples that the encoder takes at a time; 0 means any number. Frames of other sizes are regrouped.
        """

def encode_picture(pixels: Buffer | numpy.typing.NDArray[Any], config: VideoEncodeConfig, name: str) -> bytes:
    """
    Encode a picture to the bytes of an image file.

    Args:
        pixels: The planes one after the other, rows without padding, in the size and pixel format of ``config``.
        config: The format of the picture, and how to encode it. A pixel format that the encoder does not support is
            converted.
        name: The name of the file, whose extension selects the format.

    Releases the GIL.
    """

class Muxer:
    """
    The native part of ``spdl.io.Muxer``.

    Args:
        destination: The path in the file system's encoding, or a URL.
        name: The name of the destination in messages.
        format: The container format, instead of the one that the extension selects.
    """

    def __init__(self, destination: bytes, name: str, format: str | None) -> None: ...
    @overload
    def add_encode_stream(
        self, config: VideoEncodeConfig, encoder: str | None, options: Mapping[str, str]
    ) -> VideoEncoder: ...
    @overload
    def add_encode_stream(
        self, config: AudioEncodeConfig, encoder: str | None, options: Mapping[str, str]
    ) -> AudioEncoder: ...
    def add_remux_stream(self, codec: AudioCodec | VideoCodec | ImageCodec) -> None: ...
    def open(self, options: Mapping[str, str]) -> None: ...
    def write(self, stream_index: int, packets: AudioPackets | VideoPackets | ImagePackets) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

def new_clips(
    transform: spdl.io.lib._core.Transform,
    count: int,
    num_frames: int,
    layout: str,
    storage: Buffer | numpy.typing.NDArray[Any] | None,
) -> spdl.io.lib._core.CPUBuffer:
    """
    A batch with room for ``count`` clips, uninitialized.

    Args:
        transform: The transform of each picture.
        layout: ``"NTHWC"``, ``"NTCHW"`` or ``"NCTHW"``. The transform has the same layout without the time axis.
        storage: Writable memory for the array, or None for memory of its own.
    """

def load_clips(
    buffer: spdl.io.lib._core.CPUBuffer,
    slots: list[int],
    sources: list[str | Buffer | numpy.typing.NDArray[numpy.uint8]],
    labels: list[Any],
    *,
    first_index: int,
    transform: spdl.io.lib._core.Transform,
    num_frames: int,
    stride: int,
    is_channels_first: bool,
    starts: list[float] | str,
    seeds: list[int] | None,
    max_pixels: int,
    stream: int | None,
    demux: tuple[str | None, dict[str, str], int, bool, list[str] | None, float | None] | None,
    decode: tuple[str | None, dict[str, str], bool] | None,
    num_threads: int,
) -> tuple[tuple[spdl.io._types.LoadFailure, ...], list[tuple[float, int] | None]]:
    """
    Load clips into slots of a batch. See ``spdl.io.load_video_clips``.

    Args:
        buffer: From ``new_clips``.
        slots: The slot of each source's clip, without duplicates.
        sources: The videos: a path each, or encoded data as a contiguous buffer of bytes.
        labels: The ``source`` attribute of each source's ``LoadFailure``.
        first_index: The ``index`` attribute of a failure of the first source.
        transform: The transform of each picture, with which the batch was made.
        stride: The number of pictures from one picture of a clip to the next.
        starts: The start of each in seconds; or ``"middle"`` or ``"random"``.
        seeds: The 64-bit seed of each source's random choices, or None for zeros.
        max_pixels: The largest number of pixels that a picture may have.
        num_threads: The number of threads, including the caller's; 0 means the caller's alone.

    Returns:
        The failures; and for each source the start in seconds and the number of pictures that are not padding, or None.

    Releases the GIL; thread-safe for different slots.
    """

def new_batch(
    shape: tuple[int, ...], dtype: str, storage: Buffer | numpy.typing.NDArray[Any] | None
) -> spdl.io.lib._core.CPUBuffer:
    """
    An array of samples, uninitialized. ``storage``: Writable memory for it, or None for memory of its own.
    """

def load_sound(
    source: str | Buffer | numpy.typing.NDArray[numpy.uint8],
    *,
    name: str | None,
    window: tuple[float, float] | None,
    num_samples: int | None,
    sample_rate: int,
    num_channels: int,
    dtype: str,
    stream: int | None,
    by_stream_clock: bool,
    demux: tuple[str | None, dict[str, str], int, bool, list[str] | None, float | None] | None,
    decode: tuple[str | None, dict[str, str], bool] | None,
) -> spdl.io.lib._core.CPUBuffer:
    """
    Load a window of sound at any sample rate. See ``spdl.io.load_audio``.

    Args:
        name: The name of the source in messages, or None for its path or address.
        window: The start and end in seconds, or None for everything.
        num_samples: The number of samples of the result, cut or padded; or None.
        sample_rate, num_channels: Of the result; 0 keeps those of the source.
        dtype: float32, float64, int16 or int32.
        stream: The stream, or None for the best one.
        by_stream_clock: Whether the window is by the container's clock, and not from the first sample on.
        demux, decode: The fields of the configurations, or None.

    Returns:
        ``(channels, samples)``.

    Releases the GIL; thread-safe.
    """

def load_sounds(
    buffer: spdl.io.lib._core.CPUBuffer,
    slots: list[int],
    sources: list[str | Buffer | numpy.typing.NDArray[numpy.uint8]],
    labels: list[Any],
    *,
    first_index: int,
    starts: list[float] | None,
    seeds: list[int] | None,
    sample_rate: int,
    dtype: str,
    by_stream_clock: bool,
    demux: tuple[str | None, dict[str, str], int, bool, list[str] | None, float | None] | None,
    decode: tuple[str | None, dict[str, str], bool] | None,
    num_threads: int,
) -> tuple[tuple[spdl.io._types.LoadFailure, ...], list[tuple[float, int] | None]]:
    """
    Load sounds into slots of a batch ``(items, channels, samples)`` of ``dtype``.

    Args:
        buffer: The batch.
        slots: The slot of each source's sound, without duplicates.
        sources: The sounds: a path each, or encoded data as a contiguous buffer of bytes.
        labels: The ``source`` attribute of each source's ``LoadFailure``.
        first_index: The ``index`` attribute of a failure of the first source.
        starts: The start of each in seconds; or None, with ``seeds``, for a random one.
        seeds: The 64-bit seed of each.
        sample_rate: The sample rate of the batch.
        by_stream_clock: Whether starts are by the container's clock, and not from the first sample on.
        num_threads: The number of threads, including the caller's; 0 means the caller's alone.

    Returns:
        The failures; and for each source the start in seconds and the number of samples that are not padding, or None.

    Releases the GIL; thread-safe for different slots.
    """

def fallback_loader() -> object:
    """The loader of images that are not JPEG, for ``_core.load_slots``."""

def load_pictures(
    sources: list[str | Buffer | numpy.typing.NDArray[numpy.uint8]],
    *,
    name: str | None,
    filter: str | None,
    demux: tuple[str | None, dict[str, str], int, bool, list[str] | None, float | None] | None,
    decode: tuple[str | None, dict[str, str], bool] | None,
    max_pixels: int,
    orient: bool,
    num_threads: int,
) -> list[ImageFrames | spdl.io._errors.MediaError]:
    """
    Load pictures, each through the same filter.

    Args:
        sources: The pictures: a path each, or encoded data as a contiguous buffer of bytes.
        name: The name of the sources in messages, or None for their paths or addresses.
        filter: The description of a filter with one input and one output, or None.
        demux: The format, its options, the buffer size, whether errors are tolerated, protocols, timeout; or None, with
            ``decode`` None too, to load still images, without a demuxer if the format needs none.
        decode: The decoder, its options, whether errors are tolerated; or None.
        max_pixels: The largest number of pixels that a picture may have.
        orient: Whether to apply the EXIF orientation before the filter.
        num_threads: The number of threads, including the caller's; 0 means the caller's alone.

    Returns:
        For each source its frames, or the exception with which loading it failed.

    Releases the GIL; thread-safe.
    """

def read_url(url: str) -> spdl.io.lib._core.CPUBuffer:
    """Read the whole resource at a URL, as bytes. Releases the GIL."""

def check_pix_fmt(pix_fmt: str, width: int, height: int) -> None:
    """
    Raise UnsupportedFormatError if pictures of that format and size have no array layout.
    """
