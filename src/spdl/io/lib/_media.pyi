"""Native part of spdl.io: everything that needs FFmpeg."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn, SupportsIndex, overload

import numpy
import numpy.typing
from typing_extensions import Buffer

import spdl.io._errors
import spdl.io.lib._core

def libraries() -> list[tuple[str, tuple[int, int, int], str]]:
    """
    The FFmpeg libraries in use: name, version, and the file each was loaded from, "" if that is not known.
    """

def license() -> str:
    """Licence of this build of FFmpeg."""

def configuration() -> str:
    """Options that FFmpeg was configured with."""

def filters() -> list[str]:
    """Names of all filters."""

def decoders(codec: str) -> list[str]:
    """
    Names of the decoders for a codec, the default one first; none for a codec that FFmpeg does not know.
    """

def encoders(codec: str) -> list[str]:
    """
    Names of the encoders for a codec, the default one first; none for a codec that FFmpeg does not know.
    """

def require_filter(name: str) -> None:
    """Raise FilterError if this FFmpeg has no such filter."""

def log_level() -> int:
    """FFmpeg's log level in calls of ours."""

def set_log_level(level: int) -> None:
    """Sets FFmpeg's log level, for the whole process."""

class MemoryPart:
    """
    Memory of packets or frames on its way to another process: a read-only buffer of bytes.
    """

    def __buffer__(self, flags: int, /) -> memoryview: ...

class AudioCodec:
    """What a decoder has to know of a stream of sound. Immutable."""

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
    """What a decoder has to know of a stream of pictures. Immutable."""

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
    """What a decoder has to know of a picture. Immutable."""

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
    Encoded sound of one stream: what a decoder takes.

    ``len()`` counts packets; with a window, those with something in it. Decoding consumes packets: using them again
    raises ``ConsumedError``. Two clones may be used by two threads.
    """

    @property
    def codec(self) -> AudioCodec | None:
        """What a decoder has to know; ``None`` for packets from streaming."""

    @property
    def num_errors(self) -> int:
        """
        How often reading failed and was allowed to: 0, unless ``tolerate_errors`` was asked for.
        """

    def clone(self) -> AudioPackets:
        """
        The same packets once more, to be decoded on their own. The encoded data is shared, not copied.
        """

    def __getstate__(self) -> bytes:
        """All of it as bytes, which ``deserialize`` takes."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    @staticmethod
    def deserialize(data: bytes) -> AudioPackets:
        """
        Packets of the bytes that ``__getstate__`` gave; they keep them.

        Raises:
            MediaError: The bytes are something else, or packets of another kind of media.
        """

    @staticmethod
    def deserialize_view(data: Buffer) -> AudioPackets:
        """
        Packets whose encoded data stays in a buffer, such as shared memory.

        They keep the buffer, which must not change meanwhile. A clone has memory of its own.

        Raises:
            TypeError: It is no contiguous buffer.
            MediaError: The bytes are something else, or packets of another kind of media.
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
    Encoded pictures of one stream: what a decoder takes.

    ``len()`` counts packets; with a window, those in it, and not the ones from the key frame before it, which decoding
    needs too. Decoding consumes packets: using them again raises ``ConsumedError``. Two clones may be used by two
    threads.
    """

    @property
    def codec(self) -> VideoCodec | None:
        """What a decoder has to know; ``None`` for packets from streaming."""

    @property
    def num_errors(self) -> int:
        """
        How often reading failed and was allowed to: 0, unless ``tolerate_errors`` was asked for.
        """

    def clone(self) -> VideoPackets:
        """
        The same packets once more, to be decoded on their own. The encoded data is shared, not copied.
        """

    def __getstate__(self) -> bytes:
        """All of it as bytes, which ``deserialize`` takes."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    @staticmethod
    def deserialize(data: bytes) -> VideoPackets:
        """
        Packets of the bytes that ``__getstate__`` gave; they keep them.

        Raises:
            MediaError: The bytes are something else, or packets of another kind of media.
        """

    @staticmethod
    def deserialize_view(data: Buffer) -> VideoPackets:
        """
        Packets whose encoded data stays in a buffer, such as shared memory.

        They keep the buffer, which must not change meanwhile. A clone has memory of its own.

        Raises:
            TypeError: It is no contiguous buffer.
            MediaError: The bytes are something else, or packets of another kind of media.
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

    def get_timestamps(self, *, raw: bool = False) -> list[float]:
        """
        Presentation times in seconds, in display order, of those in the window.

        Args:
            raw: Of all packets instead, in the order of decoding.
        """

