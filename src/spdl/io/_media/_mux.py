"""``Muxer``: write packets to a container."""

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, overload

from spdl._reports import add_note
from spdl.io import _native
from spdl.io._errors import MediaError
from spdl.io._trace import traced

from ._config import AudioEncodeConfig, VideoEncodeConfig, as_native_config

if TYPE_CHECKING:
    from spdl.io._native import (
        AudioCodec,
        AudioEncoder,
        AudioPackets,
        ImageCodec,
        ImagePackets,
        VideoCodec,
        VideoEncoder,
        VideoPackets,
    )


class Muxer:
    """Write streams of packets into one container, interleaved by timestamp.

    Add streams, open, write, close::

        muxer = Muxer("out.mkv")
        config = video_encode_config(height=48, width=64, frame_rate=(25, 1), pix_fmt="yuv444p")
        encoder = muxer.add_encode_stream(config, encoder="ffv1")  # lossless
        with muxer.open():
            for pts in range(0, 100, 25):
                pictures = np.full((25, 3, 48, 64), pts, np.uint8)
                frames = create_reference_video_frame(pictures, "yuv444p", (25, 1), pts)
                if (packets := encoder.encode(frames)) is not None:
                    muxer.write(0, packets)
            if (packets := encoder.flush()) is not None:
                muxer.write(0, packets)

    Not thread-safe: concurrent use from a second thread raises :class:`MediaError`. Encoders and muxer are independent:
    they can be used in different threads and released in any order. Methods that do work release the GIL.

    Args:
        dst: Path or URL. Nothing is created there before :meth:`open`.
        format: Name of the container format, instead of the format of the file extension.

    Raises:
        MuxError: The format is unknown.
        TypeError: ``dst`` is neither text nor path-like.
    """

    def __init__(self, dst: str | os.PathLike[str], /, *, format: str | None = None) -> None:
        path = os.fspath(dst)
        if not isinstance(path, str):
            raise TypeError(f"dst must be a path or URL as text, got {type(path).__name__}")
        if "\0" in path:
            raise ValueError(f"dst must not have null characters, got {path!r}")
        self._name = path.encode("utf-8", "backslashreplace").decode()
        self._muxer = _native.media.Muxer(os.fsencode(path), self._name, format)

    @overload
    def add_encode_stream(
        self, config: VideoEncodeConfig, *, encoder: str | None = None, encoder_config: Mapping[str, str] | None = None
    ) -> "VideoEncoder": ...
    @overload
    def add_encode_stream(
        self, config: AudioEncodeConfig, *, encoder: str | None = None, encoder_config: Mapping[str, str] | None = None
    ) -> "AudioEncoder": ...
    def add_encode_stream(
        self,
        config: VideoEncodeConfig | AudioEncodeConfig,
        *,
        encoder: str | None = None,
        encoder_config: Mapping[str, str] | None = None,
    ) -> "VideoEncoder | AudioEncoder":
        """Add a stream of frames to encode, and make its encoder.

        Args:
            config: From ``video_encode_config`` or ``audio_encode_config``.
            encoder: Name of the encoder (``ffmpeg -encoders``); ``None``: the default of the container format.
            encoder_config: Options of the encoder by name (``ffmpeg -h encoder=NAME``), and ``"threads"``: the default
                is one thread, ``"0"`` is one per CPU.

        Returns:
            The encoder. Pass its packets to :meth:`write`, with the index of the stream.

        Raises:
            EncodeError: An encoder, option or name is unknown; or the encoder does not support the pixel format, sample
                format, rate or number of channels. The message lists those that it supports.
            MuxError: The container has no default encoder, cannot hold the encoder's output, or is already open.
            ClosedError: The muxer was closed.
        """
        if not isinstance(config, VideoEncodeConfig | AudioEncodeConfig):
            raise TypeError(f"config must be VideoEncodeConfig or AudioEncodeConfig, got {type(config).__name__}")
        return self._muxer.add_encode_stream(as_native_config(config), encoder, dict(encoder_config or {}))

    def add_remux_stream(self, codec: "AudioCodec | VideoCodec | ImageCodec") -> None:
        """Add a stream of packets to write unchanged, without decoding.

        Args:
            codec: Codec of the packets, from a demuxer or from an encoder's packets. Its values are copied.

        Raises:
            MuxError: The container cannot hold such a stream, or is already open.
            ClosedError: The muxer was closed.
        """
        self._muxer.add_remux_stream(codec)

    @traced
    def open(self, muxer_config: Mapping[str, str] | None = None) -> Self:
        """Create the file and write its header.

        Args:
            muxer_config: Options of the container format (``ffmpeg -h muxer=NAME``) or of the protocol, by name.

        Returns:
            The muxer itself, for ``with``: the end of the block closes it.

        Raises:
            MuxError: There are no streams, an option is unknown (the file is then untouched), the path cannot be
                written, or the format does not support the streams. The muxer cannot be used after that.
            ClosedError: The muxer was closed.
        """
        self._muxer.open(dict(muxer_config or {}))
        return self

    @traced
    def write(self, stream_index: int, packets: "AudioPackets | VideoPackets | ImagePackets") -> None:
        """Write packets of one stream, interleaved with those of the other streams by timestamp.

        Args:
            stream_index: Index of the stream, from 0 in the order in which streams were added.
            packets: Packets to write. They are not consumed: they can be decoded or written again.

        Raises:
            MuxError: The muxer is not open, the stream does not exist, the packets have another codec, the timestamps
                do not increase or the format does not support them, or writing failed (for example, a full disk).
            ClosedError: The muxer was closed.
            ConsumedError: The packets were consumed before.
        """
        self._muxer.write(stream_index, packets)

    @traced
    def flush(self) -> None:
        """Finish the file: write the packets still held for interleaving, and the trailer. A second call does nothing.

        Does not flush the encoders. Nothing can be written after this call.

        Raises:
            MuxError: The muxer is not open, or writing failed.
            ClosedError: The muxer was closed.
        """
        self._muxer.flush()

    @traced
    def close(self) -> None:
        """Finish the file, unless :meth:`flush` already has, and close it. A second call does nothing.

        The file is always closed, even if this method raises.

        Raises:
            MuxError: The file is incomplete because writing failed, and no earlier call has reported that.
        """
        self._muxer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the muxer. If the block raised, its exception propagates; a failure to close is added as a note."""
        try:
            self.close()
        except MediaError as exc:
            if error is None:
                raise
            add_note(error, str(exc))

    def __repr__(self) -> str:
        return f"Muxer({self._name!r})"
