"""Filters of decoders: one chain, made for the frames that come."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.support.media import clip, decoded_audio, decoded_video, h264, pictures, tones


def array(frames: Any) -> Any:
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def decode(path: Path, filter_desc: str | None) -> Any:
    return spdl.io.decode_packets(spdl.io.demux_video(path), filter_desc=filter_desc)


@pytest.mark.parametrize(
    "chain",
    [
        "scale=32:24",
        "hflip,vflip",
        "fps=10",
        "fps=60",
        "trim=start=0.1:end=0.3",
        "trim=end_frame=3",
        "split[a][b];[a][b]hstack,scale=64:48",
        "tpad=stop=3:stop_mode=clone",
        "reverse",
    ],
)
def test_chain_gives_what_the_tool_gives(chain: str) -> None:
    """Every frame of every chain, one input and one output."""
    path = h264(duration=0.4)
    frames = decode(path, f"{chain},format=rgb24")
    result = array(frames)
    expected = decoded_video(path, "rgb24", result.shape[1:], "-vf", f"{chain},format=rgb24")
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ("nothing", "No such filter: 'nothing'"),
        ("", "No such filter: ''|No filters specified"),
        ("hflip,,", "No such filter: ''"),
        ("scale=w=wide", "wide"),
        ("crop=5000:5000", "Invalid too big or non positive size"),
        ("split", "not connected to any (destination|source)"),
        ("aresample=8000", "Media type mismatch"),
        ("hflip\0", "contains a null character"),
    ],
)
def test_bad_chain_is_an_error_with_the_reasons_of_ffmpeg(chain: str, words: str) -> None:
    """The message names the description, the source, and what FFmpeg does not like."""
    path = h264(duration=0.4)
    with pytest.raises(spdl.io.FilterError, match=words) as caught:
        decode(path, chain)
    assert chain.split("\0")[0] in str(caught.value)
    assert caught.value.source == str(path)


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["tpad=stop=-1", "loop=-1:size=2"])
def test_chain_without_end_is_an_error(chain: str) -> None:
    """It neither hangs nor fills the memory."""
    with pytest.raises(spdl.io.FilterError, match="needs a trim after it"):
        decode(h264(duration=0.4), chain)


def test_padding_without_end_and_with_a_trim_is_fine() -> None:
    """That is how the descriptions of ours fill up."""
    path = clip("a.wav", *tones(duration=0.1), "-c:a", "pcm_s16le")
    frames = spdl.io.decode_packets(
        spdl.io.demux_audio(path), filter_desc=spdl.io.get_audio_filter_desc(num_frames=2000)
    )
    samples = array(frames)
    assert samples.shape == (1, 2000)
    assert not samples[0, 800:].any()
    assert samples[0, :800].any()


def test_frames_that_change_their_size_get_a_new_graph(tmp_path: Path) -> None:
    """A stream whose pictures change in the middle comes out in one size, as from the tool."""
    large = clip("large.mjpeg", *pictures(duration=0.2), "-c:v", "mjpeg")
    small = clip("small.mjpeg", *pictures(size="32x32", duration=0.2), "-c:v", "mjpeg")
    path = tmp_path / "both.mjpeg"
    path.write_bytes(large.read_bytes() + small.read_bytes())
    result = array(decode(path, "scale=16:16,format=rgb24"))
    expected = decoded_video(path, "rgb24", (16, 16, 3), "-vf", "scale=16:16,format=rgb24")
    assert len(expected) > 5
    np.testing.assert_array_equal(result, expected)


def test_more_channels_than_there_are_names_for_come_through() -> None:
    """A file of nine channels says nothing of their places, and none is needed."""
    path = clip("nine.wav", *tones(duration=0.1, expression="|".join(f"0.{i}" for i in range(1, 10))))
    packets = spdl.io.demux_audio(path)
    samples = array(spdl.io.decode_packets(packets))
    np.testing.assert_array_equal(samples.T, decoded_audio(path, 9))
