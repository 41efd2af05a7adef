"""A late window of sound reads the file around it, and not all that is before."""

from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip

NOISE = ("-f", "lavfi", "-i", "anoisesrc=duration=60:sample_rate=44100:seed=1:amplitude=0.3")
# name of the clip: what encodes it
CLIPS = {
    "pcm.wav": ("-c:a", "pcm_s16le"),
    "pcm.w64": ("-c:a", "pcm_s16le"),
    "pcm.aiff": (),
    "pcm.au": ("-c:a", "pcm_s16be"),
    "flac.flac": (),
    "mp3.mp3": ("-c:a", "libmp3lame", "-b:a", "320k"),
    "vorbis.ogg": ("-c:a", "libvorbis", "-q:a", "9"),
    "opus.ogg": ("-c:a", "libopus", "-b:a", "200k"),
}


def bytes_read() -> int:
    """By this process so far, by calls that read."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("name", CLIPS)
def test_a_late_window_reads_little_and_is_exact(name: str) -> None:
    """The samples are those of the whole."""
    path = clip(name, *NOISE, *CLIPS[name])
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    rate = spdl.io.demux_audio(path).sample_rate
    first = 1105 if name == "mp3.mp3" else 0  # the encoder's delay
    before = bytes_read()
    part = spdl.io.to_numpy(spdl.io.load_audio(path, (55, 55.1)))
    assert bytes_read() - before < path.stat().st_size * 0.6
    assert np.array_equal(part, whole[:, 55 * rate - first : 55 * rate - first + rate // 10])


@pytest.mark.parametrize("name", ["pcm.wav", "flac.flac", "mp3.mp3", "vorbis.ogg"])
def test_windows_in_any_order_are_exact(name: str) -> None:
    """Of one demuxer, also the last samples."""
    path = clip(name, *NOISE, *CLIPS[name])
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    first = 1105 if name == "mp3.mp3" else 0
    with spdl.io.Demuxer(path) as demuxer:
        for start in (59.5, 3.25, 32.0, 0.5, 59.75):
            frames = spdl.io.decode_packets(demuxer.demux_audio((start, start + 0.5)))
            begin = int(start * 44100) - first
            array = spdl.io.to_numpy(spdl.io.convert_frames(frames))
            assert np.array_equal(array, whole[:, begin : begin + 22050]), start


def test_mp3_of_varying_rate_is_exact() -> None:
    """Where a place in the file does not tell the time."""
    path = clip("vbr.mp3", *NOISE, "-c:a", "libmp3lame", "-q:a", "4")
    whole = spdl.io.to_numpy(spdl.io.load_audio(path))
    part = spdl.io.to_numpy(spdl.io.load_audio(path, (55, 55.1)))
    assert np.array_equal(part, whole[:, 55 * 44100 - 1105 :][:, :4410])
