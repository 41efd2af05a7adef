"""What goes wrong with muxers, and what is in the file then."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.io.muxing import CONFIG, SOUND, noise, packets_of, video_muxer
from tests.support.media import clip, h264, pictures, probed_frames


def test_calls_out_of_order_are_errors(tmp_path: Path) -> None:
    """Before open, after open, after flush and after close; all are ``RuntimeError``."""
    packets = packets_of(1)
    muxer = video_muxer(tmp_path / "out.mkv")
    with pytest.raises(spdl.io.MuxError, match="it is not open; call open"):
        muxer.write(0, packets)
    with pytest.raises(spdl.io.MuxError, match="it is not open; call open"):
        muxer.flush()
    muxer.open()
    with pytest.raises(spdl.io.MuxError, match="it is already open"):
        muxer.open()
    with pytest.raises(spdl.io.MuxError, match="it is already open"):
        muxer.add_encode_stream(CONFIG, encoder="ffv1")
    muxer.flush()
    with pytest.raises(spdl.io.MuxError, match="it was flushed"):
        muxer.write(0, packets)


def test_a_closed_muxer_stays_closed(tmp_path: Path) -> None:
    """Every use is an error, except to close it again."""
    packets = packets_of(1)
    assert packets.codec is not None
    muxer = video_muxer(tmp_path / "out.mkv").open()
    muxer.close()
    with pytest.raises(spdl.io.ClosedError, match="the muxer was closed"):
        muxer.write(0, packets)
    with pytest.raises(spdl.io.ClosedError):
        muxer.flush()
    with pytest.raises(spdl.io.ClosedError):
        muxer.open()
    with pytest.raises(spdl.io.ClosedError):
        muxer.add_encode_stream(CONFIG)
    with pytest.raises(spdl.io.ClosedError):
        muxer.add_remux_stream(packets.codec)
    muxer.close()


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_a_stream_that_is_not_there_is_an_error(tmp_path: Path, index: int) -> None:
    """The message says how many there are."""
    packets = packets_of(1)
    muxer = video_muxer(tmp_path / "out.mkv").open()
    with muxer, pytest.raises(spdl.io.MuxError, match=f"it has 1 streams, .* there is no stream {index}"):
        muxer.write(index, packets)


def test_packets_of_another_stream_are_refused(tmp_path: Path) -> None:
    """Another medium, or another codec."""
    audio = spdl.io.Muxer("unused.wav").add_encode_stream(SOUND)
    sound = audio.encode(spdl.io.create_reference_audio_frame(np.zeros((10, 1), np.int16), "s16", 8000, 0))
    assert sound is not None
    with video_muxer(tmp_path / "out.mkv").open() as muxer:
        with pytest.raises(spdl.io.MuxError, match="packets are audio of pcm_s16le, and stream 0 is video of ffv1"):
            muxer.write(0, sound)
        with pytest.raises(spdl.io.MuxError, match="packets are video of h264, and stream 0 is video of ffv1"):
            muxer.write(0, spdl.io.demux_video(str(h264())))
        with pytest.raises(TypeError, match="packets must be"):
            muxer.write(0, noise(1))  # type: ignore[arg-type]  # the error is what is tested
        muxer.write(0, packets_of(1))
    assert len(probed_frames(tmp_path / "out.mkv")) == 1


def test_time_stamps_that_do_not_grow_are_refused(tmp_path: Path) -> None:
    """The message has FFmpeg's words; the file keeps what came before."""
    with video_muxer(tmp_path / "out.mkv").open() as muxer:
        muxer.write(0, packets_of(2))
        with pytest.raises(spdl.io.MuxError, match="non monotonically increasing dts"):
            muxer.write(0, packets_of(1))
    assert len(probed_frames(tmp_path / "out.mkv")) == 2


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("out.xyz", None, "out.xyz: no format has this extension; name one with `format`"),
        ("out", None, "no format has this extension"),
        ("out.mkv", "nonsense", "out.mkv: unknown format 'nonsense'"),
    ],
)
def test_an_unknown_format_is_an_error(tmp_path: Path, name: str, format: str | None, message: str) -> None:
    """By extension or by name."""
    with pytest.raises(spdl.io.MuxError, match=message):
        spdl.io.Muxer(tmp_path / name, format=format)


