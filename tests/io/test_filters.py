"""Descriptions of filters: the exact strings, and that FFmpeg reads them as they are meant."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import spdl.io
from spdl.io import _native
from tests.support.media import clip, h264, pictures, run_ffmpeg, tones

INF = float("inf")

# What each set of arguments gives. The same as the reference's, version 0.8.0.
AUDIO: list[tuple[dict[str, Any], str | None]] = [
    ({}, "aformat=sample_fmts=fltp"),
    ({"sample_fmt": None}, None),
    ({"sample_fmt": "s16"}, "aformat=sample_fmts=s16"),
    ({"timestamp": None}, "aformat=sample_fmts=fltp"),
    ({"timestamp": (0, 1)}, "atrim=start=0:end=1,aformat=sample_fmts=fltp"),
    ({"timestamp": (0.0, 1.5)}, "atrim=start=0.0:end=1.5,aformat=sample_fmts=fltp"),
    (
        {"timestamp": (1 / 3, 2 / 3)},
        "atrim=start=0.3333333333333333:end=0.6666666666666666,aformat=sample_fmts=fltp",
    ),
    ({"timestamp": (-1, 2)}, "atrim=start=-1:end=2,aformat=sample_fmts=fltp"),
    ({"timestamp": (0, INF)}, "atrim=start=0,aformat=sample_fmts=fltp"),
    ({"timestamp": (5, 5)}, "atrim=start=5:end=5,aformat=sample_fmts=fltp"),
    (
        {"timestamp": (1234567.891, 12345678.0)},
        "atrim=start=1234567.891:end=12345678.0,aformat=sample_fmts=fltp",
    ),
    ({"sample_rate": 8000}, "aresample=8000,aformat=sample_fmts=fltp"),
    ({"sample_rate": 0}, "aresample=0,aformat=sample_fmts=fltp"),
    ({"num_channels": 2}, "aformat=channel_layouts=2c,aformat=sample_fmts=fltp"),
    ({"num_frames": 0}, "apad,atrim=end_sample=0,aformat=sample_fmts=fltp"),
    ({"num_frames": 10, "sample_fmt": None}, "apad,atrim=end_sample=10"),
    ({"filter_desc": ""}, ",aformat=sample_fmts=fltp"),
    (
        {
            "sample_rate": 8000,
            "num_channels": 2,
            "timestamp": (0, 1),
            "num_frames": 10,
            "filter_desc": "volume=2",
            "sample_fmt": "s16",
        },
        "aformat=channel_layouts=2c,aresample=8000,atrim=start=0:end=1,apad,atrim=end_sample=10,volume=2,"
        "aformat=sample_fmts=s16",
    ),
]

FIT = "flags=bicubic:force_original_aspect_ratio=decrease"
FILL = "flags=bicubic:force_original_aspect_ratio=increase"
CENTRED = "x=-1:y=-1:color=black"

VIDEO: list[tuple[dict[str, Any], str | None]] = [
    ({}, "format=pix_fmts=rgb24"),
    ({"pix_fmt": None}, None),
    ({"pix_fmt": "gray"}, "format=pix_fmts=gray"),
    ({"frame_rate": (30, 1)}, "fps=30/1,format=pix_fmts=rgb24"),
    ({"frame_rate": (30000, 1001)}, "fps=30000/1001,format=pix_fmts=rgb24"),
    ({"timestamp": (0, 1.5)}, "trim=start=0:end=1.5,format=pix_fmts=rgb24"),
    ({"timestamp": (0.25, INF)}, "trim=start=0.25,format=pix_fmts=rgb24"),
    ({"scale_width": 320}, f"scale=w=320:h=0:{FIT},pad=w=320:h=0:{CENTRED},format=pix_fmts=rgb24"),
    ({"scale_height": 240}, f"scale=w=0:h=240:{FIT},pad=w=0:h=240:{CENTRED},format=pix_fmts=rgb24"),
    ({"scale_width": 0}, f"scale=w=0:h=0:{FIT},pad=w=0:h=0:{CENTRED},format=pix_fmts=rgb24"),
    (
        {"scale_width": -2, "scale_height": 240},
        f"scale=w=-2:h=240:{FIT},pad=w=-2:h=240:{CENTRED},format=pix_fmts=rgb24",
    ),
    (
        {"scale_width": 3, "scale_height": 5, "pad_mode": "red"},
        f"scale=w=3:h=5:{FIT},pad=w=3:h=5:x=-1:y=-1:color=red,format=pix_fmts=rgb24",
    ),
    (
        {"scale_width": 3, "scale_height": 5, "scale_mode": "crop", "pad_mode": "red"},
        f"scale=w=3:h=5:{FILL},crop=w=3:h=5,format=pix_fmts=rgb24",
    ),
    ({"scale_height": 5, "scale_mode": "crop"}, f"scale=w=0:h=5:{FILL},crop=w=0:h=5,format=pix_fmts=rgb24"),
    (
        {"scale_width": -1, "scale_height": 5, "scale_mode": None, "scale_algo": "lanczos"},
        "scale=w=-1:h=5:flags=lanczos,format=pix_fmts=rgb24",
    ),
    ({"scale_mode": "unused"}, "format=pix_fmts=rgb24"),
    ({"pad_mode": "black"}, "format=pix_fmts=rgb24"),
    ({"crop_width": 3}, "crop=w=3:h=0,format=pix_fmts=rgb24"),
    ({"crop_height": 3}, "crop=w=0:h=3,format=pix_fmts=rgb24"),
    ({"crop_width": 3, "crop_height": 4}, "crop=w=3:h=4,format=pix_fmts=rgb24"),
    ({"num_frames": 5}, "tpad=stop=-1:stop_mode=clone,trim=end_frame=5,format=pix_fmts=rgb24"),
    (
        {"num_frames": 0, "pad_mode": "black"},
        "tpad=stop=-1:stop_mode=add:color=black,trim=end_frame=0,format=pix_fmts=rgb24",
    ),
    ({"filter_desc": "hflip", "pix_fmt": None}, "hflip"),
    (
        {
            "frame_rate": (25, 1),
            "timestamp": (0, 1),
            "scale_width": 3,
            "scale_height": 5,
            "scale_algo": "lanczos",
            "crop_width": 2,
            "crop_height": 1,
            "num_frames": 7,
            "pad_mode": "black",
            "filter_desc": "hflip",
        },
        "fps=25/1,trim=start=0:end=1,scale=w=3:h=5:flags=lanczos:force_original_aspect_ratio=decrease,"
        "pad=w=3:h=5:x=-1:y=-1:color=black,crop=w=2:h=1,tpad=stop=-1:stop_mode=add:color=black,trim=end_frame=7,"
        "hflip,format=pix_fmts=rgb24",
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), AUDIO)
def test_audio_description_is_exact(arguments: dict[str, Any], expected: str | None) -> None:
    """Each argument adds its step, and the steps are always in the same order."""
    assert spdl.io.get_audio_filter_desc(**arguments) == expected


@pytest.mark.parametrize(("arguments", "expected"), VIDEO)
def test_video_description_is_exact(arguments: dict[str, Any], expected: str | None) -> None:
    """Each argument adds its step, and the steps are always in the same order."""
    assert spdl.io.get_video_filter_desc(**arguments) == expected


@pytest.mark.parametrize("scale_mode", ["Pad", "", "fit", 3])
def test_unknown_scale_mode_is_refused(scale_mode: Any) -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match=r"scale_mode must be 'pad', 'crop' or None, got"):
        spdl.io.get_video_filter_desc(scale_width=8, scale_mode=scale_mode)


def test_filling_up_needs_a_filter_that_not_every_ffmpeg_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``tpad``, asking for a number of frames is an error that names it; nothing else is."""
    require = _native.media.require_filter
    monkeypatch.setattr(_native.media, "require_filter", lambda name: require(f"no_{name}"))
    with pytest.raises(RuntimeError, match="cannot use the filter 'no_tpad': this build of FFmpeg does not have it"):
        spdl.io.get_video_filter_desc(num_frames=3)
    assert spdl.io.get_video_filter_desc() == "format=pix_fmts=rgb24"


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        # FFmpeg refuses what Python makes of these numbers by itself: it reads digits and a point.
        ((Fraction(1, 4), Fraction(1, 2)), "start=0.25:end=0.5"),
        ((Decimal("0.1"), Decimal("0.30")), "start=0.1:end=0.3"),
        ((1e-7, 1), "start=0.0000001:end=1"),
        # Beyond what it can count, an end is none.
        ((0, 1e20), "start=0"),
        ((0, 10**15), "start=0"),
    ],
)
def test_times_are_written_as_ffmpeg_reads_them(timestamp: Any, expected: str) -> None:
    """Any kind of number may be given."""
    assert spdl.io.get_audio_filter_desc(timestamp=timestamp, sample_fmt=None) == f"atrim={expected}"
    assert spdl.io.get_video_filter_desc(timestamp=timestamp, pix_fmt=None) == f"trim={expected}"


