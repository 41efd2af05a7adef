"""Makes files of sound: container x codec x rate x channels x length."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.differential.cells import Draw
from tests.differential.judges.ffmpeg_sound import NEWEST, SYSTEM, make

__all__ = ["FORMS", "Form", "Sound", "make_sound", "signal"]


@dataclass(frozen=True, slots=True)
class Form:
    """A container with a codec.

    Attributes:
        suffix: Of the file's name.
        arguments: For the encoder and the muxer.
        rates: Sample rates that the codec has.
        channels: Numbers of channels.
        tells: Whether the container says how much delay and padding there is.
        tolerance: How far samples of a window may be from those of the whole, for decoders that keep a rounding error
            or converge after a seek.
        noise: Amplitude of the noise in the sound. Decoders of AC-3 replace what was quantised to nothing by noise of
            their own, which differs after a seek.
        is_lossless: Whether decoding gives what was encoded, as 16 bits.
        frames: Samples in a packet, or 1.
    """

    suffix: str
    arguments: tuple[str, ...]
    rates: tuple[int, ...] = (44100, 48000, 32000, 16000)
    channels: tuple[int, ...] = (1, 2)
    tells: bool = False
    tolerance: float = 0.0
    noise: float = 0.05
    is_lossless: bool = False


_AAC = ("-c:a", "aac", "-b:a", "96k", "-aac_pns", "0")
_FRAGMENTS = ("-movflags", "+frag_keyframe+delay_moov", "-frag_duration", "250000")
_EMPTY = ("-movflags", "+frag_keyframe+empty_moov+default_base_moof", "-frag_duration", "250000")
_PAGES = ("-page_duration", "100000")  # microseconds: several in a short sound
_MP3 = ("-c:a", "libmp3lame", "-b:a", "96k")
_AC3 = ("-c:a", "ac3", "-b:a", "192k")
_AC3_RATES = (44100, 48000, 32000)
_AAC_RATES = (44100, 48000, 32000, 22050, 16000, 8000, 96000)
_LOSSLESS: dict[str, Any] = {"rates": (44100, 48000, 8000, 11127, 22050, 96000), "tells": True, "is_lossless": True}
_CONVERGES = 4e-3  # Opus: see the guide
_ROUNDS = 2e-4  # MP2: its decoder keeps the error of its rounding
_DITHERS = 2e-2

FORMS: dict[str, Form] = {
    "m4a/aac": Form(".m4a", _AAC, _AAC_RATES, tells=True),
    "mov/aac": Form(".mov", _AAC, _AAC_RATES, tells=True),
    "mp4/aac 5.1": Form(".mp4", (*_AAC[:3], "300k", *_AAC[4:]), (48000,), (6,), tells=True),
    "mp4/mp3": Form(".mp4", _MP3, (44100, 48000, 32000), tells=True),
    "mp4/ac3": Form(".mp4", _AC3, _AC3_RATES, tolerance=_DITHERS, noise=0.0),
    "mp4/opus": Form(".mp4", ("-c:a", "libopus"), (48000,), tells=True, tolerance=_CONVERGES),
    "m4a/alac": Form(".m4a", ("-c:a", "alac"), **_LOSSLESS),
    "mov/pcm": Form(".mov", ("-c:a", "pcm_s16be"), **_LOSSLESS),
    "mp4/flac": Form(".mp4", ("-c:a", "flac", "-strict", "-2"), **_LOSSLESS),
    "mp4 fragmented/aac": Form(".mp4", (*_AAC, *_FRAGMENTS), _AAC_RATES, tells=True),
    "mp4 fragmented/opus": Form(
        ".mp4", ("-c:a", "libopus", *_FRAGMENTS), (48000,), tells=True, tolerance=_CONVERGES
    ),
    "mp4 fragmented/flac": Form(".mp4", ("-c:a", "flac", "-strict", "-2", *_FRAGMENTS), **_LOSSLESS),
    "mp4 empty header/aac": Form(".mp4", (*_AAC, *_EMPTY), _AAC_RATES),
    "mkv/aac": Form(".mkv", _AAC, _AAC_RATES),
    "mkv/mp3": Form(".mkv", _MP3, (44100, 48000, 22050)),
    "mkv/ac3": Form(".mkv", _AC3, _AC3_RATES, tolerance=_DITHERS, noise=0.0),
    "mkv/mp2": Form(".mkv", ("-c:a", "mp2"), (44100, 48000, 32000), tolerance=_ROUNDS),
    "mkv/flac": Form(".mkv", ("-c:a", "flac"), **_LOSSLESS),
    "mkv/alac": Form(".mkv", ("-c:a", "alac"), **_LOSSLESS),
    "mkv/pcm": Form(".mkv", ("-c:a", "pcm_s16le"), **_LOSSLESS),
    "mkv/opus": Form(".mkv", ("-c:a", "libopus"), (48000,), tells=True, tolerance=_CONVERGES),
    "mkv/vorbis": Form(".mkv", ("-c:a", "libvorbis"), (44100, 48000, 22050, 96000)),
    "mkv/wma": Form(".mkv", ("-c:a", "wmav2"), (44100, 48000)),
    "webm/opus": Form(".webm", ("-c:a", "libopus"), (48000,), tells=True, tolerance=_CONVERGES),
    "webm/vorbis": Form(".webm", ("-c:a", "libvorbis"), (44100, 48000)),
    "ts/aac": Form(".ts", _AAC, (44100, 48000, 32000, 22050)),
    "ts/mp3": Form(".ts", _MP3, (44100, 48000, 32000)),
    "ts/ac3": Form(".ts", _AC3, _AC3_RATES, tolerance=_DITHERS, noise=0.0),
    "flv/aac": Form(".flv", _AAC, (44100, 48000, 22050)),
    "flv/mp3": Form(".flv", _MP3, (44100, 22050)),
    "flv/pcm": Form(".flv", ("-c:a", "pcm_s16le"), (44100, 22050), tells=True, is_lossless=True),
    "avi/aac": Form(".avi", _AAC, (44100, 48000)),
    "avi/mp3": Form(".avi", _MP3, (44100, 48000, 22050)),
    "avi/pcm": Form(".avi", ("-c:a", "pcm_s16le"), **_LOSSLESS),
    "mpg/mp2": Form(".mpg", ("-c:a", "mp2"), (44100, 48000), tolerance=_ROUNDS),
    "aac/aac": Form(".aac", _AAC, _AAC_RATES),
    "ac3/ac3": Form(".ac3", _AC3, _AC3_RATES, tolerance=_DITHERS, noise=0.0),
    "mp3/mp3": Form(".mp3", _MP3, (44100, 48000, 32000, 22050, 16000), tells=True),
    "mp3/vbr": Form(".mp3", ("-c:a", "libmp3lame", "-q:a", "5"), (44100, 48000, 22050), tells=True),
    "mp3/bare": Form(".mp3", (*_MP3, "-write_xing", "0", "-id3v2_version", "0"), (44100, 48000)),
    "aiff/pcm": Form(".aiff", (), **_LOSSLESS),
    "au/pcm": Form(".au", ("-c:a", "pcm_s16be"), **_LOSSLESS),
    "caf/pcm": Form(".caf", ("-c:a", "pcm_s16le"), **_LOSSLESS),
    "caf/alac": Form(".caf", ("-c:a", "alac"), **_LOSSLESS),
    "w64/pcm": Form(".w64", ("-c:a", "pcm_s16le"), **_LOSSLESS),
    "nut/pcm": Form(".nut", ("-c:a", "pcm_s16le"), **_LOSSLESS),
    "wav/pcm": Form(".wav", ("-c:a", "pcm_s16le"), **_LOSSLESS),
    "flac/flac": Form(".flac", (), **_LOSSLESS),
    "ogg/flac": Form(".ogg", ("-c:a", "flac", *_PAGES), **_LOSSLESS),
    "ogg/vorbis": Form(".ogg", ("-c:a", "libvorbis", *_PAGES), (44100, 48000, 22050), tells=True),
    "ogg/opus": Form(".ogg", ("-c:a", "libopus", *_PAGES), (48000,), tells=True, tolerance=_CONVERGES),
    "wav/adpcm": Form(".wav", ("-c:a", "adpcm_ima_wav"), (44100, 22050, 8000)),
    "wma/wma": Form(".wma", ("-c:a", "wmav2"), (44100, 48000, 22050)),
    "tta/tta": Form(".tta", ("-c:a", "tta"), **_LOSSLESS),
    "wv/wavpack": Form(".wv", ("-c:a", "wavpack"), **_LOSSLESS),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sound:
    """A file that was made, and what was encoded."""

    path: Path
    form: Form
    rate: int
    samples: NDArray[np.int16] = field(repr=False)  # (channels, samples)

    @property
    def num_channels(self) -> int:
        return int(self.samples.shape[0])


def signal(draw: Draw, num_channels: int, num_samples: int, rate: int, noise: float = 0.05) -> NDArray[np.int16]:
    """Tones that slide, differently in each channel, and a little noise, so that no two places are alike."""
    generator = np.random.default_rng(draw.random.getrandbits(32))
    times = np.arange(num_samples) / rate
    rows = []
    for _ in range(num_channels):
        first, slope = draw.random.uniform(100, 900), draw.random.uniform(200, 1500)
        row = 0.3 * np.sin(2 * np.pi * (first + slope * times) * times)
        rows.append(row + noise * generator.standard_normal(num_samples))
    return np.clip(np.round(np.asarray(rows) * 32768), -32768, 32767).astype(np.int16)


def make_sound(
    draw: Draw,
    name: str,
    *,
    newest: bool = False,
    seconds: tuple[float, float] = (0.15, 1.2),
    noise: float | None = None,
) -> Sound:
    """A plain file of that form.

    Args:
        draw: Where choices come from.
        name: The form.
        newest: Whether the newest ffmpeg tool writes it, which is that of an extra.
        seconds: Between which lengths the sound is.
        noise: Amplitude of the noise in it, instead of that of the form.
    """
    form = FORMS[name]
    rate, num_channels = draw.random.choice(form.rates), draw.random.choice(form.channels)
    num_samples = math.ceil(Fraction(draw.random.uniform(*seconds)) * rate)
    samples = signal(draw, num_channels, num_samples, rate, form.noise if noise is None else noise)
    path = draw.folder / f"plain{form.suffix}"
    draw.note(f"{num_samples} samples, {rate} Hz, {num_channels} channels")
    raw = ("-f", "s16le", "-ar", rate, "-ac", num_channels, "-i", "-")
    make(draw, *raw, *form.arguments, path, tool=NEWEST if newest else SYSTEM, stdin=samples.T.tobytes())
    return Sound(path, form, rate, samples)
