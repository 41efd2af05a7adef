"""Files that soundfile writes, in every container and coding that it has: read as it reads them, or refused by name."""

from typing import Any, Final

import numpy as np

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, law
from tests.differential.judges.sound_file import SOUNDFILE
from tests.differential.sound.files import signal

_PCM: Final = ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_CODINGS: Final[dict[str, tuple[str, ...]]] = {
    "WAV": (*_PCM, "PCM_U8", "IMA_ADPCM", "MS_ADPCM", "GSM610", "G721_32", "NMS_ADPCM_16"),
    "WAVEX": (*_PCM, "PCM_U8"),
    "RF64": (*_PCM, "PCM_U8"),
    "W64": (*_PCM, "PCM_U8", "MS_ADPCM"),
    "AIFF": (*_PCM, "PCM_S8", "PCM_U8", "IMA_ADPCM", "GSM610"),
    "AU": (*_PCM, "PCM_S8"),
    "CAF": (*_PCM, "PCM_S8", "ALAC_16", "ALAC_24", "ALAC_32"),
    "VOC": ("PCM_16", "PCM_U8", "ULAW", "ALAW"),
    "NIST": ("PCM_16", "PCM_24", "PCM_32", "ULAW", "ALAW"),
    "IRCAM": ("PCM_16", "PCM_32", "FLOAT", "ULAW", "ALAW"),
    "FLAC": ("PCM_16", "PCM_24", "PCM_S8"),
    "OGG": ("VORBIS", "OPUS"),
    "MP3": ("MPEG_LAYER_III",),
}
_FORMS = [f"soundfile {container}/{coding}" for container, codings in _CODINGS.items() for coding in codings]
_ONE_CHANNEL = ("GSM610", "G721_32", "NMS_ADPCM_16")
_DRIFTING = ("MS_ADPCM", "IMA_ADPCM")
#: What FFmpeg does not know, or takes for something else.
_REFUSED = ("G721_32", "NMS_ADPCM_16")


@law("sound", "by its writer", _FORMS, SOUNDFILE)
def what_soundfile_wrote_is_read_as_by_itself(draw: Draw, form: str) -> None:
    """The same number of samples, and the same samples; by path and from memory."""
    import soundfile

    container, coding = form.removeprefix("soundfile ").split("/")
    channels = 1 if coding in _ONE_CHANNEL else draw.random.choice([1, 2])
    # soundfile decodes Opus at the rate that was encoded, FFmpeg always at 48 kHz.
    rate = draw.random.choice([48000] if coding == "OPUS" else [8000, 22050, 44100, 48000])
    samples = signal(draw, channels, draw.random.randrange(1000, 12000), rate).T / 32768
    orders = [order for order in ("FILE", "BIG") if soundfile.check_format(container, coding, order)]
    if container == "WAV" and coding not in _PCM:
        orders = ["FILE"]
    order = draw.random.choice(orders)
    path = draw.folder / f"a.{container.lower()}"
    draw.note(f"{container} {coding} {order}: {samples.shape} at {rate} Hz")
    soundfile.write(str(path), samples, rate, subtype=coding, endian=order, format=container)
    expected = soundfile.read(str(path), dtype="float64", always_2d=True)[0]
    load: Any = spdl.io.load_audio
    if coding in _REFUSED:
        try:
            load(str(path))
        except spdl.io.OpenError as error:
            assert "is not supported" in str(error)  # noqa: PT017
            return
        raise AssertionError("it was read, and has to be refused")
    found = spdl.io.to_numpy(load(str(path), dtype="float64")).T
    assert np.array_equal(spdl.io.to_numpy(load(path.read_bytes(), dtype="float64")).T, found)
    if coding == "GSM610" and found.shape != expected.shape:
        raise KnownExceptionError(104)
    if coding in _DRIFTING and len(found) == len(samples):
        expected = expected[
            : len(samples)
        ]  # it gives all of the last block, also if its own header says how much is sound
    assert found.shape == expected.shape
    difference = np.abs(found - expected).max()
    if coding in _DRIFTING and 2e-6 < difference < 0.1:
        raise KnownExceptionError(103)
    # FFmpeg has a decoder of Opus of its own, and both are within what RFC 6716, section 6, allows.
    most = {"OPUS": 2e-3, "VORBIS": 1e-5, "MPEG_LAYER_III": 1e-5}.get(coding, 1e-7)
    assert difference <= most


_UNREADABLE: Final = {"AU little": "AU", "MAT4": "MAT4", "MAT5": "MAT5", "WVE": "WVE", "XI": "XI"}


@law("sound", "refused", [f"soundfile {name}" for name in _UNREADABLE], SOUNDFILE)
def what_is_not_read_is_refused_by_name(draw: Draw, form: str) -> None:
    """FFmpeg takes some of them for damaged MP3."""
    import soundfile

    name = form.removeprefix("soundfile ")
    container = _UNREADABLE[name]
    codings = sorted(coding for coding in soundfile.available_subtypes(container) if not coding.startswith("G72"))
    order = "LITTLE" if name == "AU little" else "FILE"
    rate = 8000 if name == "WVE" else draw.random.choice([8000, 44100])
    samples = signal(draw, 1, draw.random.randrange(1000, 12000), rate).T / 32768
    coding = draw.random.choice(codings)
    path = draw.folder / "a.sound"
    draw.note(f"{container} {coding} {order}: {samples.shape} at {rate} Hz")
    soundfile.write(str(path), samples, rate, subtype=coding, endian=order, format=container)
    load: Any = spdl.io.load_audio
    for source in (str(path), path.read_bytes()):
        try:
            load(source)
        except spdl.io.OpenError as error:
            assert "which is not supported; convert it" in str(error)  # noqa: PT017
        else:
            raise AssertionError("it was read, and has to be refused")
