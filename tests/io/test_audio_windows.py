"""Windows of sound, exact at the output rate: what NumPy selects from everything."""

import functools
import wave
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, probed_frames, tones

CHORD = "0.3*sin(2*PI*(300+80*t)*t)+0.2*sin(2*PI*(1200-90*t)*t)*sin(9*t)"
# name of the clip: sample rate, what encodes it, and when its first sample is
CLIPS: dict[str, tuple[int, tuple[str, ...], Fraction]] = {
    "pcm.wav": (11127, (), Fraction(0)),
    "flac.flac": (44100, (), Fraction(0)),
    "alac.m4a": (44100, ("-c:a", "alac"), Fraction(0)),
    "aac.m4a": (44100, ("-c:a", "aac", "-aac_pns", "0"), Fraction(0)),
    "mp3.mp3": (44100, ("-c:a", "libmp3lame"), Fraction(1105, 44100)),
    "vorbis.ogg": (44100, ("-c:a", "libvorbis"), Fraction(0)),
    "opus.ogg": (48000, ("-c:a", "libopus"), Fraction(0)),
    # Their times are rounded to milliseconds, or to 1/90000 s. (`start_of` knows more of aac.mkv.)
    "aac.mkv": (44100, ("-c:a", "aac", "-aac_pns", "0"), Fraction(0)),
    "opus.mkv": (48000, ("-c:a", "libopus"), Fraction(0)),
    "aac.flv": (44100, ("-c:a", "aac", "-aac_pns", "0"), Fraction(0)),
    "aac.ts": (44100, ("-c:a", "aac", "-aac_pns", "0"), Fraction(14, 10)),
}
EACH_CLIP = pytest.mark.parametrize("name", CLIPS)
WINDOWS = [
    (Fraction(2, 10), Fraction(4, 10)),
    (Fraction(1, 3), Fraction(2, 3)),
    (Fraction(1234567, 10**6), Fraction(13, 10)),
    (Fraction(0), Fraction(1, 1000)),
]
Array = np.ndarray[Any, np.dtype[np.float32]]


def path_of(name: str) -> Path:
    """Two seconds of a chord that rises and falls, so that no two places are the same."""
    rate, arguments, _ = CLIPS[name]
    return clip(name, *tones(rate, 2, CHORD), *arguments)


@functools.cache
def start_of(name: str) -> Fraction:
    """When the first sample is. FFmpeg 7 writes into Matroska that the padding of AAC, one packet, is before 0."""
    rate, _, start = CLIPS[name]
    is_padding_early = name == "aac.mkv" and float(probed_frames(path_of(name), "a:0")[0]["pts_time"]) < 0
    return Fraction(-1024, rate) if is_padding_early else start


def inside(window: tuple[Fraction, Fraction], start: Fraction, rate: int) -> slice:
    """Of samples at ``start``, ``start + 1 / rate``, …: those with ``window[0] <= time < window[1]``."""
    first = round(start * rate)
    return slice(*(max(ceil(bound * rate) - first, 0) for bound in window))


def moved(window: tuple[Fraction, Fraction], start: Fraction) -> tuple[Fraction, Fraction]:
    shift = max(start, Fraction(0))
    return window[0] + shift, window[1] + shift


def loaded(path: Path, *window: Any, **options: Any) -> Array:
    array: Array = spdl.io.to_numpy(spdl.io.load_audio(path, *window, **options))
    return array


@EACH_CLIP
def test_a_window_is_what_numpy_selects(name: str) -> None:
    """Loaded in one step, and demuxed and decoded."""
    path, rate, start = path_of(name), CLIPS[name][0], start_of(name)
    whole = loaded(path)
    for each in WINDOWS:
        window = moved(each, start)
        expected = whole[:, inside(window, start, rate)]
        packets = spdl.io.demux_audio(path, timestamp=window)
        assert np.array_equal(loaded(path, window, origin="stream"), expected), window
        assert np.array_equal(loaded(path, each), whole[:, inside(each, Fraction(0), rate)]), each
        decoded = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets)))
        assert np.array_equal(decoded, expected), window


@pytest.mark.parametrize("name", ["pcm.wav", "flac.flac", "mp3.mp3", "aac.mkv", "opus.ogg"])
def test_windows_side_by_side_are_the_whole(name: str) -> None:
    """No sample is in two of them, none is in neither."""
    path, rate = path_of(name), CLIPS[name][0]
    edges = [Fraction(step, 7) for step in range(14)]
    parts = [loaded(path, window) for window in pairwise(edges)]
    expected = loaded(path)[:, inside((edges[0], edges[-1]), Fraction(0), rate)]
    assert np.array_equal(np.concatenate(parts, axis=1), expected)


@EACH_CLIP
def test_a_resampled_window_is_exact_at_the_new_rate(name: str) -> None:
    """The samples are those of resampling everything, also at the edges."""
    path, start = path_of(name), max(start_of(name), Fraction(0))
    description = spdl.io.get_audio_filter_desc(sample_rate=16000)
    whole = loaded(path, filter_desc=description)
    for each in WINDOWS[:3]:
        window = moved(each, start)
        part = inside(window, start, 16000)
        packets = spdl.io.demux_audio(path, timestamp=window)
        own = spdl.io.decode_packets(packets, spdl.io.get_filter_desc(packets, sample_rate=16000))
        for given in (
            loaded(path, window, filter_desc=description, origin="stream"),
            spdl.io.to_numpy(spdl.io.convert_frames(own)),
        ):
            assert given.shape[1] == part.stop - part.start, window
            assert np.abs(given - whole[:, part]).max() <= 1e-6, window


def test_a_fifth_of_a_second_at_16_khz_is_3200_samples() -> None:
    """Whatever the packets of the codec are."""
    for name in ("flac.flac", "aac.m4a", "vorbis.ogg"):
        assert (
            loaded(path_of(name), (0.5, 0.7), filter_desc="aresample=16000,aformat=sample_fmts=fltp").shape[1] == 3200
        )


def test_a_window_in_the_decoders_own_format_is_exact_too() -> None:
    """Without a filter."""
    array = spdl.io.to_numpy(spdl.io.load_audio(path_of("pcm.wav"), (0.5, 0.7), filter_desc=None))
    assert array.shape == (ceil(0.7 * 11127) - ceil(0.5 * 11127), 1)


def test_filters_that_change_time_cut_themselves() -> None:
    """What they give is left as it is."""
    description = "atrim=start=0.5:end=0.6,asetpts=PTS-STARTPTS,apad,atrim=end_sample=9000,aformat=sample_fmts=fltp"
    assert loaded(path_of("flac.flac"), (0.5, 0.6), filter_desc=description).shape[-1] == 9000


def test_wav_in_memory_follows_the_same_rule(tmp_path: Path) -> None:
    """As NumPy selects by time, at any offset."""
    path = tmp_path / "ramp.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 11127, 0, "NONE", ""))
        file.writeframes(np.arange(11127, dtype="<i2").tobytes())
    times = np.arange(11127) / 11127
    data = path.read_bytes()
    for start, end in ((0.1, 0.35), (0.33333, 0.33343), (0.5, 0.50001), (0.25, 0.75)):
        expected = np.flatnonzero((start <= times) & (times < end))
        assert np.asarray(spdl.io.load_wav(data, start, end - start))[:, 0].tolist() == expected.tolist()
        if len(expected):
            array = spdl.io.to_numpy(spdl.io.load_audio(path, (start, end), filter_desc=None))
            assert array[:, 0].tolist() == expected.tolist()
