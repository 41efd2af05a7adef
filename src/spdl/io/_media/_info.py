"""``MediaInfo`` and its parts: metadata of a container and its streams, as ``probe`` returns them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from spdl.io import _native

# EXIF orientation -> degrees clockwise, and whether the image is mirrored left to right first.
_TURNS = {1: (0, False), 2: (0, True), 3: (180, False), 4: (180, True),
          5: (270, True), 6: (90, False), 7: (90, True), 8: (270, False)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Metadata of one stream of any type: the class for subtitles, data and attachments, and the base class of others.

    Attributes:
        index: Number of the stream in the container.
        type: ``"video"``, ``"audio"``, ``"subtitle"``, ``"data"``, ``"attachment"`` or ``"other"``.
        codec: FFmpeg's name of the codec, such as ``"h264"``; ``"unknown"`` if FFmpeg does not know it.
        profile: Profile of the codec, such as ``"High"``.
        start: Time of the first frame or sample, in seconds.
        duration: Duration in seconds.
        time_base: Unit of timestamps, in seconds.
        bit_rate: Bits per second.
        num_frames: Number of frames of video, or packets of audio, if the header has it.
        is_default: Whether players choose the stream by default.
        tags: Tags of the stream, such as ``language``.

    ``None`` means that the container does not store the value.
    """

    index: int
    type: str
    codec: str
    profile: str | None
    start: float | None
    duration: float | None
    time_base: Fraction | None
    bit_rate: int | None
    num_frames: int | None
    is_default: bool
    tags: Mapping[str, str] = field(hash=False)

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in _names(type(self))}
        return _restore, (type(self), {**values, "tags": dict(self.tags)})

    def __str__(self) -> str:
        return _line(self, [])


@dataclass(frozen=True, slots=True)
class VideoStreamInfo(StreamInfo):
    """Metadata of a video stream; also of cover art and of an image file.

    Attributes:
        width: Width of the stored frames, in pixels.
        height: Height of the stored frames, in pixels.
        frame_rate: Average number of frames per second.
        sample_aspect_ratio: Width of a pixel divided by its height.
        rotation: Degrees clockwise by which players turn the stored frames for display: 0, 90, 180 or 270.
        is_mirrored: Whether players mirror them left to right before turning.
        pix_fmt: Pixel format, such as ``"yuv420p"``.
        color_space: Matrix of YCbCr, such as ``"bt709"``.
        color_range: ``"tv"`` for limited range, ``"pc"`` for full range.
        color_primaries: Primaries, such as ``"bt709"``.
        color_trc: Transfer characteristics, such as ``"bt709"`` or ``"smpte2084"``.
        is_cover: Whether the stream is cover art.
    """

    width: int
    height: int
    frame_rate: Fraction | None
    sample_aspect_ratio: Fraction | None
    rotation: int
    is_mirrored: bool
    pix_fmt: str | None
    color_space: str | None
    color_range: str | None
    color_primaries: str | None
    color_trc: str | None
    is_cover: bool

    def __str__(self) -> str:
        colours = "/".join(
            name for name in (self.color_range, self.color_space, self.color_primaries, self.color_trc) if name
        )
        return _line(
            self,
            [
                f"{self.width}x{self.height}",
                "" if self.frame_rate is None else f"{float(self.frame_rate):.6g} fps",
                self.pix_fmt or "",
                colours,
                f"rotated {self.rotation}°" if self.rotation else "",
                "mirrored" if self.is_mirrored else "",
                "cover" if self.is_cover else "",
            ],
        )