H264 = pytest.mark.needs("encoder libx264")  # the default encoder of MP4
MP3 = pytest.mark.needs("encoder libmp3lame")


def change(config: spdl.io.VideoEncodeConfig, **fields: Any) -> spdl.io.VideoEncodeConfig:
    """The same with other fields."""
    return dataclasses.replace(config, **fields)


REFUSED_BY_H264: list[tuple[str, Any, dict[str, Any], str]] = [
    ("x.mp4", SOUND, {"encoder": "libx264"}, "'libx264' encodes video, not audio"),
    ("x.mp4", CONFIG, {"encoder_config": {"nonsense": "1"}}, "unknown option 'nonsense'"),
    ("x.mp4", CONFIG, {"encoder_config": {"qmin": "nonsense"}}, "Undefined constant .* 'nonsense'"),
    ("x.mp4", change(CONFIG, pix_fmt="rgb24"), {}, "not support the pixel format rgb24; supported are yuv420p,"),
    ("x.mp4", change(CONFIG, colorspace="nonsense"), {}, "unknown colorspace 'nonsense'; known are .*bt709"),
    ("x.mp4", change(CONFIG, color_trc="nonsense"), {}, "unknown color_trc 'nonsense'; known are .*linear"),
    ("x.mp4", change(CONFIG, color_primaries="no"), {}, "unknown color_primaries 'no'; known are .*bt2020"),
    ("x.mp4", change(CONFIG, frame_rate=None), {}, "it has no default frame rate: give frame_rate"),
    ("x.mp4", change(CONFIG, height=31, pix_fmt="yuv420p"), {}, r"height not divisible by 2 \(32x31\)"),
    ("x.webm", CONFIG, {"encoder": "libx264"}, "the format webm cannot hold h264"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "config", "options", "message"),
    [
        ("x.mp4", CONFIG, {"encoder": "nonsense"}, "unknown encoder 'nonsense'"),
        ("x.mp4", CONFIG, {"encoder": "aac"}, "'aac' encodes audio, not video"),
        ("x.mp4", change(CONFIG, pix_fmt="nonsense"), {}, "unknown pixel format 'nonsense'"),
        ("x.mp4", SOUND, {}, "does not support the sample format s16; supported are fltp"),
        ("x.wav", CONFIG, {}, "the format wav has no default encoder for video"),
        *(pytest.param(*case, marks=H264) for case in REFUSED_BY_H264),
    ],
)  # fmt: skip
def test_what_cannot_be_encoded_is_refused_when_the_stream_is_added(
    tmp_path: Path, name: str, config: Any, options: dict[str, Any], message: str
) -> None:
    """The errors are ``RuntimeError`` and say what there is instead; another stream can be added then."""
    muxer = spdl.io.Muxer(tmp_path / name)
    with pytest.raises(RuntimeError, match=message) as caught:
        muxer.add_encode_stream(config, **options)
    assert isinstance(caught.value, spdl.io.EncodeError | spdl.io.MuxError)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(spdl.io.MuxError, match="it has no streams"):
        muxer.open()


@MP3
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_channels": 5}, "does not support 5 channels; supported are mono, stereo"),
        ({"sample_rate": 8001}, "does not support the sample rate 8001; supported are 44100,"),
        ({"sample_fmt": "nonsense"}, "unknown sample format 'nonsense'"),
    ],
)
def test_sound_that_cannot_be_encoded_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """The message lists what the encoder takes."""
    config = spdl.io.audio_encode_config(**{"num_channels": 1, "sample_rate": 8000, "sample_fmt": "fltp", **options})
    with pytest.raises(spdl.io.EncodeError, match=message):
        spdl.io.Muxer(tmp_path / "x.mp3").add_encode_stream(config)


def test_a_default_frame_rate_is_taken(tmp_path: Path) -> None:
    """Where the encoder has one."""
    muxer = spdl.io.Muxer(tmp_path / "x.mpg")
    muxer.add_encode_stream(change(CONFIG, frame_rate=None, pix_fmt="yuv420p"))
    muxer.close()


