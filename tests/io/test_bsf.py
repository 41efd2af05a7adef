"""Bit stream filters."""

from typing import Any

import pytest

import spdl.io
from tests.support.media import clip, h264, run_ffmpeg, tones


def payload(packets: Any) -> bytes:
    """The encoded data of all packets, as the container format for nothing but that has it."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.h264"
        muxer = spdl.io.Muxer(path, format="h264")
        muxer.add_remux_stream(packets.codec)
        with muxer.open():
            muxer.write(0, packets)
        return path.read_bytes()


def test_a_filter_does_what_the_ffmpeg_tool_does() -> None:
    """From lengths to start codes, byte for byte."""
    expected = run_ffmpeg("-i", h264(), "-c", "copy", "-bsf:v", "h264_mp4toannexb", "-bitexact", "-f", "h264", "-")
    assert payload(spdl.io.apply_bsf(spdl.io.demux_video(h264()), "h264_mp4toannexb")) == expected
    assert payload(spdl.io.demux_video(h264(), bsf="h264_mp4toannexb")) == expected


def test_filtered_packets_keep_codec_window_and_times() -> None:
    """They decode to the same pictures; the packets that went in stay as they were."""
    packets = spdl.io.demux_video(h264(), timestamp=(0.5, 1))
    filtered = spdl.io.apply_bsf(packets, "h264_mp4toannexb")
    assert filtered is not None
    assert filtered.codec is not None
    assert filtered.codec.name == "h264"
    assert (filtered.timestamp, len(filtered)) == (packets.timestamp, len(packets))
    assert filtered.get_timestamps(raw=True) == packets.get_timestamps(raw=True)
    assert len(spdl.io.decode_packets(filtered)) == len(spdl.io.decode_packets(packets)) == 12


def test_packets_from_streaming_stay_without_a_codec() -> None:
    """And add up to what one-off filtering gives."""
    with spdl.io.Demuxer(h264()) as demuxer:
        bsf = spdl.io.BSF(demuxer.video_codec, "h264_mp4toannexb")
        out = [bsf.filter(packets) for packets in demuxer.streaming_demux(0, num_packets=20)]  # type: ignore[type-var]
    assert [len(each) for each in out if each is not None] == [20, 20, 10]
    assert all(each is not None and each.codec is None for each in out)
    assert bsf.flush() is None


@pytest.mark.parametrize("one_go", [True, False])
def test_what_a_filter_holds_comes_with_the_flush(one_go: bool) -> None:
    """One that looks ahead is one packet behind."""
    packets = spdl.io.demux_audio(clip("tone.m4a", *tones(8000, 1), "-c:a", "aac"))
    bsf = spdl.io.BSF(packets.codec, "setts=ts=PTS+1")  # type: ignore[arg-type]
    first: Any = bsf.filter(packets, flush=one_go)
    rest: Any = bsf.flush()
    counts = [0 if each is None else len(each) for each in (first, rest)]
    assert sum(counts) == len(packets)
    assert (rest is None) == one_go or counts[0] == len(packets)
    again = bsf.filter(packets, flush=True)
    assert again is not None
    assert len(again) == len(packets)


def test_filters_of_pictures_and_chains_work() -> None:
    """As FFmpeg describes them."""
    image = spdl.io.demux_image(h264(), bsf="null,h264_mp4toannexb")
    assert isinstance(image, spdl.io.ImagePackets)
    assert spdl.io.decode_packets(image).width == 64


@pytest.mark.parametrize("bsf", ["nonsense", "noise=nonsense=1", "h264_mp4toannexb,nonsense", ""])
def test_unknown_filters_are_errors(bsf: str) -> None:
    """On every way; it is a ``RuntimeError``."""
    packets = spdl.io.demux_video(h264())
    for use in (
        lambda: spdl.io.apply_bsf(packets, bsf),
        lambda: spdl.io.BSF(packets.codec, bsf),  # type: ignore[arg-type]
        lambda: spdl.io.demux_video(h264(), bsf=bsf),
    ):
        with pytest.raises(spdl.io.FilterError) as caught:
            use()
        assert isinstance(caught.value, RuntimeError)


def test_a_filter_for_another_codec_is_an_error() -> None:
    """Both when it is made and when packets are of another kind."""
    sound = spdl.io.demux_audio(clip("tone.wav", *tones(8000, 0.2)))
    with pytest.raises(spdl.io.FilterError):
        spdl.io.apply_bsf(sound, "h264_mp4toannexb")
    bsf = spdl.io.BSF(spdl.io.demux_video(h264()).codec, "null")  # type: ignore[arg-type]
    with pytest.raises(spdl.io.FilterError, match="they are of audio"):
        bsf.filter(sound)


def test_packets_without_a_codec_are_a_value_error() -> None:
    """The message points to the class."""
    with spdl.io.Demuxer(h264()) as demuxer:
        packets: Any = next(iter(demuxer.streaming_demux(0, num_packets=3)))
    with pytest.raises(spdl.io.NoCodecError, match="use BSF") as caught:
        spdl.io.apply_bsf(packets, "null")
    assert isinstance(caught.value, ValueError)


def test_arguments_of_other_types_are_type_errors() -> None:
    """They are named."""
    with pytest.raises(TypeError, match="packets must be AudioPackets"):
        spdl.io.apply_bsf(b"", "null")  # type: ignore[type-var]
    with pytest.raises(TypeError, match="codec must be AudioCodec"):
        spdl.io.BSF("h264", "null")  # type: ignore[arg-type]
