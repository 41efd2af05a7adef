"""FLAC is decoded by code of ours where it is as it should be: the frames are those that libavcodec gives."""

import numpy as np
import pytest

import spdl.io
from spdl.io import decode_config, decode_packets, demux_audio
from tests.support.clip_matrix import AUDIO_CLIPS
from tests.support.flac import flac_file

_LIBAVCODEC = decode_config(decoder="flac")
_CLIPS = {each.name: each for each in AUDIO_CLIPS if "flac" in each.name}


def _parts(frames: spdl.io.AudioFrames) -> tuple[str, object, str, bytes]:
    """What is known of frames: their times, formats and samples."""
    array = spdl.io.to_numpy(spdl.io.convert_frames(frames.clone()))
    return repr(frames), array.shape, array.dtype.str, array.tobytes()


@pytest.mark.parametrize("name", _CLIPS)
def test_frames_are_those_of_libavcodec(name: str) -> None:
    """Of 16 and 24 bits, with up to six channels, from each container, whole and in windows."""
    path = str(_CLIPS[name].path)
    for window in (None, (0.1, 0.2)):
        ours, expected = (
            _parts(decode_packets(demux_audio(path, timestamp=window), filter_desc=None, decode_config=config))
            for config in (None, _LIBAVCODEC)
        )
        assert ours == expected


def test_a_frame_with_a_wrong_checksum_is_concealed_as_libavcodec_does_it() -> None:
    """What is not right goes to libavcodec: tolerated damage gives the same samples, and is counted."""
    samples = np.random.default_rng(3).integers(-3000, 3000, (2, 2000), dtype=np.int32)
    file, positions = flac_file(samples, 400)
    damaged = bytearray(file)
    damaged[positions[2] + 300] ^= 1
    ours, expected = (
        decode_packets(demux_audio(bytes(damaged)), filter_desc=None, decode_config=config)
        for config in (
            decode_config(tolerate_errors=True),
            decode_config(tolerate_errors=True, decoder="flac"),
        )
    )
    assert ours.num_errors == expected.num_errors == 1
    assert _parts(ours) == _parts(expected)
