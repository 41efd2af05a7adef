"""Law: the whole is what was encoded; and excerpts at random are drawn from exactly that length."""

import io
import wave
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, law
from tests.differential.judges import pyav_sound as pyav
from tests.differential.judges import sound_file
from tests.differential.judges.ffmpeg_sound import NEWEST, decoded_sound
from tests.differential.sound.files import FORMS, Sound, make_sound

_TELLING = [name for name, form in FORMS.items() if form.tells]


def _whole(sound: Sound, **options: Any) -> NDArray[Any]:
    load: Any = spdl.io.load_audio
    return spdl.io.to_numpy(load(sound.path, **options))


def _streamed(sound: Sound, num_packets: int) -> NDArray[Any]:
    with spdl.io.Demuxer(sound.path) as demuxer:
        decoder: Any = spdl.io.Decoder(demuxer.audio_codec)
        parts: list[Any] = []
        for packets in demuxer.streaming_demux(demuxer.audio_stream_index, num_packets=num_packets):
            parts += decoder.streaming_decode_packets(packets)
        parts += decoder.flush()
    return np.concatenate([spdl.io.to_numpy(spdl.io.convert_frames(part)) for part in parts], axis=1)


def _check_content(sound: Sound, whole: NDArray[Any]) -> None:
    """The samples are those that were encoded, at their places: not one earlier or later fits better."""
    untold = _untold_padding(sound)
    assert whole.shape[1] == sound.samples.shape[1] + untold
    whole = whole[:, : sound.samples.shape[1]]
    expected = sound.samples.astype(np.float32) / 32768
    if sound.form.is_lossless:
        assert np.array_equal(whole, expected)
        return
    middle = slice(whole.shape[1] // 4, whole.shape[1] * 3 // 4)
    errors = {
        shift: float(np.square(np.roll(whole, shift, axis=1)[:, middle] - expected[:, middle]).mean())
        for shift in range(-3, 4)
    }
    assert min(errors, key=errors.__getitem__) == 0, errors
    if untold:
        raise KnownExceptionError(101)


def _untold_padding(sound: Sound) -> int:
    """Padding of LAME, which is from 576 samples on (lame.c, ``lame_encode_flush``), beyond what fits in a tag."""
    if sound.path.suffix != ".mp3":
        return 0
    packet = 1152 if sound.rate >= 32000 else 576
    padding = -(sound.samples.shape[1] + 576) % packet
    padding += packet if padding < 576 else 0
    return int(max(padding - packet - 529, 0))


@law("sound", "whole", _TELLING)
def the_whole_is_what_was_encoded(draw: Draw, form: str) -> None:
    """As many samples, at their places, by every way of decoding."""
    sound = make_sound(draw, form)
    whole = _whole(sound)
    _check_content(sound, whole)
    frames = spdl.io.decode_packets(spdl.io.demux_audio(sound.path))
    assert np.array_equal(spdl.io.to_numpy(spdl.io.convert_frames(frames)), whole)
    assert np.array_equal(_streamed(sound, draw.random.randrange(1, 40)), whole)


@law("sound", "whole, newest writer", [name for name in _TELLING if name.startswith(("m", "webm"))], NEWEST)
def the_whole_of_the_newest_writer_is_what_was_encoded(draw: Draw, form: str) -> None:
    """The same for files of the newest ffmpeg tool."""
    sound = make_sound(draw, form, newest=True)
    _check_content(sound, _whole(sound))


#: Where the newest tool leaves out neither the end of fragments nor that of Opus in MP4; see the judges.
_ENDS_LATE = ("mp4 fragmented/aac", "mp4 fragmented/opus", "mp4/opus", "mp4 empty header/aac")


@law("sound", "whole, by others", [name for name in FORMS if name not in _ENDS_LATE], NEWEST, pyav.PYAV)
def the_whole_is_what_others_decode(draw: Draw, form: str) -> None:
    """The length is that of the newest ffmpeg tool; PyAV has the same samples, and in MP4 some behind them."""
    sound = make_sound(draw, form)
    whole = _whole(sound)
    newest = decoded_sound(sound.path, sound.num_channels, NEWEST)
    other = pyav.sound_of(sound.path)
    draw.note(f"{whole.shape[1]} samples; the newest tool {newest.shape[1]}, PyAV {other.shape[1]}")
    ends_with_edit = sound.path.suffix in (".m4a", ".mov", ".mp4") and form != "mp4/ac3"
    assert whole.shape[1] == (sound.samples.shape[1] if ends_with_edit else newest.shape[1])
    assert ends_with_edit or whole.shape[1] == other.shape[1]
    count = min(whole.shape[1], newest.shape[1])
    difference = np.abs(whole[:, :count] - newest[:, :count]).max()
    if form == "wav/adpcm" and 2e-4 < difference < 0.01:
        raise KnownExceptionError(100)
    assert difference <= max(sound.form.tolerance, 2e-4)


@law("sound", "whole, by soundfile", ["mp3/mp3", "mp3/vbr", "aiff/pcm", "au/pcm", "caf/pcm", "w64/pcm"], "soundfile")
def the_whole_is_what_soundfile_reads(draw: Draw, form: str) -> None:
    """The same samples."""
    sound = make_sound(draw, form)
    expected = sound_file.sound_of(sound.path)
    whole = _whole(sound)
    assert whole.shape == expected.shape
    assert np.abs(whole - expected).max() <= 2e-4


@law("sound", "random", FORMS)
def random_excerpts_are_drawn_from_exactly_the_whole(draw: Draw, form: str) -> None:
    """A seed chooses the place that it chooses in a WAV file as long as the whole, and the samples are those there."""
    sound = make_sound(draw, form)
    rate = draw.random.choice([sound.rate, 16000, 22050])
    whole = _whole(sound, sample_rate=rate, num_channels=1)
    length = draw.random.randrange(1, whole.shape[1] + 1)
    seeds = [draw.random.getrandbits(64) for _ in range(3)]
    options: Any = {"num_samples": length, "sample_rate": rate, "seeds": seeds}
    batch = spdl.io.load_audio_batch([sound.path] * 3, **options)
    reference = spdl.io.load_audio_batch([_wav(whole.shape[1], rate)] * 3, **options)
    draw.note(f"{whole.shape[1]} samples at {rate} Hz, {length} wanted: {batch.excerpts} for {reference.excerpts}")
    for row, excerpt, other in zip(spdl.io.to_numpy(batch), batch.excerpts, reference.excerpts, strict=True):
        assert excerpt is not None
        assert other is not None
        first = round(excerpt.start * rate)
        # At another rate, the file does not last a whole number of samples, as the silence does.
        assert abs(first - round(other.start * rate)) <= (rate != sound.rate)
        assert excerpt.length == other.length == length
        assert np.abs(row - whole[:, first : first + length]).max() <= sound.form.tolerance + 4e-5


def _wav(num_samples: int, rate: int) -> bytes:
    """Silence."""
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setparams((1, 2, rate, num_samples, "NONE", ""))
        file.writeframes(bytes(2 * num_samples))
    return data.getvalue()
