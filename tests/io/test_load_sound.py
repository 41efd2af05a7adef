"""``load_audio`` at any sample rate, compared with the ffmpeg tool that resamples the whole file."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.support.media import clip, decoded_audio, tones

# A sound whose samples all differ, at several levels.
_SWEEP = "0.5*sin(2*PI*(200+900*t)*t)+0.1*sin(2*PI*3100*t)"
_CODECS = {
    "wav": (), "flac": (), "mp3": ("-c:a", "libmp3lame"), "ogg": ("-c:a", "libvorbis"), "opus": ("-c:a", "libopus"),
    "m4a": ("-c:a", "aac"), "mkv": ("-c:a", "flac"),
}  # fmt: skip


def _sound(kind: str = "wav", rate: int = 44100, duration: float = 3.0, expression: str = _SWEEP) -> Path:
    return clip(f"sweep.{kind}", *tones(rate, duration, expression), *_CODECS[kind])


def _loaded(path: Path | bytes, *args: Any, **options: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_audio(path, *args, **options))


def _expected(path: Path, rate: int, channels: int = 1) -> NDArray[np.float32]:
    """The whole file, resampled by the ffmpeg tool: ``(channels, samples)``."""
    return decoded_audio(path, channels, "-ar", str(rate), "-ac", str(channels)).T


@pytest.mark.parametrize(("start", "end"), [(0.0, 0.2), (1.0, 1.2), (0.3, 0.5), (1.23456, 1.43456), (2.8, 3.0)])
@pytest.mark.parametrize("rate", [16000, 8000, 22050, 44100, 48000])
@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_a_window_is_that_of_the_whole_file_resampled(kind: str, rate: int, start: float, end: float) -> None:
    """Every sample of the window, at its edges too, is that of resampling everything; there are exactly as many."""
    whole = _expected(_sound(kind), rate)
    part = _loaded(_sound(kind), (start, end), sample_rate=rate)
    times = np.arange(whole.shape[1]) / rate
    expected = whole[:, (start <= times) & (times < end)]
    assert part.shape == expected.shape
    # The tool dithers nothing; what differs is where its resampler rounds.
    assert np.abs(part - expected).max() < 2e-5


@pytest.mark.parametrize("kind", sorted(_CODECS))
def test_windows_of_all_codecs_are_those_of_the_whole(kind: str) -> None:
    """Seeking and decoding from there gives the samples of resampling all that ``load_audio`` gives."""
    path = _sound(kind)
    whole = _loaded(path, sample_rate=16000)
    for start in (0.0, 0.7, 2.0):
        part = _loaded(path, (start, start + 0.2), sample_rate=16000, num_samples=3200)
        begin = round(start * 16000)
        expected = whole[:, begin : begin + 3200]
        assert part.shape == (1, 3200)
        tolerance = 2e-3 if kind == "opus" else 2e-5  # Opus converges, and is never bit-exact after a seek
        assert np.abs(part - expected).max() < tolerance


@pytest.mark.parametrize("rate", [16000, 11025, 44101, 7999])
def test_adjacent_windows_add_up_to_the_whole(rate: int) -> None:
    """No sample is lost or counted twice, whatever the rates and edges are."""
    path = _sound(duration=1.0)
    edges = [0.0, 0.1, 1 / 3, 0.5, 0.777, 1.0]
    parts = [_loaded(path, (a, b), sample_rate=rate) for a, b in itertools.pairwise(edges)]
    assert [part.shape[1] for part in parts] == [
        math.ceil(b * rate) - math.ceil(a * rate) for a, b in itertools.pairwise(edges)
    ]
    joined = np.concatenate(parts, axis=1)
    assert np.abs(joined - _loaded(path, sample_rate=rate)[:, : joined.shape[1]]).max() < 2e-5


def test_the_number_of_samples_is_exact() -> None:
    """0.2 s at 16 kHz are 3200 samples, wherever the window begins."""
    for start in np.linspace(0, 2.7, 25):
        assert _loaded(_sound(), (start, start + 0.2), sample_rate=16000, num_samples=3200).shape == (1, 3200)


def test_what_lies_outside_the_stream_is_silent_if_samples_are_counted() -> None:
    """Before the first sample and behind the last one there is silence, and every sample is at its time."""
    path = _sound(duration=1.0)
    whole = _loaded(path, sample_rate=16000)
    late = _loaded(path, (0.9, 1.1), sample_rate=16000, num_samples=3200)
    assert np.abs(late[:, :1600] - whole[:, 14400:]).max() < 2e-5
    assert (late[:, 1600:] == 0).all()
    early = _loaded(path, (-0.1, 0.1), sample_rate=16000, num_samples=3200)
    assert (early[:, :1600] == 0).all()
    assert np.abs(early[:, 1600:] - whole[:, :1600]).max() < 2e-5
    assert _loaded(path, (0.9, 1.1), sample_rate=16000).shape == (1, 1600)
    assert _loaded(path, (0.0, 0.1), sample_rate=16000, num_samples=800).shape == (1, 800)
    assert _loaded(path, sample_rate=16000, num_samples=20000).shape == (1, 20000)


@pytest.mark.parametrize(("dtype", "one"), [("float32", 1.0), ("float64", 1.0), ("int16", 2.0**15), ("int32", 2.0**31)])
@pytest.mark.parametrize("num_channels", [2, 3, 6, 8])
def test_one_channel_is_the_mean_of_all(num_channels: int, dtype: Any, one: float) -> None:
    """For every dtype and number of channels, by one file and in a batch; and it is as loud as they are."""
    voices = "|".join(f"0.95*sin(2*PI*{200 + 90 * i}*t)" for i in range(num_channels))
    path = _sound(expression=voices, duration=0.5)
    expected = _loaded(path, dtype="float64").mean(axis=0)
    one_channel = _loaded(path, num_channels=1, dtype=dtype)
    assert np.abs(one_channel[0] / one - expected).max() <= 3.1 / 2**15  # gains for integers are in fixed point
    batch = spdl.io.load_audio_batch([path], num_samples=len(expected), sample_rate=44100, start=0.0, dtype=dtype)
    assert np.array_equal(spdl.io.to_numpy(batch)[0], one_channel)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("num_channels", [2, 6, 9])
def test_channels_of_one_are_copies(num_channels: int, dtype: Any) -> None:
    """One channel becomes several without a change of its level."""
    path = _sound(duration=0.5)
    alone = _loaded(path, dtype=dtype)
    copies = _loaded(path, num_channels=num_channels, dtype=dtype)
    assert np.array_equal(copies, np.repeat(alone, num_channels, axis=0))


def test_other_numbers_of_channels_are_mixed_alike_for_all_dtypes() -> None:
    """Six channels to two, as FFmpeg mixes integers: no sum exceeds full scale."""
    path = _sound(expression="|".join(["0.95*sin(2*PI*300*t)"] * 6), duration=0.5)
    floats = _loaded(path, num_channels=2)
    assert np.abs(floats).max() <= 1
    assert np.abs(_loaded(path, num_channels=2, dtype="int16") / 2**15 - floats).max() <= 3 / 2**15


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32"])
def test_a_resampler_that_is_used_again_has_forgotten_what_it_was_given(dtype: Any) -> None:
    """A thread that has loaded other sounds gives the bits that a new thread gives."""
    path = _sound(duration=1.0)
    loud = _sound(expression="random(0)|random(1)", duration=1.0)

    def part(path: Path = path, rate: int = 16000) -> NDArray[Any]:
        return _loaded(path, (0.1, 0.5), sample_rate=rate, num_channels=1, dtype=dtype)

    with ThreadPoolExecutor(1) as executor:
        expected = executor.submit(part).result()
    for rate in (16000, 8000, 22050, 48000, 11025, 16000):  # more than are kept
        part(loud, rate)
        part(rate=rate)
        assert np.array_equal(part(), expected)


@pytest.mark.parametrize(
    ("dtype", "one", "tolerance"), [("float64", 1.0, 1e-4), ("int16", 2.0**15, 6), ("int32", 2.0**31, 2.0**17)]
)
def test_elements_are_of_the_dtype(dtype: Any, one: float, tolerance: float) -> None:
    """Integers use their whole range. Those of 16 bits are resampled with 16 bits."""
    path = _sound(duration=1.0)
    array = _loaded(path, (0.1, 0.5), sample_rate=16000, dtype=dtype)
    assert array.dtype == dtype
    assert np.abs(array - _loaded(path, (0.1, 0.5), sample_rate=16000) * one).max() <= tolerance


def test_int16_of_16_bits_is_exact() -> None:
    """Without resampling, the samples are those of the file."""
    path = _sound(duration=1.0)
    wav = np.asarray(spdl.io.load_wav(path.read_bytes(), 0.25, 0.5))
    assert np.array_equal(_loaded(path, (0.25, 0.75), dtype="int16"), wav.T)


@pytest.mark.parametrize("start", [0.0, 0.1, 1 / 3, 0.25 + 1e-9, 0.99999])
def test_load_wav_has_the_same_edges(start: float) -> None:
    """One rule for both: ``start <= time < end``."""
    path = _sound(duration=1.5)
    wav = np.asarray(spdl.io.load_wav(path.read_bytes(), start, 0.2))
    end = float(Fraction(start).limit_denominator(10**9) + Fraction("0.2"))  # the sum of floats may lie above it
    part = _loaded(path, (start, end), dtype="int16")
    times = np.arange(round(1.5 * 44100)) / 44100
    assert part.shape[1] == ((start <= times) & (times < end)).sum()
    assert np.array_equal(part, wav.T)


def test_a_stream_is_chosen() -> None:
    """``stream`` names it, with a rate and without."""
    path = clip(
        "two.mkv", *tones(8000, 1), *tones(16000, 1, "sin(220*2*PI*t)|0"), "-map", "0", "-map", "1", "-c:a", "flac"
    )
    assert _loaded(path, stream=1).shape == (2, 16000)
    assert _loaded(path, stream=1, sample_rate=8000).shape == (2, 8000)
    with pytest.raises(spdl.io.StreamNotFoundError):
        _loaded(path, stream=2, sample_rate=8000)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sample_rate": 0}, ValueError),
        ({"sample_rate": -16000}, ValueError),
        ({"sample_rate": 10**9}, ValueError),
        ({"sample_rate": 16000.0}, TypeError),
        ({"sample_rate": True}, TypeError),
        ({"num_channels": 0}, ValueError),
        ({"num_channels": 65}, ValueError),
        ({"num_samples": -1}, ValueError),
        ({"num_samples": 2**63}, ValueError),
        ({"num_samples": float("nan")}, TypeError),
        ({"dtype": "float16"}, ValueError),
        ({"dtype": 4}, TypeError),
        ({"sample_rate": 16000, "filter_desc": "anull"}, ValueError),
        ({"sample_rate": 16000, "timestamp": (0, float("nan"))}, ValueError),
        ({"sample_rate": 16000, "timestamp": (float("-inf"), 1)}, OverflowError),
        ({"sample_rate": 16000, "timestamp": (0, float("-inf"))}, OverflowError),
        ({"origin": "container"}, ValueError),
        ({"origin": 0}, TypeError),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    """Numbers out of range and of other types raise before anything is opened."""
    with pytest.raises(error):
        spdl.io.load_audio("missing.wav", **options)


@pytest.mark.parametrize("window", [(5, 6), (0.5, 0.5), (0.6, 0.5), (-2, -1), (1e300, 1.1e300), (-1e300, -1e299)])
def test_a_window_without_samples_says_where_the_stream_is(window: tuple[float, float]) -> None:
    """Such a window raises ConvertError, also if samples are counted."""
    options: dict[str, Any]
    for options in ({}, {"num_samples": 100}):
        with pytest.raises(spdl.io.ConvertError, match=r"no samples in .* goes from 0 to 1"):
            _loaded(_sound(duration=1.0), window, sample_rate=16000, **options)


def test_samples_that_do_not_fit_into_memory_raise() -> None:
    """A hostile number of samples is a MemoryError, and no crash."""
    with pytest.raises(MemoryError):
        spdl.io.load_audio(_sound(duration=1.0), (0, 1), num_samples=2**48)


def test_a_packet_with_another_time_stays_where_everything_has_it() -> None:
    """Time stamps that go back make no gap: a window is what everything has there."""
    path = clip("a.mkv", *tones(expression=_SWEEP), "-c:a", "pcm_s16le")
    plain = _loaded(path, dtype="int16")[0]
    data = bytearray(path.read_bytes())
    # Before its samples, a block has its time: milliseconds from the start of the cluster (RFC 9559, 10).
    samples, size = plain[4096:4104].tobytes(), 1024
    at = data.find(samples)
    assert data[at - 4] == 0x81
    assert data[at - 3 : at - 1] == (512).to_bytes(2, "big")
    data[at - 3 : at - 1] = (128).to_bytes(2, "big")
    assert np.array_equal(_loaded(bytes(data), dtype="int16")[0], plain)
    for start in (0, 4096, 4096 + size, 8000):
        window = (Fraction(start, 8000), Fraction(start + size, 8000))
        assert np.array_equal(_loaded(bytes(data), window, dtype="int16")[0], plain[start : start + size]), start


def test_damage_raises_or_is_passed_over() -> None:
    """As everywhere: an error by default, and what can be decoded on request."""
    data = bytearray(_sound("flac").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    with pytest.raises(spdl.io.MediaError):
        spdl.io.load_audio(bytes(data), sample_rate=16000)
    config = spdl.io.decode_config(tolerate_errors=True)
    array = spdl.io.to_numpy(spdl.io.load_audio(bytes(data), (0, 3), sample_rate=16000, decode_config=config))
    assert 16000 < array.shape[1] <= 48000
