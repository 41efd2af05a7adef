"""Law: an edit list presents the part of the sound that it names, to the sample; by arithmetic."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.judges.ffmpeg_sound import SYSTEM, make
from tests.differential.mp4_edits import Edit, clock_of, write_edits
from tests.differential.sound.files import FORMS, Sound, make_sound
from tests.differential.sound.windows import check_windows

_SOUND = b"soun"
_PACKET = 4608  # the most samples that encoders put into one
_EDITED = [name for name in FORMS if name.split("/")[0] in ("m4a", "mov", "mp4") and name != "mp4/ac3"]


def _loaded(source: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(spdl.io.load_audio(source))


def _trim(draw: Draw, sound: Sound) -> slice:
    """A part of the sound, which the file presents from now on alone, from its start on or later."""
    clock = clock_of(sound.path, _SOUND)
    count = sound.samples.shape[1]
    # A trim to within the last packet of FLAC and ALAC is refused: libav gives none of its samples.
    first = draw.random.randrange(max(count - _PACKET, 1))
    units = draw.random.randint(1, max((count - first) * clock.movie // clock.media, 1))
    edits = [Edit(units, clock.start + first)]
    if draw.random.random() < 0.4:
        edits.insert(0, Edit(draw.random.randint(1, clock.movie // 2), None))
    draw.note(f"{edits} for {clock}")
    write_edits(sound.path, edits, is_wide=draw.random.random() < 0.3, handler=_SOUND)
    length = int(Fraction(units * clock.media, clock.movie) + Fraction(1, 2))
    # What ends with the media but for the rounding to units of the movie ends with the media.
    is_all = abs(length - (count - first)) * clock.movie < clock.media
    return slice(first, count if is_all else first + length)


@law("sound", "edit list", [name for name in _EDITED if name != "mp4/aac 5.1"])
def a_trim_is_exact(draw: Draw, form: str) -> None:
    """One part, from any sample on; and windows of it."""
    sound = make_sound(draw, form, seconds=(0.3, 2.5))
    plain = _loaded(sound.path)
    assert plain.shape == sound.samples.shape
    part = _trim(draw, sound)
    given = _loaded(sound.path)
    assert given.shape == plain[:, part].shape
    assert np.abs(given - plain[:, part]).max() <= sound.form.tolerance + 1e-6
    check_windows(draw, sound.path, sound.rate, sound.form.tolerance)


@law("sound", "edit list of several parts", _EDITED)
def several_parts_are_refused(draw: Draw, form: str) -> None:
    """By every way of reading, but for the media as they are."""
    sound = make_sound(draw, form, seconds=(0.3, 0.6))
    clock = clock_of(sound.path, _SOUND)
    unit = max(clock.movie // 20, 1)
    cut = draw.random.randrange(sound.samples.shape[1] // 2)
    edits = draw.random.choice(
        [
            [Edit(unit, clock.start), Edit(unit, clock.start + cut)],
            [Edit(unit, clock.start + cut), Edit(unit, None), Edit(unit, clock.start)],
            [Edit(unit, clock.start + cut, 1 << 15)],
        ]
    )
    draw.note(f"{edits} for {clock}")
    write_edits(sound.path, edits, handler=_SOUND)
    for load in (spdl.io.load_audio, spdl.io.demux_audio):
        with pytest.raises(spdl.io.DemuxError, match=r"edit list presents several parts of the sound.*ignore_editlist"):
            load(sound.path)
    with spdl.io.Demuxer(sound.path) as demuxer, pytest.raises(spdl.io.DemuxError, match="edit list"):
        next(iter(demuxer.streaming_demux(num_packets=1)))
    config = spdl.io.demux_config(format_options={"ignore_editlist": "1"})
    media = spdl.io.to_numpy(spdl.io.load_audio(sound.path, demux_config=config))
    assert media.shape[1] >= sound.samples.shape[1]


@law("sound", "edit list beside pictures", ["mp4/mp3", "m4a/aac", "mov/pcm"])
def sound_beside_edited_pictures_is_its_own(draw: Draw, form: str) -> None:
    """Several parts of the pictures, and one of the sound, each as its own list says; also read together."""
    sound = make_sound(draw, form, seconds=(0.6, 1.2))
    path = draw.folder / f"film{sound.form.suffix}".replace("m4a", "mp4")
    picture = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=1.2")
    make(
        draw,
        *picture,
        "-i",
        sound.path,
        "-map",
        0,
        "-map",
        "1:a",
        "-c:a",
        "copy",
        "-c:v",
        "mpeg4",
        "-bf",
        2,
        path,
        tool=SYSTEM,
    )
    plain = _loaded(path)
    clock = clock_of(path)
    step, unit = clock.media // 25, clock.movie // 25
    bounds = sorted(draw.random.sample(range(30), 4))
    edits = [Edit((bounds[i + 1] - bounds[i]) * unit, clock.start + bounds[i] * step) for i in (0, 2)]
    draw.note(f"{edits} for {clock}")
    write_edits(path, edits)
    part = _trim(draw, Sound(path, sound.form, sound.rate, (plain * 32767).astype(np.int16)))
    given = _loaded(path)
    assert given.shape == plain[:, part].shape
    assert np.abs(given - plain[:, part]).max() <= sound.form.tolerance + 1e-6
    frames = spdl.io.decode_packets(spdl.io.demux_video(path))
    count = bounds[1] - bounds[0] + bounds[3] - bounds[2]
    assert frames.get_pts() == [number * step for number in range(count)]
    with spdl.io.Demuxer(path) as demuxer:
        chosen = {demuxer.video_stream_index, demuxer.audio_stream_index}
        decoders: dict[int, Any] = {index: spdl.io.Decoder(demuxer.codec(index)) for index in chosen}
        parts: dict[int, list[Any]] = {index: [] for index in chosen}
        for chunk in demuxer.streaming_demux(chosen, num_packets=draw.random.randint(1, 20)):
            for index, packets in chunk.items():
                parts[index] += decoders[index].streaming_decode_packets(packets)
        for index, decoder in decoders.items():
            parts[index] += decoder.flush()
        assert [pts for each in parts[demuxer.video_stream_index] for pts in each.get_pts()] == frames.get_pts()
        sounds = [spdl.io.to_numpy(spdl.io.convert_frames(each)) for each in parts[demuxer.audio_stream_index]]
        assert np.array_equal(np.concatenate(sounds, axis=1), given)
