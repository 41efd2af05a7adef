"""Law: a damaged file is an error, and a tolerant reader gets all that can be had of it.

Files are cut off, or some of their bytes are changed. What can be had is what the ffmpeg tool gets, and at least what
lies before the damage.
"""

import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.judges.ffmpeg_sound import decoded_sound, make
from tests.differential.sound.files import Sound, make_sound

_TOLERANT: Final[dict[str, Any]] = {
    "demux_config": spdl.io.demux_config(tolerate_errors=True),
    "decode_config": spdl.io.decode_config(tolerate_errors=True),
}
#: Those where every changed byte of the sound is noticed by a checksum.
_CHECKED = ("flac/flac", "ogg/flac", "ogg/vorbis", "ogg/opus")
#: Those that say how much there should be.
_SIZED = (
    *_CHECKED, "m4a/aac", "m4a/alac", "mov/pcm", "wav/pcm", "aiff/pcm", "au/pcm", "w64/pcm", "caf/pcm", "mkv/aac",
    "mkv/flac", "mkv/pcm", "webm/opus",
)  # fmt: skip
_DAMAGED = (
    *_SIZED, "mp3/mp3", "mp3/vbr", "mp3/bare", "aac/aac", "ac3/ac3", "ts/aac", "mkv/vorbis", "flv/aac", "wv/wavpack",
    "tta/tta",
)  # fmt: skip
#: All but one of each kind.
_COSTLY = [form for form in _DAMAGED if form not in (*_CHECKED, "m4a/aac", "wav/pcm", "mp3/mp3", "mkv/aac")]


def _load(source: Any, **options: Any) -> NDArray[Any]:
    load: Any = spdl.io.load_audio
    return spdl.io.to_numpy(load(source, **options))


def _error_of(source: Any) -> str | None:
    try:
        _load(source)
    except spdl.io.MediaError as error:
        return f"{type(error).__name__}: {error}"
    return None


def _check_tolerant(draw: Draw, sound: Sound, path: Path, damaged: Path, first: float, is_cut: bool) -> None:
    """``first``: where the damage begins, as a part of the sound."""
    whole = _load(path)
    try:
        by_tool = decoded_sound(damaged, sound.num_channels).shape[1]
    except subprocess.CalledProcessError:
        by_tool = 0
    try:
        found = _load(damaged, **_TOLERANT)
    except spdl.io.MediaError as error:
        draw.note(f"tolerant: {error}")
        found = np.zeros((sound.num_channels, 0), np.float32)
    # Of a packet of WavPack or TTA, and of a cluster of Matroska, that are damaged, nobody has anything.
    before = min(int(first * whole.shape[1]), by_tool) - _MARGIN
    draw.note(f"{whole.shape[1]} samples, {before} before the damage, {found.shape[1]} found, by the tool {by_tool}")
    assert found.shape[1] >= min(by_tool, whole.shape[1]) - _MARGIN
    if before > 0:
        assert np.abs(found[:, :before] - whole[:, :before]).max() <= max(sound.form.tolerance, 2e-4)
    if not is_cut:
        assert found.shape[1] <= whole.shape[1] + _MARGIN


_MARGIN = 4 * 2048
_HEADERS = 6000  # bytes: those of Vorbis


def _part(at: int, size: int) -> float:
    """At least that part of the sound lies before there."""
    return max((at - _HEADERS) / size * 0.9, 0)


@law("sound", "cut off", _DAMAGED, costly=_COSTLY)
def a_sound_that_is_cut_off_gives_what_is_there(draw: Draw, form: str) -> None:
    """And an error where the container says how much there should be."""
    sound = make_sound(draw, form, seconds=(0.7, 1.2))
    data = sound.path.read_bytes()
    size = draw.random.randrange(len(data) // 2, len(data) - len(data) // 20)
    if sound.form.suffix in (".m4a", ".mov"):
        moved = draw.folder / f"moved{sound.form.suffix}"
        make(draw, "-i", sound.path, "-c", "copy", "-movflags", "+faststart", moved)
        data = moved.read_bytes()
    draw.note(f"{size} of {len(data)} bytes")
    damaged = draw.folder / f"damaged{sound.form.suffix}"
    damaged.write_bytes(data[:size])
    error = _error_of(str(damaged))
    draw.note(error)
    assert error is not None or form not in _SIZED
    for source in (str(damaged), damaged.read_bytes()):
        assert (_error_of(source) is None) == (error is None)
    _check_tolerant(draw, sound, sound.path, damaged, _part(size, len(data)), True)


@law("sound", "changed", [form for form in _DAMAGED if not form.startswith(("m4a", "mov"))], costly=_COSTLY)
def a_sound_with_changed_bytes_gives_the_rest(draw: Draw, form: str) -> None:
    """And an error where a checksum tells."""
    sound = make_sound(draw, form, seconds=(0.7, 1.2))
    data = bytearray(sound.path.read_bytes())
    at = draw.random.randrange(len(data) // 3, len(data) * 2 // 3)
    match draw.random.randrange(3):
        case 0:
            data[at] ^= 1 << draw.random.randrange(8)
        case 1:
            length = draw.random.randrange(2, 300)
            data[at : at + length] = bytes(draw.random.randrange(256) for _ in range(length))
        case _:
            length = draw.random.randrange(50, 300)
            data[at : at + length] = bytes(length)
    draw.note(f"damage at {at} of {len(data)}")
    damaged = draw.folder / f"damaged{sound.form.suffix}"
    damaged.write_bytes(data)
    error = _error_of(str(damaged))
    draw.note(error)
    assert error is not None or form not in _CHECKED
    _check_tolerant(draw, sound, sound.path, damaged, _part(at, len(data)), False)
    if error is None:
        assert abs(_load(str(damaged)).shape[1] - _load(sound.path).shape[1]) <= _MARGIN