def deserialize(data: Buffer, *others: Buffer) -> AudioPackets | VideoPackets | ImagePackets:
    """
    Packets of any kind of media, of the bytes that their ``__getstate__`` or their ``__reduce_ex__`` gave.
    """

class ImagePackets:
    """
    One encoded picture: what a decoder takes.

    Decoding consumes packets: using them again raises ``ConsumedError``. Two clones may be used by two threads.
    """

    @property
    def codec(self) -> ImageCodec | None:
        """What a decoder has to know; ``None`` for packets from streaming."""

    @property
    def num_errors(self) -> int:
        """
        How often reading failed and was allowed to: 0, unless ``tolerate_errors`` was asked for.
        """

    def clone(self) -> ImagePackets:
        """
        The same packets once more, to be decoded on their own. The encoded data is shared, not copied.
        """

    def __getstate__(self) -> bytes:
        """All of it as bytes, which ``deserialize`` takes."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...
    @staticmethod
    def deserialize(data: bytes) -> ImagePackets:
        """
        Packets of the bytes that ``__getstate__`` gave; they keep them.

        Raises:
            MediaError: The bytes are something else, or packets of another kind of media.
        """

    @staticmethod
    def deserialize_view(data: Buffer) -> ImagePackets:
        """
        Packets whose encoded data stays in a buffer, such as shared memory.

        They keep the buffer, which must not change meanwhile. A clone has memory of its own.

        Raises:
            TypeError: It is no contiguous buffer.
            MediaError: The bytes are something else, or packets of another kind of media.
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
    An opened container. ``spdl.io.Demuxer`` says what can be done with it.

    Data in memory is read in place and held until ``close()``. All methods release the GIL. One thread at a time:
    another one gets a ``MediaError``.
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
        """Close the container and let go of the source. Once more does nothing."""

    def demux(
        self, kind: str, *, window: tuple[float, float] | None, bsf: str | None
    ) -> AudioPackets | VideoPackets | ImagePackets:
        """
        The packets of the best stream of that kind.

        Args:
            kind: ``"audio"``, ``"video"`` or ``"image"``.
            window: Start and end in seconds.
            bsf: A description of bit stream filters.
        """

    def has(self, kind: str) -> bool:
        """Whether there is a stream of that kind."""

    def stream_index(self, kind: str) -> int:
        """Index of the best stream of that kind."""

    def extent(self, kind: str) -> tuple[float, float] | None:
        """
        From when to when the best stream of that kind lasts, in seconds; None if the container does not tell.
        """

    @property
    def name(self) -> str:
        """What messages call the source."""

    def codec(self, kind: str) -> AudioCodec | VideoCodec | ImageCodec:
        """Codec of the best stream of that kind."""

    def start_reading(self, streams: Set[int]) -> int:
        """
        Go to the beginning, to read these streams by and by; the result is for ``read_some``.
        """

    def read_some(
        self, reading: int, *, duration: float | None, num_packets: int | None
    ) -> dict[int, AudioPackets | VideoPackets]:
        """
        The next packets of each stream; none at the end of the data.

        Args:
            reading: What ``start_reading`` gave.
            duration: At least so many seconds, up to the end of a decodable group.
            num_packets: Until there are so many of one stream.
        """

class BSF:
    """A chain of bit stream filters. ``spdl.io.BSF`` says more."""

    def __init__(self, codec: AudioCodec | VideoCodec | ImageCodec, bsf: str) -> None: ...
    def filter(
        self, packets: AudioPackets | VideoPackets | ImagePackets, flush: bool
    ) -> AudioPackets | VideoPackets | ImagePackets | None:
        """
        What comes out for these packets, and with ``flush`` what the filter still held.
        """

    def flush(self) -> AudioPackets | VideoPackets | ImagePackets | None:
        """What the filter still holds."""

def apply_bsf(
    packets: AudioPackets | VideoPackets | ImagePackets, bsf: str
) -> AudioPackets | VideoPackets | ImagePackets | None:
    """The packets after bit stream filters, once."""

