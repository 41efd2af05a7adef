"""Law: a window is the slice of the whole, for every encoder of sound of the ffmpeg tool, in every container for it.

Many codecs, above all those of speech and most kinds of ADPCM, predict from all that came before, so that nothing but
decoding from the first packet on gives the same samples.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, law
from tests.differential.judges.ffmpeg_sound import NEWEST, SYSTEM, decoded_sound, make
from tests.differential.sound.files import signal
from tests.differential.sound.windows import check_windows

__all__ = ["ENCODERS", "LACKING"]

_MANY: Final = ("asf", "avi", "matroska", "mov", "nut", "w64", "wav", "wtv")
_RATES: Final = (44100, 48000, 32000)


@dataclass(frozen=True, slots=True)
class _Encoder:
    """What an encoder takes, and where its packets may be.

    Attributes:
        containers: Names of muxers.
        rates: In samples per second.
        channels: Numbers of channels.
        options: Of the encoder: for each name, values to choose among.
        tolerance: How far samples of a window may be from those of the whole; see ``files.py``.
        noise: Amplitude of the noise in the sound; see ``files.py``.
        is_lossless: Whether 16 bits come back as they were.
        block: What the number of samples has to be a multiple of.
        tool: The tool that has the encoder.
    """

    containers: tuple[str, ...]
    rates: tuple[int, ...] = _RATES
    channels: tuple[int, ...] = (1, 2)
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    tolerance: float = 0.0
    noise: float = 0.05
    is_lossless: bool = False
    block: int = 1
    tool: str = SYSTEM


def _pcm(*containers: str, **more: Any) -> _Encoder:
    return _Encoder(containers, **{"is_lossless": True, **more})


_ADPCM = (*_MANY, "caf")
_MP2 = _Encoder(
    ("asf", "avi", "caf", "matroska", "mov", "mp2", "mpegts", "vob", "nut"), _RATES, tolerance=2e-4
)  # its decoder keeps the error of its rounding
_AC3 = ("ac3", "asf", "avi", "caf", "matroska", "mov", "mp4", "mpegts", "vob", "nut", "w64", "wav", "wtv")
_MP3 = ("asf", "avi", "flv", "matroska", "mov", "mp3", "mp4", "mpegts", "nut", "wav", "wtv")

ENCODERS: Final[dict[str, _Encoder]] = {
    "aac": _Encoder(
        ("3gp", "adts", "asf", "avi", "flv", "latm", "matroska", "mov", "mp4", "mpegts", "nut"), (44100, 22050),
        options=(("-aac_pns", ("0",)),),
    ),
    "ac3": _Encoder(_AC3, tolerance=2e-2, noise=0.0),
    "ac3_fixed": _Encoder(_AC3, tolerance=2e-2, noise=0.0),
    "adpcm_adx": _Encoder(("adx",)),
    "adpcm_argo": _Encoder(("argo_asf",), (44100, 22050)),
    "adpcm_ima_alp": _Encoder(("alp",), (22050,), block=2),
    "adpcm_ima_apm": _Encoder(("apm",), (44100, 22050), block=2),
    "adpcm_ima_qt": _Encoder(("aiff", "caf", "mov")),
    "adpcm_ima_ssi": _Encoder(("kvag",), block=2),
    "adpcm_ima_wav": _Encoder(_ADPCM),
    "adpcm_ima_ws": _Encoder(("wsaud",), (44100, 22050)),
    "adpcm_ms": _Encoder(_ADPCM),
    "adpcm_swf": _Encoder(("asf", "avi", "flv", "matroska", "mov", "nut", "w64", "wav", "wtv"), (44100, 22050, 11025)),
    "adpcm_yamaha": _Encoder((*_MANY, "mmf"), (44100, 22050)),
    "alac": _Encoder(("caf", "matroska", "mov", "mp4"), is_lossless=True),
    "aptx": _Encoder(("aptx",), (48000,), (2,)),
    "aptx_hd": _Encoder(("aptx_hd",), (48000,), (2,)),
    "comfortnoise": _Encoder(("nut",), (8000,), (1,)),
    "dca": _Encoder(
        ("asf", "avi", "dts", "matroska", "mov", "mp4", "mpegts", "vob", "nut", "w64", "wav", "wtv"),
        (44100, 48000), (2,),
    ),
    "dfpwm": _Encoder(("asf", "avi", "dfpwm", "matroska", "nut", "w64", "wav", "wtv"), (48000,), (1,)),
    "eac3": _Encoder(("asf", "avi", "eac3", "matroska", "mov", "mp4", "mpegts", "w64", "wav", "wtv")),
    "flac": _Encoder(
        ("asf", "avi", "caf", "flac", "matroska", "mp4", "nut", "ogg", "w64", "wav", "wtv"),
        is_lossless=True,
    ),
    "g722": _Encoder((*_MANY, "au", "g722"), (16000,), (1,)),
    "g723_1": _Encoder((*_MANY, "g723_1"), (8000,), (1,)),
    "g726": _Encoder(
        ("asf", "avi", "matroska", "mov", "w64", "wav", "wtv"),
        (8000,), (1,), (("-code_size", ("2", "3", "4", "5")),),
    ),
    "g726le": _Encoder(("au",), (8000,), (1,), (("-code_size", ("3", "4", "5")),)),
    "libcodec2": _Encoder(("codec2",), (8000,), (1,), (("-mode", ("3200", "2400", "1200", "700C")),)),
    "libgsm": _Encoder(("caf", "gsm", "mov"), (8000,), (1,)),
    "libgsm_ms": _Encoder((*_MANY, "caf"), (8000,), (1,)),
    "libmp3lame": _Encoder(_MP3, (44100, 22050)),
    "libopus": _Encoder(("matroska", "mp4", "mpegts", "nut", "ogg", "webm"), (48000,), tolerance=4e-3),
    "libshine": _Encoder(_MP3, (44100,), (2,)),
    "libspeex": _Encoder(
        ("asf", "matroska", "mov", "nut", "ogg", "ogg", "wtv"), (8000, 16000, 32000), block=12 * 640,  # whole packets
        options=(("-frames_per_packet", ("1", "2", "3", "4")), ("-vbr", ("0", "1")), ("-b:a", ("6k", "12k", "24k"))),
    ),
    "libtwolame": _MP2,
    "libvorbis": _Encoder(("asf", "avi", "matroska", "mp4", "nut", "ogg", "webm"), (44100, 16000)),
    "mlp": _Encoder(("matroska", "mlp"), (44100, 48000), is_lossless=True),
    "mp2": _MP2,
    "mp2fixed": _MP2,
    "nellymoser": _Encoder(("flv",), (8000, 16000, 22050, 44100), (1,)),
    "opus": _Encoder(("matroska", "ogg", "webm"), (48000,), tolerance=4e-3),
    "pcm_bluray": _pcm("mpegts", rates=(48000,), options=(("-mpegts_m2ts_mode", ("1",)),)),
    "pcm_dvd": _pcm("vob", rates=(48000,), channels=(2,)),
    "pcm_s16be_planar": _pcm("nut"),
    "pcm_s16le": _pcm(
        "avi", "caf", "flv", "ircam", "matroska", "mxf", "nut", "voc", "w64", "wav", rates=(44100, 22050)
    ),
    "pcm_s24daud": _Encoder(("daud",), (96000,), (6,)),
    "real_144": _Encoder(("rm", "matroska"), (8000,), (1,)),
    "roq_dpcm": _Encoder(("roq",), (22050,)),
    "s302m": _pcm("mpegts", rates=(48000,), channels=(2,)),
    "sbc": _Encoder(("sbc",), (44100, 48000), options=(("-b:a", ("200k", "328k")),)),
    "truehd": _Encoder(("matroska", "truehd"), (44100, 48000), (2,), is_lossless=True),
    "tta": _Encoder(("tta",), is_lossless=True),
    "vorbis": _Encoder(("matroska", "ogg", "webm"), (44100,), (2,)),
    "wavpack": _Encoder(("matroska", "wv"), is_lossless=True),
    "wmav1": _Encoder(("asf", "avi", "matroska", "wav"), (44100, 22050)),
    "wmav2": _Encoder(("asf", "avi", "matroska", "wav"), (44100, 22050)),
    "libopencore_amrnb": _Encoder(
        ("3gp", "amr", "asf", "avi", "caf", "matroska", "mov", "nut", "wav"),
        (8000,), (1,), tool=NEWEST,
    ),
}  # fmt: skip
_SAMPLES = (
    "alaw", "f32be", "f32le", "f64be", "f64le", "mulaw", "s16be", "s16le_planar", "s24be",
    "s24le", "s24le_planar", "s32be", "s32le", "s32le_planar", "s64be", "s64le", "s8",
    "s8_planar", "u16be", "u16le", "u24be", "u24le", "u32be", "u32le", "u8",
)  # fmt: skip
#: Encoders of the tool that have no cell here, and why.
LACKING: Final[dict[str, str]] = {
    "adpcm_ima_amv": "only for AMV, which has pictures",
    "anull": "no sound",
    "pcm_vidc": "no container for it",
    "sonic": "its decoder is an experiment, and refused as that",
    "sonicls": "its decoder is an experiment, and refused as that",
    **{f"pcm_{name}": "samples as they are, as those of pcm_s16le" for name in _SAMPLES},
}
#: Of those, the others are left to a soak.
_CHEAP = ("libspeex", "g722", "adpcm_yamaha", "adpcm_argo", "libgsm_ms", "g723_1", "eac3", "dca")
#: Containers that say where the sound begins and ends, of which the tool does not take notice in all versions.
_OWN_END = ("3gp", "mov", "mp4", "ogg", "webm", "matroska")


def _check(draw: Draw, name: str) -> None:
    encoder = ENCODERS[name]
    container = draw.random.choice(encoder.containers)
    rate, channels = draw.random.choice(encoder.rates), draw.random.choice(encoder.channels)
    length = int(rate * draw.random.uniform(0.6, 1.4))
    length = max(length - length % encoder.block, encoder.block)
    samples = signal(draw, channels, length, rate, encoder.noise)
    options = [text for option, values in encoder.options for text in (option, draw.random.choice(values))]
    suffix = {"aptx_hd": "aptxhd", "matroska": "mkv", "mpegts": "ts", "truehd": "thd"}.get(container, container)
    path = draw.folder / f"a.{suffix}"
    draw.note(f"{samples.shape[1]} samples, {rate} Hz, {channels} channels")
    make(draw, "-f", "s16le", "-ar", rate, "-ac", channels, "-i", "-", "-c:a", name, "-strict", "-2", *options,
         "-f", container, path, tool=encoder.tool, stdin=samples.T.tobytes())  # fmt: skip
    load: Any = spdl.io.load_audio
    whole = spdl.io.to_numpy(load(path))
    by_tool = decoded_sound(path, len(whole))
    if container not in _OWN_END:
        # The tool drops the last packet of aptX if it is short.
        assert whole.shape[1] == by_tool.shape[1] or (name.startswith("aptx") and whole.shape[1] > by_tool.shape[1])
        count = min(whole.shape[1], by_tool.shape[1])
        if name == "libcodec2":
            raise KnownExceptionError(105)
        assert np.abs(whole[:, :count] - by_tool[:, :count]).max() <= 1e-4
    if encoder.is_lossless:
        assert np.array_equal(whole[:, : samples.shape[1]], samples.astype(np.float32) / 32768)
    late = Fraction(whole.shape[1] * 3 // 4, rate), Fraction(whole.shape[1] * 7 // 8, rate)
    check_windows(draw, path, rate, encoder.tolerance, 3, late)


_FORMS = [f"encoder {name}" for name, encoder in ENCODERS.items() if encoder.tool == SYSTEM]
_OF_NEWEST = [f"encoder {name}" for name, encoder in ENCODERS.items() if encoder.tool == NEWEST]
_COSTLY = [form for form in _FORMS if form.removeprefix("encoder ") not in _CHEAP]


@law("sound", "window", _FORMS, costly=_COSTLY)
def a_window_is_a_slice_for_every_encoder(draw: Draw, form: str) -> None:
    """And the whole has the samples of the tool."""
    _check(draw, form.removeprefix("encoder "))


@law("sound", "window", _OF_NEWEST, NEWEST, costly=_OF_NEWEST)
def a_window_is_a_slice_for_encoders_of_the_newest_tool(draw: Draw, form: str) -> None:
    """Those that the tool of the system lacks."""
    _check(draw, form.removeprefix("encoder "))