def test_times_that_are_no_numbers_are_refused() -> None:
    """A window is two numbers."""
    with pytest.raises((TypeError, ValueError)):
        spdl.io.get_audio_filter_desc(timestamp=("a", "b"))
    with pytest.raises(ValueError):
        spdl.io.get_audio_filter_desc(timestamp=(0, 1, 2))  # type: ignore[arg-type]


def test_ffmpeg_reads_video_descriptions() -> None:
    """The ffmpeg tool takes them for a small picture, all but those that crop or pad to no size."""
    no_size = ("pad=w=0", "pad=w=-2", "crop=w=0", "crop=w=3:h=0", ":h=0:x=")
    descriptions = [d for _, d in VIDEO if d and not any(words in d for words in no_size)]
    _run_all("testsrc=size=64x48:duration=0.2", [*descriptions, "trim=start=0.0000001:end=1"])


def test_ffmpeg_reads_audio_descriptions() -> None:
    """The ffmpeg tool takes them for a little sound."""
    _run_all("sine=duration=0.2", [d for _, d in AUDIO if d and not d.startswith(",") and "aresample=0" not in d])


def _run_all(source: str, descriptions: list[str]) -> None:
    # As inputs: FFmpeg 7 refuses to encode what is empty, such as windows behind the end, only behind complex filters.
    inputs = [word for each in descriptions for word in ("-f", "lavfi", "-i", f"{source},{each}")]
    sinks = [word for i in range(len(descriptions)) for word in ("-map", f"{i}", "-f", "null", "-")]
    run_ffmpeg(*inputs, *sinks)