class AudioFrames:
    """
    Decoded samples.

    Converting, filtering and encoding consume the frames: using them again raises ``ConsumedError``. ``clone()`` shares
    the data and is consumed on its own.
    """

    @property
    def num_errors(self) -> int:
        """
        How often the decoder met damage and went on, where ``decode_config`` has ``tolerate_errors=True``.
        """

    def clone(self) -> AudioFrames:
        """Frames of their own that share the data."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn: ...
    def __reduce_transport__(self) -> tuple[Any, ...]:
        """
        As ``__reduce__``, for the way to another process of the same program.

        A function and its arguments, which are ``pickle.PickleBuffer`` of the planes where they lie. The frames are not
        consumed.

        Raises:
            UnsupportedFormatError: They are in memory of a GPU.
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
        How often the decoder met damage and went on, where ``decode_config`` has ``tolerate_errors=True``.
        """

    def clone(self) -> VideoFrames:
        """Frames of their own that share the data."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn: ...
    def __reduce_transport__(self) -> tuple[Any, ...]:
        """
        As ``__reduce__``, for the way to another process of the same program.

        A function and its arguments, which are ``pickle.PickleBuffer`` of the planes where they lie. The frames are not
        consumed.

        Raises:
            UnsupportedFormatError: They are in memory of a GPU.
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
        """
        Numerator and denominator of the seconds that one tick of ``get_pts()`` lasts.
        """

    def get_timestamps(self) -> list[float]:
        """
        Presentation time of each picture in seconds; NaN where the source tells none.
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
        How often the decoder met damage and went on, where ``decode_config`` has ``tolerate_errors=True``.
        """

    def clone(self) -> ImageFrames:
        """Frames of their own that share the data."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn: ...
    def __reduce_transport__(self) -> tuple[Any, ...]:
        """
        As ``__reduce__``, for the way to another process of the same program.

        A function and its arguments, which are ``pickle.PickleBuffer`` of the planes where they lie. The frames are not
        consumed.

        Raises:
            UnsupportedFormatError: They are in memory of a GPU.
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
        What the decoder or the file says of the picture, such as EXIF or PNG text.
        """

    @property
    def pts(self) -> float:
        """Presentation time in the source, in seconds; NaN where it tells none."""

    def __repr__(self) -> str: ...

def restore_frames(data: Buffer, *others: Buffer) -> AudioFrames | VideoFrames | ImageFrames:
    """
    Frames of the buffers that ``__reduce_transport__`` gave; their planes stay in there.
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
    Decode packets of any kind, which are consumed. ``spdl.io.decode_packets`` says the rest.
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
    What ``convert_frames`` gives of what ``decode_packets`` gives, without frames in between where that can be.
    """

