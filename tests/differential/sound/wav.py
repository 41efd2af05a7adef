"""WAV of every kind, judged by arithmetic, soundfile, SciPy and the standard library.

Files are written by hand: RIFF, RIFX, RF64 and BW64; plain and WAVE_FORMAT_EXTENSIBLE; all widths, and fewer valid
bits; chunks of odd sizes around the samples; sizes that were never filled in.
"""

import io
import math
import struct
import warnings
import wave
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, law
from tests.differential.judges.ffmpeg_sound import decoded_sound, make
from tests.differential.judges.sound_file import SOUNDFILE, sound_of_bytes
from tests.differential.sound.files import signal
from tests.support.wav import chunk, packed, wav

#: Code of the format, bits, and the dtype of ``load_wav``; none where it refuses.
_CODINGS: Final[dict[str, tuple[int, int, str | None]]] = {
    "u8": (1, 8, "u1"),
    "s16": (1, 16, "i2"),
    "s24": (1, 24, "i4"),
    "s32": (1, 32, "i4"),
    "f32": (3, 32, "f4"),
    "f64": (3, 64, "f8"),
    "A-law": (6, 8, None),
    "mu-law": (7, 8, None),
}
_FORMS = [f"wav/{name}" for name in _CODINGS]
_KINDS = ("RIFF", "RIFX", "RF64", "BW64")
_UNKNOWN = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    kind: str  # the first four bytes
    is_extensible: bool
    rate: int
    stored: NDArray[Any]  # (samples, channels), as `load_wav` has them
    samples: NDArray[np.float64]  # the same, full scale 1
    dtype: str | None