def test_description_for_packets_knows_their_window() -> None:
    """Sound is cut by its filter; pictures were cut by decoding."""
    sound = clip("a.wav", *tones(duration=0.2), "-c:a", "pcm_s16le")
    packets = spdl.io.demux_audio(sound, timestamp=(0, 0.1))
    assert spdl.io.get_filter_desc(packets) == "atrim=start=0.0:end=0.1,aformat=sample_fmts=fltp"
    assert spdl.io.get_filter_desc(packets, sample_fmt=None, filter_desc="volume=2") == (
        "atrim=start=0.0:end=0.1,volume=2"
    )
    assert spdl.io.get_filter_desc(spdl.io.demux_audio(sound)) == "aformat=sample_fmts=fltp"
    video = spdl.io.demux_video(h264(duration=0.4), timestamp=(0, 0.1))
    assert spdl.io.get_filter_desc(video) == "format=pix_fmts=rgb24"
    image = spdl.io.demux_image(clip("a.png", *pictures(duration=0.04)))
    assert spdl.io.get_filter_desc(image, pix_fmt="gray", crop_width=4, crop_height=2) == (
        "crop=w=4:h=2,format=pix_fmts=gray"
    )


def test_description_for_packets_refuses_what_does_not_fit() -> None:
    """Other things, arguments of the other kind of media, and a second window."""
    packets = spdl.io.demux_video(h264(duration=0.4))
    for other in (None, 3, "v.mp4", packets.codec):
        with pytest.raises(TypeError, match="packets must be AudioPackets, VideoPackets or ImagePackets, got"):
            spdl.io.get_filter_desc(other)  # type: ignore[arg-type]
    for name in ("timestamp", "sample_rate", "colour"):
        with pytest.raises(TypeError, match=name):
            spdl.io.get_filter_desc(packets, **{name: None})


def test_inputs_are_described_for_a_codec() -> None:
    """Everything that ``buffer`` and ``abuffer`` want, under the name that was given; the format may be another."""
    codec = spdl.io.demux_video(h264(duration=0.4)).codec
    assert codec is not None
    rest = "time_base=1/12800:pixel_aspect=1/1"
    assert spdl.io.get_buffer_desc(codec) == f"buffer=video_size=64x48:pix_fmt=yuv420p:{rest}"
    assert spdl.io.get_buffer_desc(codec, "in0", "rgb24") == f"buffer@in0=video_size=64x48:pix_fmt=rgb24:{rest}"
    with spdl.io.Demuxer(clip("a.wav", *tones(duration=0.2, expression="0|0"), "-c:a", "pcm_s16le")) as demuxer:
        audio = demuxer.audio_codec
    start = "time_base=1/8000:sample_rate=8000"
    assert spdl.io.get_abuffer_desc(audio) == f"abuffer={start}:sample_fmt=s16:channel_layout=0x3"
    assert spdl.io.get_abuffer_desc(audio, label="x", sample_fmt="flt") == (
        f"abuffer@x={start}:sample_fmt=flt:channel_layout=0x3"
    )
    with pytest.raises(TypeError, match="codec must be a VideoCodec or an ImageCodec, got AudioCodec"):
        spdl.io.get_buffer_desc(audio)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="codec must be an AudioCodec, got VideoCodec"):
        spdl.io.get_abuffer_desc(codec)  # type: ignore[arg-type]