def sample_video(
    packets: VideoPackets,
    indices: Sequence[int],
    filter_desc: str | None,
    decoder: str | None,
    options: Mapping[str, str],
    tolerate_errors: bool,
) -> list[ImageFrames]:
    """
    Decode some pictures of a video. ``spdl.io.sample_decode_video`` says the rest.
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
    """A decoder that is given packets by and by."""

class AudioDecoder:
    """
    Decodes the packets of a stream as they come. Made by ``spdl.io.Decoder``.

    One thread at a time may use a decoder and its iterators.
    """

    def streaming_decode_packets(self, packets: AudioPackets) -> AudioFramesIterator:
        """
        Give packets to the decoder, and iterate over the frames that are ready after them.

        Args:
            packets: Consumed. They are decoded as the iterator is advanced. If it is dropped before its end, the next
                iterator of this decoder goes on there.

        Returns:
            Iterator of frames: one batch, none if no frame is ready yet, or several batches where a buffer size is set.

        Raises:
            ClosedError: The decoder was flushed.
            DecodeError: While iterating: the data is damaged. The rest of the packets is dropped.
        """

    def flush(self) -> AudioFramesIterator:
        """
        Tell the decoder that nothing will follow, and iterate over the frames it held back.

        A second flush gives nothing.
        """

class VideoFramesIterator:
    """Frames of a decoder, batch by batch."""

    def __iter__(self) -> VideoFramesIterator: ...
    def __next__(self) -> VideoFrames: ...

class VideoDecoder:
    """
    Decodes the packets of a stream as they come. Made by ``spdl.io.Decoder``.

    One thread at a time may use a decoder and its iterators.
    """

    def streaming_decode_packets(self, packets: VideoPackets) -> VideoFramesIterator:
        """
        Give packets to the decoder, and iterate over the frames that are ready after them.

        Args:
            packets: Consumed. They are decoded as the iterator is advanced. If it is dropped before its end, the next
                iterator of this decoder goes on there.

        Returns:
            Iterator of frames: one batch, none if no frame is ready yet, or several batches where a buffer size is set.

        Raises:
            ClosedError: The decoder was flushed.
            DecodeError: While iterating: the data is damaged. The rest of the packets is dropped.
        """

    def flush(self) -> VideoFramesIterator:
        """
        Tell the decoder that nothing will follow, and iterate over the frames it held back.

        A second flush gives nothing.
        """

    def set_buffer_size(self, buffer_size: int) -> None:
        """
        Limit batches to that many frames, which bounds the memory for decoded pictures.

        Args:
            buffer_size: Frames of a batch at most. 0: no limit, which is how a decoder starts.
        """

class FilterGraph:
    """
    A graph of FFmpeg's filters, with any number of inputs and outputs.

    Inputs are nodes ``buffer`` (pictures) and ``abuffer`` (samples), outputs ``buffersink`` and ``abuffersink``;
    write ``buffer@name`` to name one. :func:`get_buffer_desc` and :func:`get_abuffer_desc` write inputs for the frames
    of a decoder. Sound may go in and pictures come out. Runs in the thread that calls it.

    .. code-block:: python

       graph = FilterGraph(f"{get_buffer_desc(codec)},hflip,buffersink")
       graph.add_frames(frames)
       graph.flush()
       flipped = graph.get_frames()

    Args:
        filter_desc: The description, in FFmpeg's language.

    Raises:
        FilterError: FFmpeg refuses the description; the message ends with its reasons.

    Releases the GIL. A call while another thread is in one raises ``MediaError``.
    """

    def __init__(self, filter_desc: str) -> None: ...
    def add_frames(self, frames: AudioFrames | VideoFrames | ImageFrames, *, key: str | None = None) -> None:
        """
        Give frames to an input.

        Args:
            frames: What the input was declared for: size and pixel format, or rate, channels and sample format.
                Consumed. Their time stamps are converted to the time base of the input.
            key: Name of the input, such as ``buffer@in0``; needed where there are several.

        Raises:
            UnknownNodeError: There is no such input; the message lists those that there are.
            FilterError: The frames do not match; the graph was flushed; there are several inputs and no key.
            ConsumedError: The frames were used up before.
        """

    def get_frames(self, *, key: str | None = None) -> AudioFrames | VideoFrames | None:
        """
        Take what is ready at an output.

        Args:
            key: Name of the output, such as ``buffersink@out1``; needed where there are several.

        Returns:
            ``AudioFrames`` or ``VideoFrames``; ``None`` if nothing is ready, which after :meth:`flush` means the end.
            A graph can give more than it was given, even without end: one call returns at most 256 frames, and 16
            more for each frame that was added. Call until ``None`` to get all.

        Raises:
            UnknownNodeError: There is no such output; the message lists those that there are.
            FilterError: A filter failed; there are several outputs and no key.
        """

    def flush(self) -> None:
        """
        Tell the graph that its inputs have ended, so that it gives what it held back.
        """

    def dump(self) -> str:
        """
        FFmpeg's drawing of the graph: nodes, their links, and what flows through them.
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
        is_batch: Whether the array gets an axis for them in front; else there must be one.
        storage: Writable memory for the array, or None for memory of its own.

    Releases the GIL; safe to call from several threads.
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
    Pictures whose planes are the array's.

    Args:
        array: A C-contiguous array.
        element: Kind and size of its elements, as NumPy's ``dtype.kind`` and ``dtype.itemsize``.
        shape: Its shape.
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
    """Samples whose planes are the array's; arguments as for pictures."""

