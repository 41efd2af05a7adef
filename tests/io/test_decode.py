"""From packets to frames, judged by the ffmpeg tool."""

import numpy as np
import pytest

import spdl.io
from spdl.io import decode_packets, demux_audio, demux_image, demux_video, to_numpy
from tests.support.media import clip, decoded_audio, decoded_video, h264, pictures, tones


def test_video_is_rgb24_by_default() -> None:
    """Every picture, in display order, as the ffmpeg tool decodes it."""
    frames = decode_packets(demux_video(h264()))
    assert (frames.pix_fmt, frames.width, frames.height, len(frames)) == ("rgb24", 64, 48, 50)
    assert (to_numpy(spdl.io.convert_frames(frames)) == decoded_video(h264(), "rgb24", (48, 64, 3))).all()


def test_audio_is_fltp_by_default() -> None:
    """Every sample as the ffmpeg tool decodes it."""
    path = clip("tones.flac", *tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)"))
    frames = decode_packets(demux_audio(path))
    assert (frames.sample_fmt, frames.num_channels, frames.sample_rate, len(frames)) == ("fltp", 2, 8000, 16000)
    assert (to_numpy(spdl.io.convert_frames(frames)) == decoded_audio(path, 2).T).all()


def test_image_is_rgb24_by_default() -> None:
    """One picture."""
    path = clip("picture.png", *pictures(), "-frames:v", "1")
    frames = decode_packets(demux_image(path))
    assert isinstance(frames, spdl.io.ImageFrames)
    assert (to_numpy(spdl.io.convert_frames(frames)) == decoded_video(path, "rgb24", (48, 64, 3))[0]).all()


def test_packets_are_consumed() -> None:
    """Decoding them again is an error that is a ``TypeError``; a clone is independent."""
    packets = demux_video(h264())
    clone = packets.clone()
    decode_packets(packets)
    with pytest.raises(spdl.io.ConsumedError):
        decode_packets(packets)
    assert len(decode_packets(clone)) == 50


def test_window_is_exact_to_the_frame() -> None:
    """Half open."""
    frames = decode_packets(demux_video(h264(), timestamp=(0.52, 1.24)))
    expected = decoded_video(h264(), "rgb24", (48, 64, 3))[13:31]
    assert np.allclose(frames.get_timestamps(), [index / 25 for index in range(13, 31)])
    assert (to_numpy(spdl.io.convert_frames(frames)) == expected).all()
