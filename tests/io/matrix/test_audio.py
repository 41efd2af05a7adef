"""Every sample of every clip is the one that the ffmpeg tool decodes."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

import spdl.io
from tests.io.matrix.decoding import array_of, assert_same
from tests.support.clip_matrix import (
    AUDIO_CLIPS,
    PICTURES_IN_AUDIO,
    AudioClip,
    audio_clip,
    expected_times,
    with_cover,
)
from tests.support.media import decoded_audio, run_ffmpeg

EACH_CLIP = pytest.mark.parametrize("clip", AUDIO_CLIPS, ids=str)


@EACH_CLIP
def test_every_sample_is_that_of_the_ffmpeg_tool(clip: AudioClip) -> None:
    """As float32, by default one row for each channel."""
    expected = decoded_audio(clip.path, clip.num_channels).T
    frames = spdl.io.decode_packets(spdl.io.demux_audio(clip.path))
    assert (frames.num_channels, frames.sample_rate) == (clip.num_channels, clip.sample_rate)
    assert (frames.sample_fmt, len(frames)) == ("fltp", expected.shape[1])
    assert_same(array_of(frames), expected)


@EACH_CLIP
def test_samples_in_the_decoders_own_format_are_the_same(clip: AudioClip) -> None:
    """Without a filter, then turned into float32 by NumPy as IEEE 754 and the PCM formats define it."""
    frames = spdl.io.decode_packets(spdl.io.demux_audio(clip.path), filter_desc=None)
    planar = frames.sample_fmt.endswith("p")
    array = array_of(frames)
    array = array if planar else array.T
    expected = decoded_audio(clip.path, clip.num_channels).T
    match array.dtype:
        case np.uint8:
            given = (array.astype(np.float32) - 128) / 2**7
        case np.int16:
            given = array.astype(np.float32) / 2**15
        case np.int32:
            given = array.astype(np.float32) / 2**31
        case _:
            given = array.astype(np.float32)
    assert_same(given, expected)


@EACH_CLIP
def test_loading_in_one_step_gives_the_same_samples(clip: AudioClip) -> None:
    """From a path and from memory."""
    expected = decoded_audio(clip.path, clip.num_channels).T
    assert_same(spdl.io.to_numpy(spdl.io.load_audio(clip.path)), expected)
    assert_same(spdl.io.to_numpy(spdl.io.load_audio(clip.path.read_bytes())), expected)


@pytest.mark.parametrize("clip", [each for each in AUDIO_CLIPS if each.num_channels == 2], ids=str)
def test_resampling_and_mixing_are_those_of_the_ffmpeg_tool(clip: AudioClip) -> None:
    """To one channel at 16 kHz, by the description that both get."""
    description = spdl.io.get_audio_filter_desc(sample_rate=16000, num_channels=1)
    expected = decoded_audio(clip.path, 1, "-af", str(description)).T
    frames = spdl.io.decode_packets(spdl.io.demux_audio(clip.path), filter_desc=description)
    assert_same(array_of(frames), expected)


WINDOWS = [
    (Fraction(0), Fraction(1, 10)),
    (Fraction(1, 7), Fraction(2, 7)),
    (Fraction(123, 1000), Fraction(124, 1000)),
    (Fraction(1, 4), Fraction(9)),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("name", ["flac.flac", "alac.m4a", "s16.wav", "f32.wav", "s16_big_endian.mov", "odd_rate.wav"])
def test_a_window_has_the_samples_of_that_time(name: str, window: tuple[Fraction, Fraction]) -> None:
    """For formats whose samples need none before them: exactly those whose time is inside."""
    clip = audio_clip(name)
    whole = decoded_audio(clip.path, clip.num_channels).T
    times = [Fraction(index, clip.sample_rate) for index in range(whole.shape[1])]
    inside = [index for index, time in enumerate(times) if window[0] <= time < window[1]]
    packets = spdl.io.demux_audio(clip.path, timestamp=window)
    array = array_of(spdl.io.decode_packets(packets))
    assert_same(array, whole[:, inside[0] : inside[-1] + 1])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("name", ["aac.mp4", "mp3.mp3", "opus.ogg", "vorbis.ogg", "aac.ts"])
def test_a_window_of_lossy_audio_is_where_it_belongs(name: str, window: tuple[Fraction, Fraction]) -> None:
    """As in the whole of the ffmpeg tool, but for the first packets, in which decoders still lack what came before.

    Tolerance: 4096 samples at the start; after that a hundredth of full scale, for the noise that AAC substitutes.
    """
    clip = audio_clip(name)
    # The tool tells it in microseconds, rounded; it is that of a sample.
    start = Fraction(round(float(run_start(clip)) * clip.sample_rate), clip.sample_rate)
    whole = decoded_audio(clip.path, clip.num_channels).T
    first = expected_times(clip.path, "a:0")[0]
    assert first is not None
    if name == "vorbis.ogg":
        start = first = Fraction(0)  # the tool counts samples that the first packet does not give
    moved = (window[0] + start, window[1] + start)
    offset = round(first * clip.sample_rate)
    expected = whole[:, slice(*(max(ceil(bound * clip.sample_rate) - offset, 0) for bound in moved))]
    array = spdl.io.to_numpy(spdl.io.load_audio(clip.path, timestamp=moved, origin="stream"))
    assert abs(array.shape[1] - expected.shape[1]) <= 1
    count = min(array.shape[1], expected.shape[1])
    settled = slice(4096, count)
    assert np.abs(array[:, settled] - expected[:, settled]).max(initial=0.0) < 1e-2


def run_start(clip: AudioClip) -> str:
    """Where the clip's time begins, which the ffmpeg tool takes from every time."""
    import subprocess

    command = ["ffprobe", "-v", "error", "-show_entries", "format=start_time", "-of", "csv=p=0", str(clip.path)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()[0]


@pytest.mark.parametrize(("name", "codec"), PICTURES_IN_AUDIO, ids=[name for name, _ in PICTURES_IN_AUDIO])
def test_an_attached_picture_is_a_picture_and_does_not_disturb_the_audio(name: str, codec: tuple[str, ...]) -> None:
    """The cover loads as an image; the samples are those of the ffmpeg tool."""
    path, picture = with_cover(name, codec)
    expected = np.frombuffer(run_ffmpeg("-i", picture, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"), np.uint8)
    frames = spdl.io.decode_packets(spdl.io.demux_image(path))
    assert_same(array_of(frames), expected.reshape(20, 30, 3))
    assert_same(spdl.io.to_numpy(spdl.io.load_image(path)), expected.reshape(20, 30, 3))
    assert_same(spdl.io.to_numpy(spdl.io.load_audio(path)), decoded_audio(path, 2).T)