class VideoEncodeConfig:
    """What ``spdl.io.VideoEncodeConfig`` hands to native code."""

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
    """What ``spdl.io.AudioEncodeConfig`` hands to native code."""

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

    It is independent of the muxer once made. One thread at a time: a second one gets ``MediaError``.
    """

    def encode(self, frames: VideoFrames | ImageFrames) -> VideoPackets | None:
        """
        Encode pictures.

        Args:
            frames: Of the encoder's size and pixel format. Consumed, also where this fails.
                Time stamps are rounded to ticks of one frame (``1 / frame_rate``) and must grow by one at least.
                ``VideoFrames`` without time stamps, and ``ImageFrames``, follow the frame before.

        Returns:
            ``VideoPackets`` with the codec, which can be written, decoded or remuxed; or None, as encoders look ahead.

        Raises:
            EncodeError: The frames differ in size or format from what the encoder was made for (the message names both,
                and none of them was encoded), time stamps do not grow, the encoder was flushed, or it refuses.
            ConsumedError: The frames were consumed before.
            TypeError: They are not of pictures.

        Releases the GIL.
        """

    def flush(self) -> VideoPackets | None:
        """
        The packets that the encoder held back, or None. A second call gives None.

        Raises:
            EncodeError: The encoder refuses.

        Releases the GIL.
        """

class AudioEncoder:
    """
    Turns samples into packets of one stream; made by ``Muxer.add_encode_stream``.

    It is independent of the muxer once made. One thread at a time: a second one gets ``MediaError``.
    """

    def encode(self, frames: AudioFrames) -> AudioPackets | None:
        """
        Encode samples.

        Args:
            frames: Of the encoder's sample format, sample rate and number of channels; any number of samples, which are
                regrouped where the encoder takes a fixed number at a time. Consumed, also where this fails.
                Frames without time stamps follow the samples before. Where time stamps leave a gap, so do the packets,
                after silence up to the end of a packet; where they overlap, this is an error. Rounding is neither.

        Returns:
            ``AudioPackets`` with the codec, which can be written, decoded or remuxed; or None, as encoders look ahead.

        Raises:
            EncodeError: The frames differ from what the encoder was made for (the message names both, and none of them
                was encoded), time stamps overlap, the encoder was flushed, or it refuses.
            ConsumedError: The frames were consumed before.
            TypeError: They are not of samples.

        Releases the GIL.
        """

    def flush(self) -> AudioPackets | None:
        """
        The packets that the encoder held back, or None. A second call gives None.

        Raises:
            EncodeError: The encoder refuses.

        Releases the GIL.
        """

    @property
    def frame_size(self) -> int:
        """
        Samples that the encoder takes at a time; 0 means any number. Frames of other sizes are regrouped.
        """

def encode_picture(pixels: Buffer | numpy.typing.NDArray[Any], config: VideoEncodeConfig, name: str) -> bytes:
    """
    A picture as the bytes of an image file.

    Args:
        pixels: Planes one after the other, rows without padding; of the size and pixel format of ``config``.
        config: What the picture is, and how to encode it. A pixel format that the encoder does not take is converted.
        name: Of the file; its extension means the format.

    Releases the GIL.
    """

class Muxer:
    """
    What ``spdl.io.Muxer`` is built on.

    Args:
        destination: A path in the file system's encoding, or a URL.
        name: The same for messages.
        format: Instead of the one that the extension means.
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

def general_way() -> object:
    """What ``_core.load_batch`` needs to load images that are not JPEG."""

def load_pictures(
    sources: list[str | Buffer | numpy.typing.NDArray[numpy.uint8]],
    *,
    name: str | None,
    filter: str | None,
    demux: tuple[str | None, dict[str, str], int, bool, list[str] | None, float | None] | None,
    decode: tuple[str | None, dict[str, str], bool] | None,
    max_pixels: int,
    orient: bool,
) -> list[ImageFrames | spdl.io._errors.MediaError]:
    """
    Load pictures, each through the same filter.

    Args:
        sources: For each picture a path, or encoded data as a contiguous buffer of bytes.
        name: What messages call the sources, or None for their paths or addresses.
        filter: A description of one input and one output, or None.
        demux: Format, its options, size of the buffer, whether errors are tolerated, protocols, timeout; or None, with
            ``decode`` None too, for the way of still images, without a demuxer where the format needs none.
        decode: Decoder, its options, whether errors are tolerated; or None.
        max_pixels: How many of them a picture may have.
        orient: Whether to turn them upright before the filter.

    Returns:
        For each source frames, or the exception that says why there are none.

    Releases the GIL; safe to call from several threads.
    """

def read_url(url: str) -> spdl.io.lib._core.CPUBuffer:
    """All that a URL names, as bytes. Releases the GIL."""

def check_pix_fmt(pix_fmt: str, width: int, height: int) -> None:
    """
    Raise UnsupportedFormatError if pictures of that format and size have no array layout.
    """