@dataclass(frozen=True, slots=True)
class AudioStreamInfo(StreamInfo):
    """Metadata of an audio stream.

    Attributes:
        sample_rate: Samples per second.
        num_channels: Number of channels.
        channel_layout: Name of the layout, such as ``"stereo"`` or ``"5.1"``.
        sample_fmt: FFmpeg's sample format, such as ``"fltp"``.
    """

    sample_rate: int
    num_channels: int
    channel_layout: str | None
    sample_fmt: str | None

    def __str__(self) -> str:
        return _line(self, [f"{self.sample_rate} Hz", self.channel_layout or "", self.sample_fmt or ""])


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """Metadata of a container and its streams: the result of ``probe``. ``print`` shows it as a table.

    Attributes:
        source: Name of the source.
        format: FFmpeg's name of the container format, such as ``"mov,mp4,m4a,3gp,3g2,mj2"``.
        start: Time of the first frame or sample of any stream, in seconds.
        duration: Duration in seconds; an estimate for formats that do not store it in a header, such as raw MP3.
        bit_rate: Bits per second of all streams.
        tags: Tags of the container, such as ``title``.
        streams: All streams, by index.
        video: The stream that ``load_video`` reads; ``None`` if there is none.
        audio: The stream that ``load_audio`` reads; ``None`` if there is none.

    ``None`` means that the container does not store the value.
    """

    source: str
    format: str
    start: float | None
    duration: float | None
    bit_rate: int | None
    tags: Mapping[str, str] = field(hash=False)
    streams: tuple[StreamInfo, ...]
    video: VideoStreamInfo | None
    audio: AudioStreamInfo | None

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in _names(type(self))}
        return _restore, (type(self), {**values, "tags": dict(self.tags)})

    def __str__(self) -> str:
        words = [self.format, _seconds(self.duration), _bit_rate(self.bit_rate)]
        lines = [f"{self.source}: {', '.join(word for word in words if word)}"]
        lines += [f"  {key}: {value}" for key, value in self.tags.items()]
        lines += [f"  {stream}" for stream in self.streams]
        return "\n".join(lines)


def info_of(native: "_native.media.Demuxer") -> MediaInfo:
    """The metadata of an open container, as ``probe`` returns it."""
    container, streams = native.facts()
    infos = tuple(_stream_info(facts) for facts in streams)

    def best(kind: str) -> Any:
        return infos[native.stream_index(kind)] if native.has(kind) else None

    return MediaInfo(
        source=native.name,
        format=container["format"],
        start=container["start"],
        duration=container["duration"],
        bit_rate=container["bit_rate"],
        tags=MappingProxyType(container["tags"]),
        streams=infos,
        video=best("video"),
        audio=best("audio"),
    )


def _stream_info(facts: dict[str, Any]) -> StreamInfo:
    for name in ("time_base", "frame_rate", "sample_aspect_ratio"):
        if facts.get(name) is not None:
            num, den = facts[name]
            facts[name] = Fraction(num, den) if den else None
    facts["tags"] = MappingProxyType(facts["tags"])
    if facts["type"] == "audio":
        return AudioStreamInfo(**facts)
    if facts["type"] == "video":
        rotation, is_mirrored = _TURNS[facts.pop("orientation")]
        return VideoStreamInfo(**facts, rotation=rotation, is_mirrored=is_mirrored)
    return StreamInfo(**facts)


def _names(of: type) -> list[str]:
    names: list[str] = list(of.__dataclass_fields__)  # type: ignore[attr-defined]  # all callers have dataclasses
    return names


def _restore(of: type, values: dict[str, Any]) -> Any:
    return of(**{**values, "tags": MappingProxyType(values["tags"])})


def _line(stream: StreamInfo, words: list[str]) -> str:
    codec = stream.codec if stream.profile is None else f"{stream.codec} ({stream.profile})"
    language = stream.tags.get("language", "")
    known = [
        codec,
        *words,
        _seconds(stream.duration),
        _bit_rate(stream.bit_rate),
        "" if language == "und" else language,
    ]
    return f"[{stream.index}] {stream.type}: {', '.join(word for word in known if word)}"


def _seconds(duration: float | None) -> str:
    return "" if duration is None else f"{duration:.3f} s"


def _bit_rate(bit_rate: int | None) -> str:
    return "" if bit_rate is None else f"{bit_rate / 1000:.0f} kbit/s"