def test_a_codec_that_the_container_cannot_hold_is_refused(tmp_path: Path) -> None:
    """When it is added, not when the file is there."""
    muxer = spdl.io.Muxer(tmp_path / "x.webm")
    codec = spdl.io.demux_video(str(h264())).codec
    assert codec is not None
    with pytest.raises(spdl.io.MuxError, match="the format webm cannot hold h264"):
        muxer.add_remux_stream(codec)
    with pytest.raises(TypeError, match="codec must be"):
        spdl.io.Muxer(tmp_path / "x.mkv").add_remux_stream(CONFIG)  # type: ignore[arg-type]  # the error is tested


def test_an_unknown_option_costs_no_file(tmp_path: Path) -> None:
    """What was there before is untouched, and the muxer can be opened without it."""
    path = tmp_path / "out.mkv"
    path.write_bytes(b"before")
    muxer = video_muxer(path)
    with pytest.raises(spdl.io.MuxError, match="unknown option 'nonsense'"):
        muxer.open({"nonsense": "1"})
    assert path.read_bytes() == b"before"
    with muxer.open({"reserve_index_space": "1000"}):
        muxer.write(0, packets_of(1))
    assert len(probed_frames(path)) == 1


def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A missing folder, or a folder in its place; the muxer is of no more use."""
    (tmp_path / "folder.mkv").mkdir()
    for path, reason in ((tmp_path / "no" / "out.mkv", "No such file"), (tmp_path / "folder.mkv", "Is a directory")):
        muxer = video_muxer(path)
        with pytest.raises(spdl.io.MuxError, match=f"{path}: {reason}"):
            muxer.open()
        with pytest.raises(spdl.io.ClosedError):
            muxer.open()
        muxer.close()


@H264
@pytest.mark.parametrize("format", ["matroska", "mp4", "mpegts", "nut"])
@pytest.mark.parametrize("num_frames", [1, 60])
def test_a_full_disk_is_told(format: str, num_frames: int) -> None:
    """At the first call that can know, once; the file is closed all the same."""
    muxer = spdl.io.Muxer("/dev/full", format=format)
    encoder = muxer.add_encode_stream(CONFIG, encoder="libx264")
    packets = [encoder.encode(noise(num_frames)), encoder.flush()]

    def write() -> None:
        for each in packets:
            if each is not None:
                muxer.write(0, each)

    told = []
    for call in (muxer.open, write, muxer.flush, muxer.close):
        try:
            call()
        except spdl.io.MuxError as exc:
            told.append(str(exc))
        except spdl.io.ClosedError:
            assert told
    assert any("No space left on device" in message for message in told)
    muxer.close()


@pytest.mark.parametrize(
    ("name", "encoder", "held"),
    [
        ("x.ts", "mjpeg", "mpeg1video, mpeg2video"),
        pytest.param("x.ts", "libvpx-vp9", "mpeg1video, mpeg2video", marks=pytest.mark.needs("encoder libvpx-vp9")),
        ("x.mpg", "ffv1", "mpeg1video, mpeg2video"),
        ("x.h264", "mpeg4", "h264"),
        ("x.m4v", "mjpeg", "mpeg4"),
    ],
)
def test_a_codec_that_would_not_be_found_again_is_refused(name: str, encoder: str, held: str, tmp_path: Path) -> None:
    """FFmpeg writes it without a word, as data of an unknown kind; the message lists what the format holds."""
    pix_fmt = "yuvj420p" if encoder == "mjpeg" else "yuv420p"
    config = spdl.io.video_encode_config(height=48, width=64, frame_rate=(25, 1), pix_fmt=pix_fmt)
    with pytest.raises(spdl.io.MuxError, match=rf"cannot hold \w+; of video it holds {held}"):
        spdl.io.Muxer(tmp_path / name).add_encode_stream(config, encoder=encoder)
    packets = spdl.io.demux_video(clip("bare.avi", *pictures(duration=0.2), "-c:v", encoder, "-pix_fmt", pix_fmt))
    assert packets.codec is not None
    with pytest.raises(spdl.io.MuxError, match="cannot hold"):
        spdl.io.Muxer(tmp_path / name).add_remux_stream(packets.codec)
