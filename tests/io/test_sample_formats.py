"""Samples of each format become planar float32 as the ffmpeg tool's, bit for bit; as frames, and as one array."""

from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, decoded_audio, tones

EXPRESSIONS = ("sin(440*2*PI*t)", "sin(650*2*PI*t)/2", "sin(870*2*PI*t)/3")
# codec and container: the format that its decoder gives
PACKED = {"pcm_u8": "u8", "pcm_s16le": "s16", "pcm_s32le": "s32", "pcm_f32le": "flt", "pcm_f64le": "dbl"}
PLANAR = {"u8p", "s16p", "s32p", "fltp"}


def packed(codec: str, num_channels: int) -> Path:
    name = f"{codec}-{num_channels}.wav"
    return clip(name, *tones(8000, 0.6, "|".join(EXPRESSIONS[:num_channels])), "-c:a", codec)


def planar(sample_fmt: str, num_channels: int) -> Path:
    name = f"{sample_fmt}-{num_channels}.wv"
    source = tones(8000, 0.6, "|".join(EXPRESSIONS[:num_channels]))
    return clip(name, *source, "-c:a", "wavpack", "-sample_fmt", sample_fmt)


def check(path: Path, num_channels: int) -> None:
    expected = decoded_audio(path, num_channels).T
    assert expected.shape == (num_channels, 4800)
    array = spdl.io.to_numpy(spdl.io.load_audio(path))
    assert array.dtype == np.float32
    assert (array == expected).all()
    frames = spdl.io.decode_packets(spdl.io.demux_audio(path))
    assert (spdl.io.to_numpy(spdl.io.convert_frames(frames)) == expected).all()


@pytest.mark.parametrize("num_channels", [1, 2, 3])
@pytest.mark.parametrize("codec", PACKED)
def test_packed_samples(codec: str, num_channels: int) -> None:
    """Of integers and floats, with one channel, with two, and with more."""
    check(packed(codec, num_channels), num_channels)


@pytest.mark.needs("decoder wavpack", "demuxer wv")
@pytest.mark.parametrize("num_channels", [1, 2, 3])
@pytest.mark.parametrize("sample_fmt", sorted(PLANAR))
def test_planar_samples(sample_fmt: str, num_channels: int) -> None:
    """Each channel in memory of its own."""
    check(planar(sample_fmt, num_channels), num_channels)
