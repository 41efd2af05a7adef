"""Packets to containers."""

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, overload

from spdl._reports import add_note

from . import _native
from ._encode import AudioEncodeConfig, VideoEncodeConfig, as_native_config
from ._errors import MediaError
from ._trace import traced

if TYPE_CHECKING:
    from ._native import (
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
    """Writes streams of packets into one container, interleaved in time.

    Add streams, open, write, close::

        muxer = Muxer("out.mp4")
        config = video_encode_config(height=48, width=64, frame_rate=(25, 1), pix_fmt="yuv444p")
        encoder = muxer.add_encode_stream(config)
        with muxer.open():
            for frames in ...:
                if (packets := encoder.encode(frames)) is not None:
                    muxer.write(0, packets)
            if (packets := encoder.flush()) is not None:
                muxer.write(0, packets)

    One thread at a time; a second one gets :class:`MediaError`. Encoders and muxer do not need each other: they can be
    used by different threads, and collected in any order. Work is done without the GIL.

    Args:
        dst: Path or URL. Nothing is made there before :meth:`open`.
        format: Name of the container format, instead of the one that the extension means.

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
        """Add a stream for frames that are to be encoded, and make the encoder for it.

        Args:
            config: From ``video_encode_config`` or ``audio_encode_config``.
            encoder: Name of the encoder (``ffmpeg -encoders``); ``None``: the default of the container format.
            encoder_config: Options of the encoder by name (``ffmpeg -h encoder=NAME``), and ``"threads"``: encoders
                have one thread without it, ``"0"`` is one per CPU.

        Returns:
            The encoder. Its packets go to :meth:`write`, with the position of the stream.

        Raises:
            EncodeError: Unknown encoder, option or name; a pixel format, sample format, rate or number of channels
                that the encoder does not take, with the list of those it takes.
            MuxError: The container has no default encoder, cannot hold what the encoder makes, or is open already.
            ClosedError: The muxer was closed.
        """
        if not isinstance(config, VideoEncodeConfig | AudioEncodeConfig):
            raise TypeError(f"config must be VideoEncodeConfig or AudioEncodeConfig, got {type(config).__name__}")
        return self._muxer.add_encode_stream(as_native_config(config), encoder, dict(encoder_config or {}))

    def add_remux_stream(self, codec: "AudioCodec | VideoCodec | ImageCodec") -> None:
        """Add a stream for packets that are written as they are, without decoding.

        Args:
            codec: That of the packets: of a demuxer, or of an encoder's packets. What is needed of it is copied.

        Raises:
            MuxError: The container cannot hold such a stream, or is open already.
            ClosedError: The muxer was closed.
        """
        self._muxer.add_remux_stream(codec)

    @traced
    def open(self, muxer_config: Mapping[str, str] | None = None) -> Self:
        """Make the file and write its header.

        Args:
            muxer_config: Options of the container format (``ffmpeg -h muxer=NAME``) or of the protocol, by name.

        Returns:
            The muxer itself, for ``with``: at the end of the block it is closed.

        Raises:
            MuxError: No streams, an unknown option (the file is untouched then), a path that cannot be written,
                streams that the format does not take. The muxer is of no more use then.
            ClosedError: The muxer was closed.
        """
        self._muxer.open(dict(muxer_config or {}))
        return self

    @traced
    def write(self, stream_index: int, packets: "AudioPackets | VideoPackets | ImagePackets") -> None:
        """Write packets of one stream; they are interleaved with those of the others by their time stamps.

        Args:
            stream_index: Position of the stream, counted from 0 in the order in which they were added.
            packets: Not consumed: they can be decoded or written again.

        Raises:
            MuxError: Not open, no such stream, packets of another codec, time stamps that the format does not take
                or that do not grow, a write that failed (a full disk).
            ClosedError: The muxer was closed.
            ConsumedError: The packets were consumed before.
        """
        self._muxer.write(stream_index, packets)

    @traced
    def flush(self) -> None:
        """Finish the file: write what waits to be interleaved, and the trailer. A second call does nothing.

        The encoders are not flushed by it. Nothing can be written after it.

        Raises:
            MuxError: Not open, or writing failed.
            ClosedError: The muxer was closed.
        """
        self._muxer.flush()

    @traced
    def close(self) -> None:
        """Finish the file, unless :meth:`flush` has, and close it. A second call does nothing.

        The file is closed in every case, also where this raises.

        Raises:
            MuxError: The file is not whole because writing failed, and no call has raised for it before.
        """
        self._muxer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; if the block failed, its error stays and a failure to close is noted on it."""
        try:
            self.close()
        except MediaError as exc:
            if error is None:
                raise
            add_note(error, str(exc))

    def __repr__(self) -> str:
        return f"Muxer({self._name!r})"