def _samples(draw: Draw, coding: str, valid: int, num_samples: int, channels: int) -> tuple[bytes, Any, Any]:
    """Bytes in little-endian order, what ``load_wav`` gives, and full scale 1."""
    code, bits, _ = _CODINGS[coding]
    generator = np.random.default_rng(draw.random.getrandbits(32))
    shape = (num_samples, channels)
    if code == 3:
        floats = generator.uniform(-1, 1, shape).astype(f"<f{bits // 8}")
        return floats.tobytes(), floats, floats.astype(np.float64)
    if code in (6, 7):
        codes = generator.integers(0, 256, shape)
        values = (_a_law if code == 6 else _mu_law)(codes)
        return codes.astype(np.uint8).tobytes(), values, values / 2.0**15
    if bits == 8:
        levels = generator.integers(0, 256, shape).astype(np.uint8)
        return levels.tobytes(), levels, (levels - 128.0) / 128
    numbers = generator.integers(-(2 ** (valid - 1)), 2 ** (valid - 1), shape) << (bits - valid)
    stored = (numbers << 8 if bits == 24 else numbers).astype("i2" if bits == 16 else "i4")
    return packed(numbers.reshape(-1), bits // 8, "<"), stored, numbers / 2.0 ** (bits - 1)


def _mu_law(codes: NDArray[Any]) -> NDArray[Any]:
    """ITU-T G.711."""
    flipped = ~codes & 0xFF
    size = (((flipped & 15) << 3) + 0x84 << ((flipped >> 4) & 7)) - 0x84
    return np.where(flipped & 0x80, -size, size)


def _a_law(codes: NDArray[Any]) -> NDArray[Any]:
    """ITU-T G.711."""
    flipped = codes ^ 0x55
    exponent = (flipped >> 4) & 7
    size = ((flipped & 15) << 4) + 8
    size = np.where(exponent > 0, (size + 0x100) << np.maximum(exponent - 1, 0), size)
    return np.where(flipped & 0x80, size, -size)


#: Chunks that readers look into, and may take offence at.
_KNOWN = (b"bext", b"iXML", b"PEAK", b"fact", b"cue ", b"smpl")


def _chunks(draw: Draw, order: str, is_plain: bool) -> bytes:
    names = [b"JUNK", b"PAD ", b"xtra", b"LIST", *(() if is_plain else _KNOWN)]
    made = b""
    for name in draw.random.sample(names, draw.random.randrange(3)):
        size = draw.random.choice([0, 1, 3, 15, 16, 64, 1001, 4097])
        content = b"INFO" if name == b"LIST" else bytes(draw.random.randrange(256) for _ in range(size))
        made += chunk(name, content, order)
    return made


def _file(draw: Draw, form: str, kinds: tuple[str, ...] = _KINDS, is_stated: bool = False) -> _File:
    """One of those kinds; ``is_stated``: with all sizes."""
    coding = form.split("/")[1]
    code, bits, dtype = _CODINGS[coding]
    kind = draw.random.choice(kinds)
    order = ">" if kind == "RIFX" else "<"
    channels, rate = draw.random.randrange(1, 9), draw.random.choice([8000, 11025, 44100, 48000, 96000, 12345])
    is_extensible = draw.random.random() < 0.5
    is_integer = code == 1 and bits > 8
    valid = draw.random.choice([bits, bits, bits - 4, bits - 8]) if is_extensible and is_integer else bits
    num_samples = draw.random.choice([1, 2, 1023, draw.random.randrange(1, 9000)])
    data, stored, samples = _samples(draw, coding, max(valid, 8), num_samples, channels)
    if order == ">":
        width = bits // 8
        data = np.frombuffer(data, np.uint8).reshape(-1, width)[:, ::-1].tobytes()
    before, behind = _chunks(draw, order, is_stated), _chunks(draw, order, is_stated)
    sizes: dict[str, int | None] = {"data_size": None, "riff_size": None}
    stated = "right" if is_stated else draw.random.choice(["right", "right", "zero", "all ones"])
    if kind in ("RF64", "BW64"):
        long = {"right": len(data), "zero": 0, "all ones": 2**64 - 1}[stated]
        # Other readers want the format right behind it.
        before = chunk(b"ds64", struct.pack("<QQQI", 0, long, num_samples, 0)) + (b"" if is_stated else before)
        sizes = {"data_size": _UNKNOWN, "riff_size": _UNKNOWN}
    elif stated != "right":
        sizes = dict.fromkeys(sizes, 0 if stated == "zero" else _UNKNOWN)
    if stated != "right":
        behind = b""  # it would be taken for samples
    draw.note(f"{kind} {coding}, {valid} of {bits} bits, {channels} channels, {rate} Hz, {num_samples} samples")
    draw.note(f"extensible: {is_extensible}, sizes: {stated}, {len(before)} bytes before, {len(behind)} behind")
    made = wav(data, channels=channels, bits=bits, code=code, rate=rate, order=order, riff=kind.encode(), before=before,
               behind=behind, valid=max(valid, 8) if is_extensible else None,
               mask=(1 << channels) - 1 if draw.random.random() < 0.5 else 0, **sizes)  # fmt: skip
    if stated != "right" and len(data) % 2:
        made = made[: len(made) - 1]  # a writer that never came to the end wrote no padding either
    return _File(made, kind, is_extensible, rate, stored, samples, dtype)


def _loaded(source: Any, *args: Any, **options: Any) -> NDArray[Any]:
    load: Any = spdl.io.load_audio
    return spdl.io.to_numpy(load(source, *args, **options)).T


def _expect(file: _File, source: Any, first: int, end: int) -> None:
    """All entry points give those samples."""
    expected = file.samples[first:end]
    window = (Fraction(first, file.rate), Fraction(end, file.rate) if end < len(file.samples) else math.inf)
    part = () if (first, end) == (0, len(file.samples)) else (window,)
    assert np.array_equal(_loaded(source, *part, dtype="float64"), expected)
    default = _loaded(source, *part)
    assert default.shape == expected.shape
    assert np.abs(default - expected).max() <= 1e-7
    options: Any = {"num_channels": expected.shape[1], "start": first / file.rate, "dtype": "float64"}
    batch = spdl.io.load_audio_batch([source], num_samples=end - first, sample_rate=file.rate, **options)
    assert np.array_equal(spdl.io.to_numpy(batch)[0].T, expected)


@law("sound", "wav", _FORMS)
def wav_has_the_samples_that_were_written(draw: Draw, form: str) -> None:
    """By ``load_audio``, ``load_audio_batch`` and ``load_wav``, from a file and from memory, whole and windows."""
    file = _file(draw, form)
    path = draw.folder / "a.wav"
    path.write_bytes(file.data)
    length = len(file.samples)
    first = draw.random.randrange(length)
    end = draw.random.randrange(first + 1, length + 1)
    for source in (str(path), file.data):
        _expect(file, source, 0, length)
        _expect(file, source, first, end)
    if file.dtype is None:
        try:
            spdl.io.load_wav(file.data)
        except spdl.io.WAVError as error:
            assert "law" in str(error)  # noqa: PT017
            return
        raise AssertionError("load_wav has read samples that are coded")
    stored = np.asarray(spdl.io.load_wav(file.data))
    assert stored.dtype == np.dtype(file.dtype)
    assert np.array_equal(stored, file.stored)
    part = np.asarray(spdl.io.load_wav(file.data, first / file.rate, (end - first - 0.5) / file.rate))
    assert np.array_equal(part, file.stored[first:end])


@law("sound", "wav, by soundfile", _FORMS, SOUNDFILE)
def wav_has_what_soundfile_reads(draw: Draw, form: str) -> None:
    """It knows no BW64, takes sizes that were not filled in for damage, and skips chunks as we do."""
    file = _file(draw, form, _KINDS[:3], is_stated=True)
    expected = sound_of_bytes(file.data)
    assert np.array_equal(_loaded(file.data, dtype="float64"), expected)


@law("sound", "wav, by SciPy", [form for form in _FORMS if "law" not in form], "scipy")
def wav_has_what_scipy_reads(draw: Draw, form: str) -> None:
    """Its integers are left-justified as those of ``load_wav``, and so are its 24 bits."""
    from scipy.io import wavfile

    file = _file(draw, form, _KINDS[:2], is_stated=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wavfile.WavFileWarning)  # that it skips chunks
        rate, expected = wavfile.read(io.BytesIO(file.data))
    found = np.asarray(spdl.io.load_wav(file.data))
    assert rate == file.rate
    assert np.array_equal(found, expected.reshape(len(expected), -1))


_SCIPY = {"wav/u8": "u1", "wav/s16": "i2", "wav/s32": "i4", "wav/f32": "f4", "wav/f64": "f8"}


@law("sound", "wav, written by SciPy", _SCIPY, "scipy", SOUNDFILE)
def wav_has_what_scipy_wrote(draw: Draw, form: str) -> None:
    """In both orders of bytes; soundfile is the judge."""
    from scipy.io import wavfile

    channels, rate = draw.random.randrange(1, 9), draw.random.choice([8000, 44100, 12345])
    _, stored, _ = _samples(
        draw, form.split("/")[1], 8 * int(_SCIPY[form][1]), draw.random.randrange(1, 3000), channels
    )
    file = io.BytesIO()
    wavfile.write(file, rate, stored.astype(draw.random.choice("<>") + _SCIPY[form]))
    assert np.array_equal(np.asarray(spdl.io.load_wav(file.getvalue())), stored)
    assert np.array_equal(_loaded(file.getvalue(), dtype="float64"), sound_of_bytes(file.getvalue()))


@law("sound", "wav, by wave", ["wav/u8", "wav/s16", "wav/s24", "wav/s32"])
def wav_has_what_the_standard_library_wrote(draw: Draw, form: str) -> None:
    """Written and read by ``wave``."""
    coding = form.split("/")[1]
    width, channels = _CODINGS[coding][1] // 8, draw.random.randrange(1, 9)
    rate, num_samples = draw.random.choice([8000, 44100, 12345]), draw.random.randrange(1, 3000)
    data, stored, samples = _samples(draw, coding, 8 * width, num_samples, channels)
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((channels, width, rate, num_samples, "NONE", ""))
        writer.writeframes(data)
    assert np.array_equal(np.asarray(spdl.io.load_wav(file.getvalue())), stored)
    assert np.array_equal(_loaded(file.getvalue(), dtype="float64"), samples)


_ADPCM = {"wav/ima adpcm": "adpcm_ima_wav", "wav/ms adpcm": "adpcm_ms", "wav/g726": "g726"}


@law("sound", "wav, coded", _ADPCM)
def coded_wav_has_what_the_tool_decodes(draw: Draw, form: str) -> None:
    """All of it, or as many samples as were encoded, where ``fact`` says so; see row 102."""
    channels = 1 if form == "wav/g726" else draw.random.choice([1, 2])
    rate = 8000 if form == "wav/g726" else draw.random.choice([8000, 22050, 44100])
    samples = signal(draw, channels, draw.random.randrange(500, 12000), rate)
    path = draw.folder / "a.wav"
    make(draw, "-f", "s16le", "-ar", rate, "-ac", channels, "-i", "-", "-c:a", _ADPCM[form], path,
         stdin=samples.T.tobytes())  # fmt: skip
    whole = _loaded(str(path))
    decoded = decoded_sound(path, channels)
    assert len(whole) in (decoded.shape[1], samples.shape[1])
    assert np.array_equal(whole.T, decoded[:, : len(whole)])
    assert np.array_equal(whole, _loaded(path.read_bytes()))
    first = draw.random.randrange(len(whole))
    end = draw.random.randrange(first + 1, len(whole) + 1)
    window = (Fraction(first, rate), Fraction(end, rate))
    assert np.array_equal(_loaded(str(path), window), whole[first:end])
    try:
        spdl.io.load_wav(path.read_bytes())
    except spdl.io.WAVError:
        return
    raise KnownExceptionError(102)
