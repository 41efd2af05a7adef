"""Windows of packets: what they hold and what they promise. That they decode rightly, ``matrix`` says."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, decoded_audio, h264, pictures, tones

# name of the clip: what encodes it; how far samples may be off, as the decoder adds noise of its own
SOUNDS = {
    "pcm.wav": ((), 0.0),
    "flac.flac": ((), 0.0),
    "alac.m4a": (("-c:a", "alac"), 0.0),
    "mp3.mp3": (("-c:a", "libmp3lame"), 0.0),
    "aac.m4a": (("-c:a", "aac", "-aac_pns", "0"), 0.0),
    "vorbis.ogg": (("-c:a", "libvorbis"), 0.0),
    "vorbis.mkv": (("-c:a", "libvorbis"), 0.0),
    "ac3.mkv": (("-c:a", "ac3"), 1e-4),
    "opus.ogg": (("-c:a", "libopus"), 0.0),
    "opus.mkv": (("-c:a", "libopus"), 0.0),
}


def sound(name: str) -> Any:
    """Three seconds of a chord that rises and falls, so that no two places are the same."""
    expression = "0.3*sin(2*PI*(300+80*t)*t)+0.2*sin(2*PI*(1200-90*t)*t)*sin(9*t)"
    return clip(name, *tones(48000, 3, expression), *SOUNDS[name][0])


@pytest.mark.parametrize(
    "end", [1, 1.0, np.float32(1), Fraction(1), Decimal(1), "1", "3/3", "1.0"], ids=lambda end: type(end).__name__
)
def test_bounds_may_be_any_kind_of_number(end: Any) -> None:
    """Mixed, too. ``timestamp`` tells them as floats."""
    packets = spdl.io.demux_video(h264(), timestamp=(Fraction(1, 2), end))
    assert packets.timestamp == (0.5, 1.0)
    assert len(packets) == 12
    assert spdl.io.demux_video(h264()).timestamp is None


def test_windows_are_half_open() -> None:
    """A picture at the end is not inside, one at the start is; 0.48 means 12/25."""
    times = spdl.io.demux_video(h264()).get_timestamps()
    for start, end in pairwise(times):
        assert spdl.io.demux_video(h264(), timestamp=(start, end)).get_timestamps() == [start]
    assert spdl.io.demux_video(h264(), timestamp=("12/25", 0.52)).get_timestamps() == [0.48]


@pytest.mark.parametrize("window", [(1, 1), (1, 0.5), (5, 6), (-3, -2), (1e300, 1e301), (-1e300, -1e299)])
def test_windows_without_pictures_or_samples_are_of_length_zero(window: tuple[float, float]) -> None:
    """And packets all the same."""
    path = clip("both.mp4", *pictures(), *tones(), "-c:v", "libx264", "-g", "12", "-pix_fmt", "yuv420p", "-c:a", "aac")
    with spdl.io.Demuxer(path) as demuxer:
        video, audio = demuxer.demux_video(window), demuxer.demux_audio(window)
    assert (len(video), video.get_timestamps(), video.get_timestamps(raw=True)) == (0, [], [])
    assert (video.width, video.timestamp) == (64, tuple(map(float, window)))
    assert (len(audio), audio.sample_rate) == (0, 8000)
    assert len(video.clone()) == len(audio.clone()) == 0


def test_a_negative_start_is_the_beginning() -> None:
    """Also far before it."""
    for start in (-0.5, -1e12, -1e300):
        assert len(spdl.io.demux_video(h264(), timestamp=(start, 0.2))) == 5


def test_packets_for_decoding_are_kept_and_not_counted() -> None:
    """From the key frame before, up to the last one needed."""
    packets = spdl.io.demux_video(h264(), timestamp=(0.8, 1.0))
    raw = packets.get_timestamps(raw=True)
    assert raw[0] == 0.48  # the key frame, as there is one every 12 frames
    assert max(raw) < 1.1
    assert len(packets) == 5 == len(packets.get_timestamps())


@pytest.mark.parametrize("name", SOUNDS)
def test_windows_of_sound_decode_to_the_samples_of_the_whole(name: str) -> None:
    """Wherever they lie: the decoder sees enough before them."""
    path, tolerance = sound(name), SOUNDS[name][1]
    whole = samples(spdl.io.demux_audio(path))
    assert np.abs(whole - decoded_audio(path, 1)).max() <= 1e-6
    with spdl.io.Demuxer(path) as demuxer:
        for start, end in ((1.5, 1.75), (0.0, 0.25), (0.11, 0.42), (2.5, 2.75), (2.0, 2.01), (0.5, 1.0)):
            trim = f"atrim=start={start}:end={end},"
            part = samples(demuxer.demux_audio((start, end)), trim)
            expected = samples(demuxer.demux_audio(), trim)
            assert part.shape == expected.shape, (start, end)
            assert np.abs(part - expected).max() <= tolerance, (start, end)


def samples(packets: spdl.io.AudioPackets, trim: str = "") -> Any:
    """What they decode to."""
    return spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets, f"{trim}aformat=sample_fmts=flt")))


def test_sound_is_not_read_from_the_beginning_for_a_late_window() -> None:
    """A few packets before it suffice."""
    packets = spdl.io.demux_audio(sound("aac.m4a"), timestamp=(2.5, 2.6))
    assert len(packets) == 5
    assert len(packets.__getstate__()) < 20 * 600
