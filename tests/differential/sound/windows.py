"""Law: a window of sound is the slice of the whole, at the file's rate and at any other."""

import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.judges.ffmpeg_sound import NEWEST, SYSTEM, make
from tests.differential.sound.files import FORMS, Sound, make_sound

_RESAMPLED = 4e-5
_RATES = (8000, 11025, 16000, 22050, 44100, 48000, 44101)
_load: Any = spdl.io.load_audio
_Window = tuple[Any, Any]


def _loaded(path: Path, *args: Any, **options: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(_load(path, *args, **options))


def _bound(random: random.Random, seconds: float, rate: int) -> Any:
    """A time: any, that of a sample, or such as people write."""
    match random.randrange(5):
        case 0:
            return Fraction(random.randrange(max(round(seconds * rate), 1)), rate)
        case 1:
            return random.randrange(max(round(seconds * rate), 1)) / rate
        case 2:
            return round(random.uniform(0, seconds), 2)
        case 3:
            return Fraction(random.randrange(round(seconds * 7) + 1), 7)
        case _:
            return random.uniform(0, seconds)


def _window(random: random.Random, seconds: float, rate: int) -> _Window:
    start = _bound(random, seconds, rate)
    match random.randrange(5):
        case 0:
            return start, start + type(start)(random.randrange(1, 500)) / rate  # inside one packet
        case 1:
            return start, start + random.choice([0.01, 0.1, 9])
        case 2:
            return start, math.inf
        case 3:
            return 0, start
        case _:
            end = _bound(random, seconds, rate)
            return min(start, end), max(start, end)


def _place(seconds: Any, rate: int, length: int) -> int:
    """The first sample whose time is not before that: for floats, the float nearest to its time."""
    if seconds == math.inf:
        return length
    if isinstance(seconds, Fraction):
        return min(math.ceil(seconds * rate), length)
    return int(np.searchsorted(np.arange(length) / rate, seconds))


def check_windows(
    draw: Draw, path: Path, rate: int, tolerance: float, count: int = 8, first: _Window | None = None
) -> None:
    """Windows of a file are slices of all of it: ``first``, and others."""
    whole = _loaded(path)
    draw.note(f"{path.name}: {whole.shape} samples at {rate} Hz")
    other = draw.random.choice([each for each in _RATES if each != rate])
    wholes: dict[str, tuple[int, NDArray[Any], dict[str, Any], float]] = {
        "float32": (rate, whole, {}, tolerance),
        "native": (rate, whole, {"dtype": "float32"}, tolerance),
        f"{other} Hz": (other, _loaded(path, sample_rate=other), {"sample_rate": other}, tolerance + _RESAMPLED),
    }
    assert np.array_equal(whole, _loaded(path, dtype="float32"))
    for number in range(count):
        window = first if first and number == 0 else _window(draw.random, whole.shape[1] / rate, rate)
        for name, (at, everything, options, most) in wholes.items():
            length = everything.shape[1]
            expected = everything[:, slice(*(_place(bound, at, length) for bound in window))]
            draw.note(f"{name}: window {window}: {expected.shape[1]} samples")
            if expected.shape[1] == 0:
                try:
                    _loaded(path, window, **options)
                except spdl.io.ConvertError:
                    continue
                raise AssertionError("a window without samples has some")
            given = _loaded(path, window, **options)
            assert given.shape == expected.shape
            difference = float(np.abs(given - expected).max())
            assert difference <= most, f"samples differ by {difference}"
            draw.recipe.pop()


@law("sound", "window", FORMS)
def a_window_is_a_slice(draw: Draw, form: str) -> None:
    """For a file as the tool writes it."""
    sound = make_sound(draw, form)
    check_windows(draw, sound.path, sound.rate, sound.form.tolerance)


@law("sound", "window, newest writer", [name for name in FORMS if name.startswith(("m", "webm"))], NEWEST)
def a_window_is_a_slice_of_what_the_newest_tool_wrote(draw: Draw, form: str) -> None:
    """It states the delay of more codecs in more containers."""
    sound = make_sound(draw, form, newest=True)
    check_windows(draw, sound.path, sound.rate, sound.form.tolerance)


#: Of the difference, as multiples of the RMS of noise in the sound: see the guide.
_DITHER_PEAK, _DITHER_RMS = 3.5, 0.8


@law("sound", "window, noisy", ["mp4/ac3", "mkv/ac3", "ts/ac3", "ac3/ac3"])
def a_window_of_noise_is_a_slice_but_for_noise(draw: Draw, form: str) -> None:
    """Decoders of AC-3 replace what was quantised to nothing by noise that differs after a seek."""
    noise = draw.random.choice([0.02, 0.05, 0.1])
    sound = make_sound(draw, form, seconds=(0.8, 1.6), noise=noise)
    whole = _loaded(sound.path)
    for _ in range(3):
        start = draw.random.randrange(whole.shape[1] * 3 // 4)
        end = draw.random.randrange(start + 4096, whole.shape[1] + 1)
        given = _loaded(sound.path, (Fraction(start, sound.rate), Fraction(end, sound.rate)))
        expected = whole[:, start:end]
        assert given.shape == expected.shape
        difference = (given - expected).astype(np.float64)
        peak, rms = np.abs(difference).max() / noise, np.sqrt(np.square(difference).mean()) / noise
        draw.note(f"{start} to {end}: noise {noise}, peak {peak:.2f} times, rms {rms:.2f} times")
        assert peak <= _DITHER_PEAK
        assert rms <= _DITHER_RMS
        # Not one sample earlier or later.
        errors = [np.square(np.roll(given, by, axis=1)[:, 8:-8] - expected[:, 8:-8]).mean() for by in (0, -1, 1, -2, 2)]
        assert min(errors) == errors[0], errors


#: Where a stream may be cut at any packet and copied to.
_COPIED = [
    name for name in FORMS if name.split("/")[0] in ("m4a", "mov", "mp4", "mkv", "webm", "ts", "flv", "mp3", "aac")
]


def _cut(draw: Draw, sound: Sound, tool: str = SYSTEM) -> Path:
    seconds = sound.samples.shape[1] / sound.rate
    start = draw.random.uniform(0, seconds / 2)
    path = draw.folder / f"cut{sound.form.suffix}"
    where = ("-ss", f"{start:.3f}", "-t", f"{draw.random.uniform(seconds / 4, seconds):.3f}")
    options = [each for each in sound.form.arguments if each.startswith(("-movflags", "+frag"))]
    source = ("-i", sound.path)
    order = (*where, *source) if draw.random.random() < 0.5 else (*source, *where)
    offset = ("-output_ts_offset", f"{draw.random.uniform(0, 3):.3f}") if draw.random.random() < 0.3 else ()
    make(draw, *order, "-c", "copy", "-strict", "-2", *options, *offset, path, tool=tool)
    return path


@law("sound", "window, cut", _COPIED)
def a_window_of_a_cut_is_a_slice(draw: Draw, form: str) -> None:
    """Cut without decoding, from a place inside a packet on, and some of them moved to a later time."""
    sound = make_sound(draw, form, seconds=(0.8, 1.6))
    check_windows(draw, _cut(draw, sound), sound.rate, sound.form.tolerance)


@law("sound", "window, among others", [name for name in FORMS if name.split("/")[0] in ("mp4", "mkv", "ts", "mov")])
def a_window_beside_other_streams_is_a_slice(draw: Draw, form: str) -> None:
    """With pictures, a second sound and a late start; read by index, and from a file that is in memory."""
    sound = make_sound(draw, form, seconds=(0.6, 1.2))
    path = draw.folder / f"film{sound.form.suffix}"
    late = f"{draw.random.uniform(0, 0.4):.3f}"
    codec = "mpeg2video" if sound.form.suffix == ".ts" else "mpeg4"
    picture = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=1.2")
    fragmented = [each for each in sound.form.arguments if each.startswith(("-movflags", "+frag"))]
    make(draw, *picture, "-itsoffset", late, "-i", sound.path, "-map", 0, "-map", "1:a", "-c:a", "copy",
         "-strict", "-2", "-c:v", codec, *fragmented, path)  # fmt: skip
    check_windows(draw, path, sound.rate, sound.form.tolerance, 5)


@law(
    "sound", "window, joined", ["m4a/aac", "mkv/aac", "ts/aac", "flv/aac", "mkv/mp3", "mkv/pcm", "mp4/mp3", "m4a/alac"]
)
def a_window_of_joined_files_is_a_slice(draw: Draw, form: str) -> None:
    """Joined without decoding, so that time stamps have small gaps and overlaps."""
    sound = make_sound(draw, form, seconds=(0.5, 0.9))
    names = draw.folder / "names.txt"
    names.write_text(f"file '{sound.path}'\n" * draw.random.randrange(2, 5))
    path = draw.folder / f"joined{sound.form.suffix}"
    make(draw, "-f", "concat", "-safe", 0, "-i", names, "-c", "copy", path)
    check_windows(draw, path, sound.rate, sound.form.tolerance)
